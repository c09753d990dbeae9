"""`taupy import`: files of other tools become trials; what is no such file changes nothing."""

from __future__ import annotations

import gzip
import marshal
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taupy.commands import main
from taupy.formats import registry
from taupy.formats.speedscope import write
from taupy.model.progress import SILENT
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from tests.builders import small_profile
from tests.unit.formats import tau_files
from tests.unit.formats.tau_files import path, row


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tau_profile(folder, nodes=1, routines=3):
    rows = [row(".TAU application", 1, routines, 1, 1 + 5 * routines, "TAU_UTILITY")]
    rows += [row(f"f{n}", 1, 0, 5, 5) for n in range(routines)]
    rows += [path(f".TAU application => f{n}", 1, 0, 5, 5) for n in range(routines)]
    heading = tau_files.metadata(Metric_Name="TIME", Executable="/opt/bin/app")
    text = tau_files.text(rows, heading=heading)
    return tau_files.write(folder, {f"profile.{node}.0.0": text for node in range(nodes)})


def trials():
    with ProfileDB.open("taupy.db") as db:
        return db.trials()


def test_a_folder_becomes_a_trial_that_says_where_it_came_from(state, capsys):
    tau_profile(state / "raw", nodes=3)
    assert main(["import", "raw"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert (
        said.err == "taupy: trial 1 (app/default/1): 12 call paths, 3 threads, from TAU profiles\n"
    )
    (trial,) = trials()
    assert trial.source == f"import tau: {state / 'raw'}"
    assert len(trial.uuid) == 36
    with ProfileDB.open("taupy.db") as db:
        profile = read_profile(db, trial.id)
    assert [m.thread.node for m in profile.threads] == [0, 1, 2]
    assert profile.metadata["Executable"] == "/opt/bin/app"
    assert "taupy.invariants" not in profile.metadata


def test_the_trials_place_in_the_hierarchy_can_be_chosen(state):
    tau_profile(state / "raw")
    assert main(["import", "raw", "--application", "A", "--experiment", "E", "--name", "N"]) == 0
    assert main(["import", "raw"]) == 0
    assert [(t.application, t.experiment, t.name) for t in trials()] == [
        ("A", "E", "N"), ("app", "default", "1")
    ]  # fmt: skip


def test_several_files_are_several_trials_but_threads_of_tau_are_one(state):
    tau_profile(state / "raw", nodes=2)
    (state / "a.collapsed").write_text("main;f 1\n")
    files = ["raw/profile.0.0.0", "raw/profile.1.0.0", "a.collapsed"]
    assert main(["import", *files]) == 0
    one, other = trials()
    assert (one.source, other.source) == (
        f"import tau: {state / 'raw'}", f"import collapsed: {state / 'a.collapsed'}"
    )  # fmt: skip
    assert main(["import", *files, "--name", "N"]) == 2  # a name for two


@pytest.mark.parametrize(("name", "then"), [("7", ["7", "8"]), ("base", ["base", "base (2)"])])
def test_a_name_that_is_taken_is_not_given_twice(state, capsys, name, then):
    (state / "a.collapsed").write_text("main;f 1\n")
    for _ in range(2):
        assert main(["import", "a.collapsed", "--name", name]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert [trial.name for trial in sorted(trials(), key=lambda trial: trial.id)] == then
    taken = f"(another trial is named '{name}')"
    assert taken not in first and second.endswith(taken)


def test_files_that_are_cut_short_are_refused_with_the_byte(state, capsys):
    write(small_profile(), state / "x.json", SILENT)
    whole = (state / "x.json").read_bytes()
    cut = {"cut.json": whole[: len(whole) // 2], "cut.gz": gzip.compress(whole)[:-20],
           "half.gz": gzip.compress(whole)[:400]}  # fmt: skip
    said = {"cut.json": f"the JSON, at byte {len(whole) // 2}", "cut.gz": "gzip data ends early",
            "half.gz": "gzip data ends early, at byte 400"}  # fmt: skip
    for name, data in cut.items():
        (state / name).write_bytes(data)
        assert main(["import", name]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert said[name] in line and "^" not in line and "parse error" not in line
    (state / "bad.json").write_bytes(whole.replace(b",", b";", 1))
    assert main(["import", "bad.json"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "damaged JSON before byte" in line and "^" not in line
    assert not Path("taupy.db").exists()


def test_a_chosen_format_wins_over_the_content(state, capsys):
    (state / "x").write_text("main 1\n")
    assert main(["import", "x"]) == 1
    assert main(["import", "x", "--format", "collapsed"]) == 0
    assert main(["import", "x", "--format", "tau"]) == 1
    assert main(["import", "x", "--format", "nonsense"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "unknown format; taupy reads tau, tau-xml" in lines[0]
    assert "*.taupy-run" in lines[0]
    assert lines[2].startswith("taupy: x: line 1: not a TAU profile")
    assert "'nonsense' is not a format that can be read; use one of tau" in lines[3]


# --- what is refused -----------------------------------------------------------


def deep(open, close=b""):
    return open * 200_000 + close


SPEEDSCOPE = b'{"$schema": "https://www.speedscope.app/file-format-schema.json", '
HOSTILE = {
    "empty": b"",
    "nul": bytes(1000),
    "text": b"hello\n" * 1000,
    "cut.json": SPEEDSCOPE + b'"name": "x", ',
    "deep.json": SPEEDSCOPE + b'"shared": ' + deep(b'{"a":'),
    "lists.json": SPEEDSCOPE + b'"profiles": ' + deep(b"["),
    "digits.json": SPEEDSCOPE + b'"profiles": [' + b"9" * 200_000 + b"}",
    "older.json": b'{"taupy_profile": 1, "uuid": "u"}',
    "marshal.prof": b"{(\xff\xff\xff\x7f",
    "marshal2.prof": marshal.dumps({("f", 1, "f"): (1, 1, 0.0, 0.0, {})})[:-3],
    "bomb.folded": lambda: gzip.compress(b"a;" * (20 << 20), 9),
    "broken.gz": gzip.compress(b"main;f 1\n" * 1000)[:-20],
    "packed.ppk": "PPK".encode("utf-16-be") + b"\0\0\0\2" * 2 + b"\x7f\xff\xff\xff" * 20,
    "profile.0.0.0": b"999999999 templated_functions\n" + b'"f" 1 0 1 1 0 GROUP="" \n' * 10,
    "profile.0.0.1": b'2 templated_functions\n"f" 9e18 0 1 1 0 GROUP="" \n"f" 9e18 0 1 1 0 \n',
    "sqlite.db": b"SQLite format 3\0" + bytes(4080),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line_and_the_database_is_as_it_was(state, capsys, name):
    tau_profile(state / "raw")
    assert main(["import", "raw"]) == 0
    before = Path("taupy.db").read_bytes()
    content = HOSTILE[name]
    (state / name).write_bytes(content() if callable(content) else content)
    capsys.readouterr()
    for options in ([], ["--db", "none.db"]):
        assert main(["import", name, *options]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1 and len(said.err) < 1500
        assert said.err.startswith("taupy: ") and name in said.err
    assert Path("taupy.db").read_bytes() == before
    assert not Path("none.db").exists()


def test_a_folder_is_refused_whole_where_one_file_is_bad(state, capsys):
    tau_profile(state / "raw", nodes=3)
    with open(state / "raw" / "profile.2.0.0", "r+") as file:
        file.truncate(300)
    assert main(["import", "raw"]) == 1
    assert "profile.2.0.0: line " in capsys.readouterr().err
    assert not Path("taupy.db").exists()


def test_a_trial_database_is_distinguished_from_other_files(state, capsys):
    tau_profile(state / "raw")
    assert main(["import", "raw", "--db", "other.db"]) == 0
    assert main(["import", "other.db"]) == 1
    assert "copy its trials with `taupy merge`" in capsys.readouterr().err


def test_pipes_devices_and_missing_files_are_not_waited_for(state, capsys):
    os.mkfifo("pipe")
    for name in ("pipe", "/dev/zero", "missing", "x\0y"):
        assert main(["import", name]) == 1
        assert capsys.readouterr().err.count("\n") == 1


def test_a_foreign_database_stays_as_it_is(state, capsys):
    tau_profile(state / "raw")
    Path("taupy.db").write_text("somebody's text\n" * 100)
    before = Path("taupy.db").read_bytes()
    assert main(["import", "raw"]) == 1
    assert Path("taupy.db").read_bytes() == before


def limited(megabytes):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    return limit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bomb.folded", lambda: gzip.compress(b"a" * (200 << 20), 9)),
        ("bomb.json", lambda: gzip.compress(SPEEDSCOPE + b'"x": "' + b"a" * (200 << 20))),
        ("bomb.ppk", lambda: gzip.compress("PPK".encode("utf-16-be") + bytes(200 << 20), 9)),
        ("deep.folded", lambda: b"f;" * 4_000_000 + b"f 1\n"),
        ("profile.0.0.0", lambda: b'1 templated_functions\n"' + b" => a" * 3_000_000
         + b'" 1 1 1 1 0\n0 aggregates\n'),
    ],
)  # fmt: skip
def test_hostile_files_end_within_ten_seconds_and_half_a_gigabyte(state, name, content):
    (state / name).write_bytes(content())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "taupy", "import", name],
        capture_output=True,
        text=True,
        timeout=240,
        preexec_fn=limited(512),
    )
    assert done.stderr.count("\n") <= 2 and "Traceback" not in done.stderr
    assert (done.returncode == 0) == Path("taupy.db").exists()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10


@pytest.mark.slow
def test_killed_at_any_moment_the_database_has_the_trial_or_not(state):
    tau_profile(state / "small")
    assert main(["import", "small"]) == 0
    tau_profile(state / "raw", nodes=30, routines=400)
    chance = random.Random(11)
    stored = 1
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-m", "taupy", "import", "raw"], stderr=subprocess.DEVNULL
        )
        time.sleep(0.05 + chance.random() * 0.5)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with ProfileDB.open("taupy.db", readonly=False) as db:
            assert db.verify() == []
            found = db.trials()
        assert len(found) in (stored, stored + 1)
        stored = len(found)
        with sqlite3.connect("taupy.db") as connection:
            threads = dict(connection.execute("SELECT trial_id, count(*) FROM thread GROUP BY 1"))
        assert set(threads.values()) <= {1, 30}


def test_samples_without_times_are_shown_unless_time_is_asked_for(state, capsys):
    (state / "a.collapsed").write_text("main;f 30\nmain 5\n")
    assert main(["import", "a.collapsed"]) == 0
    assert main(["pprof"]) == 0
    assert "(metric samples)" in capsys.readouterr().out
    assert main(["pprof", "--metric", "time"]) == 1
    assert "has no metric 'time' (it has: samples)" in capsys.readouterr().err


def test_of_several_metrics_without_time_pprof_asks_which(state, capsys):
    names = ("PAPI_TOT_CYC", "PAPI_FP_INS")
    files = {
        f"MULTI__{name}/profile.0.0.0": tau_files.text([row("f", 1, 0, 5, 5)], metric=name)
        for name in names
    }
    assert main(["import", str(tau_files.write(state / "raw", files))]) == 0
    capsys.readouterr()
    assert main(["pprof"]) != 0
    said = capsys.readouterr().err
    assert "has no metric 'time'; choose one with --metric NAME (it has: PAPI_FP_INS" in said
    assert main(["pprof", "--metric", "PAPI_TOT_CYC"]) == 0
    assert "(metric PAPI_TOT_CYC)" in capsys.readouterr().out


def test_importing_brings_no_heavy_modules(state):
    tau_profile(state / "raw")
    code = (
        "import sys; from taupy.commands import main; main(['import', 'raw']);"
        "print([m for m in ('pandas', 'numpy', 'rich', 'pyarrow', 'ijson', 'google') "
        "if m in sys.modules])"
    )
    Path("taupy.db").unlink(missing_ok=True)
    with ProfileDB.open("taupy.db", create=True):
        pass
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_reader_is_named_in_the_help(capsys):
    with pytest.raises(SystemExit):
        main(["import", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert all(format.name in shown for format in registry.readers())


def test_the_tree_of_a_profile_without_call_paths_shows_its_routines(state, capsys):
    rows = [row(".TAU application", 1, 2, 1, 100, "TAU_UTILITY"), row("main", 1, 2, 39, 99)]
    tau_files.write(
        state / "raw",
        {f"profile.{node}.0.0": tau_files.text([*rows, row("f", 2, 0, 60, 60)]) for node in "01"},
    )
    assert main(["import", "raw"]) == 0
    assert main(["pprof", "--tree", "--thread", "1.0.0"]) == 0
    shown = capsys.readouterr().out
    names = [line[43:].strip() for line in shown.splitlines() if line[:6].strip()[:1].isdigit()]
    assert [name.lstrip("├└│ ") for name in names][:4] == [
        ".TAU application", "(callers not recorded)", "main", "f"
    ]  # fmt: skip
    # The laws that such a tree cannot keep are not asked for.
    assert shown.count("note:") == 2
    assert "note: the file does not have all callers" in shown
    assert "laws" not in shown and "inclusive is not" not in shown
