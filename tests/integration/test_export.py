"""`taupy export`: a trial as a file for other tools, whole or not at all."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from taupy.commands import main
from taupy.formats import csv_, registry
from taupy.formats.tau import profiles as tau
from taupy.model.progress import SILENT
from taupy.profiledb.writer import add_profile
from tests.builders import database_at, gpu_profile, small_profile
from tests.unit.formats.comparing import one, threads


@pytest.fixture(autouse=True)
def database(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    with database_at("taupy.db") as db:
        add_profile(db, small_profile())
        add_profile(db, gpu_profile(2))
    return tmp_path


@pytest.mark.parametrize("name", [format.name for format in registry.writers()])
@pytest.mark.parametrize("trial", ["1", "latest"])
def test_every_format_is_written_and_leaves_nothing_beside(database, capsys, name, trial):
    before = set(Path().iterdir())
    assert main(["export", trial, "--format", name, "-o", "out"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    which = "app" if trial == "1" else "train"
    assert f"({which}/default/1) written to out" in said.err.splitlines()[0]
    assert all(line.startswith("taupy: note: ") for line in said.err.splitlines()[1:])
    assert set(Path().iterdir()) == {*before, Path("out")}


def test_a_trial_goes_out_and_comes_in_again(database, capsys):
    assert main(["export", "1", "--format", "tau", "-o", "out"]) == 0
    assert threads([one(tau, Path("out"))]) == threads([small_profile()])
    assert main(["import", "out"]) == 0
    assert main(["pprof", "--csv", "1"]) == main(["pprof", "--csv", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    half = len(lines) // 2
    assert lines[:half] == lines[half:] and half > 5


def test_the_suffix_says_the_format(database):
    assert main(["export", "1", "-o", "x.speedscope.json"]) == 0
    assert "speedscope" in json.loads(Path("x.speedscope.json").read_text())["$schema"]


def test_text_goes_to_standard_output_if_asked(database, capfdbinary):
    assert main(["export", "1", "--format", "collapsed", "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.startswith(b"thread 0.0.0 MainThread [ns];<module> [{app.py}{1}] 10\n")
    assert b"standard output" in err


def test_what_is_there_stays_unless_force_is_used(database, capsys):
    Path("x.csv").write_text("mine")
    Path("folder").mkdir()
    Path("folder/mine").write_text("mine")
    assert main(["export", "1", "-o", "x.csv"]) == 2
    assert main(["export", "1", "--format", "tau", "-o", "folder"]) == 2
    assert "already exists; --force replaces it" in capsys.readouterr().err
    assert Path("x.csv").read_text() == Path("folder/mine").read_text() == "mine"
    assert main(["export", "1", "-o", "x.csv", "--force"]) == 0
    assert Path("x.csv").read_text().startswith("node,")
    assert main(["export", "1", "--format", "tau", "-o", "folder", "--force"]) == 2
    assert main(["export", "1", "-o", "folder", "--format", "csv", "--force"]) == 2
    assert "contains other files (mine); not replaced" in capsys.readouterr().err
    assert Path("folder/mine").read_text() == "mine"
    Path("folder/mine").rename("folder/profile.0.0.0")
    assert main(["export", "1", "--format", "tau", "-o", "folder", "--force"]) == 0
    assert [p.name for p in sorted(Path("folder").iterdir())] == ["MULTI__TIME", "MULTI__misses"]
    assert main(["export", "1", "--format", "tau", "-o", "x.csv", "--force"]) == 0
    assert Path("x.csv").is_dir()


def test_a_file_that_cannot_be_written_leaves_what_was_there(database, capsys, monkeypatch):
    Path("x.csv").write_text("mine")

    def full(self, row):
        raise OSError(28, "No space left on device")

    class Writer:
        def __init__(self, *_, **__): ...

        writerow = full

    monkeypatch.setattr(csv_.csv, "writer", Writer)
    assert main(["export", "1", "-o", "x.csv", "--force"]) == 1
    assert capsys.readouterr().err == "taupy: x.csv cannot be written: No space left on device\n"
    assert Path("x.csv").read_text() == "mine"
    assert not list(Path().glob(".taupy-export*"))
    assert main(["export", "1", "-o", "missing/x.csv"]) == 1
    assert "missing/x.csv cannot be written: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["1", "-o", "x.txt"], "cannot tell the format from the name x.txt: add --format {tau, "),
        (["1", "-o", "-"], "name the output format"),
        (
            ["1", "--format", "nonsense", "-o", "x"],
            "'nonsense' is not a format that can be written",
        ),
        (["1", "--format", "tau", "-o", "-"], "TAU profiles is written as a folder"),
        (["77", "-o", "x.csv"], "no trial matches '77'"),
    ],
)
def test_bad_input_gets_one_line(database, capsys, arguments, words):
    assert main(["export", *arguments]) in (1, 2)
    said = capsys.readouterr()
    assert words in said.err and said.err.count("\n") == 1
    assert not Path("x").exists()


@pytest.mark.slow
def test_reading_and_writing_leave_the_trial_as_it_is(database):
    before = Path("taupy.db").read_bytes()
    for format in registry.writers():
        assert main(["export", "2", "--format", format.name, "-o", f"o-{format.name}"]) == 0
    assert Path("taupy.db").read_bytes() == before


def test_progress_reaches_its_end_in_every_format(database, tmp_path):
    class Ear:
        total = done = 0

        def begin(self, what, total=None, unit=""):
            self.total, self.done = total or 0, 0

        def advance(self, amount=1):
            self.done += amount

    ours = ("tau", "collapsed", "speedscope", "csv", "hatchet")
    for name in ours:
        ear = Ear()
        registry.writer(name).write(small_profile(), tmp_path / f"p-{name}", ear)
        assert ear.done == ear.total > 0, name
    assert SILENT.advance() is None


@pytest.mark.parametrize(
    "name", ["x.trace.json.gz", "x.collapsed.gz", "x.SPEEDSCOPE.JSON.GZ", "x.pb.gz"]
)
def test_a_name_that_ends_in_gz_gives_a_packed_file_once(database, name):
    assert main(["export", "1", "-o", name]) == 0
    inside = gzip.decompress(Path(name).read_bytes())
    assert not inside.startswith(b"\x1f\x8b")
    if not name.endswith(".pb.gz"):
        plain = name[:-3]
        assert main(["export", "1", "-o", plain]) == 0
        assert inside == Path(plain).read_bytes()
    assert main(["import", name, "--db", "other.db"]) == 0


@pytest.mark.parametrize("name", [format.name for format in registry.writers()])
def test_every_note_of_an_export_says_that_it_is_not_written(database, capsys, name):
    for trial in ("1", "2"):
        assert main(["export", trial, "--format", name, "-o", f"out{trial}"]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "note: " in line]
    assert all(line.startswith("taupy: note: not written: ") for line in notes)


@pytest.mark.slow
def test_small_call_paths_are_folded_where_it_is_asked_for(runs):
    source = "def small(): pass\ndef large():\n for _ in range(100000): abs(-1)\nsmall()\nlarge()"
    runs.run(source)
    for options in ((), ("--min-share", "5"), ("--depth", "1")):
        target = f"a{len(options)}{options[:1]}.collapsed"
        done = runs.taupy(
            "export", "--db", str(runs.database), "-o", str(runs.folder / target), *options
        )
        assert done.returncode == 0, done.stderr
        text = (runs.folder / target).read_text()
        assert ("(folded call paths)" in text) == bool(options)
        assert ("folded " in done.stderr) == bool(options)
    for options, said in (
        (("--format", "csv", "--min-share", "1"), "work with pprof, speedscope"),
        (("--format", "collapsed", "--min-share", "101"), "from 0 to 100"),
        (("--format", "collapsed", "--depth", "0"), "at least 1"),
    ):
        done = runs.taupy("export", "--db", str(runs.database), "-o", "x", *options)
        assert done.returncode == 2
        assert said in done.stderr
