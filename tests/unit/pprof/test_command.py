"""`taupy pprof` on a real database, whole pages against golden files.

The trial, in milliseconds of exclusive time (inclusive follows):

    MainThread                                  loader
      .taupy application      1                   .taupy application   10
        main            1x    4                     read         5x    30
          forward      10x   20                       mean       5x     4
            mean       10x   10                         _reduce  5x     6
              _reduce  10x   50
          loss         10x   15

So on MainThread mean has 60 inclusive, forward 80, main 99, the thread 100; on
loader mean has 10, read 40, the thread 50. `mean` and `_reduce` are a library's.

TAUPY_UPDATE_GOLDEN=1 writes the golden files anew; read them before you commit.
"""

import csv
import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from taupy.commands import main
from taupy.commands import pprof as pprof_command
from taupy.model.profile import ROOT_TIMER, Metric, Timer
from taupy.model.sampled import ARGUMENTS
from taupy.pprof import terminal
from taupy.profiledb.dimensions import TimerNames
from taupy.profiledb.writer import add_profile
from tests.builders import call, database_at, event, host, profile_of, wide_profile

GOLDEN = Path(__file__).parents[2] / "golden" / "pprof"
MS = 1_000_000
HOME, SITE = "/home/u/", "/venv/lib/python3.11/site-packages/"

ROOT = Timer(ROOT_TIMER, groups=("TAUPY",))
MAIN = Timer("main", "train.py", 10, path=HOME + "train.py")
LOSS = Timer("loss", "train.py", 30, path=HOME + "train.py")
FORWARD = Timer("Net.forward", "net.py", 3, path=HOME + "net.py")
READ = Timer("read", "data.py", 7, path=HOME + "data.py")
MEAN = Timer("mean", "numpy/mean.py", 5, path=SITE + "numpy/mean.py")
REDUCE = Timer("_reduce", "numpy/mean.py", 9, path=SITE + "numpy/mean.py")


def training(**more):
    inside = call(MEAN, 10, 10 * MS, [call(REDUCE, 10, 50 * MS)])
    losses = [event("Batch loss", [0.5, 1.5], unit="")]
    steps = [
        call(FORWARD, 10, 20 * MS, [inside]),
        call(LOSS, 10, 15 * MS, events=losses),
    ]
    first = call(ROOT, 1, 1 * MS, [call(MAIN, 1, 4 * MS, steps)])
    reading = call(READ, 5, 30 * MS, [call(MEAN, 5, 4 * MS, [call(REDUCE, 5, 6 * MS)])])
    second = call(ROOT, 1, 10 * MS, [reading])
    return profile_of(
        host(first, name="MainThread", events=[event("Resident Memory", [100.0, 300.0], "KiB")]),
        host(second, thread=1, name="loader"),
        **more,
    )


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TAUPY_DB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def stored(tmp_path):
    def store(*profiles):
        with database_at(tmp_path / "taupy.db") as db:
            return [add_profile(db, profile) for profile in profiles]

    return store


@pytest.fixture
def pprof(capsys):
    def run(*arguments):
        code = main(["pprof", *arguments])
        out, err = capsys.readouterr()
        assert err == ""
        assert code == 0
        return out

    return run


@pytest.fixture
def refused(capsys):
    def run(*arguments, code=1):
        assert main(["pprof", *arguments]) == code
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        return err.strip()

    return run


# --- pages -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("golden", "arguments"),
    [
        ("page.txt", []),
        ("exclusive.txt", ["--sort", "exclusive", "--limit", "2", "--thread", "0.0.0"]),
        ("summaries.txt", ["-s", "--summary", "total,mean,min,max,stddev"]),
        ("tree.txt", ["--tree"]),
        ("tree_folded.txt", ["--tree", "--fold-libraries", "--summary-only"]),
        ("callgraph.txt", ["--callers", "mean", "--callees", "forward"]),
        ("modules.txt", ["--by", "module"]),
        ("plain.txt", ["-p", "--thread", "0.0.1"]),
        ("events.txt", ["--events"]),
        ("names.txt", ["-l"]),
        ("page.csv", ["--csv"]),
        ("page.json", ["--json", "--thread", "0.0.1", "-n", "1"]),
        ("tree.json", ["--json", "--tree", "--thread", "0.0.1", "--depth", "1"]),
        ("page.md", ["--markdown", "--thread", "0.0.1"]),
    ],
)
def test_a_page_is_as_it_was_read_and_approved(stored, pprof, golden, arguments):
    stored(
        training(
            state="incomplete",
            metadata={"taupy.health.throttled": "1 routine was throttled", "Command": "train.py"},
        )
    )
    page = pprof(*arguments)
    if os.environ.get("TAUPY_UPDATE_GOLDEN"):
        GOLDEN.mkdir(parents=True, exist_ok=True)
        (GOLDEN / golden).write_text(page, "utf-8")
    assert page == (GOLDEN / golden).read_text("utf-8")


def test_machines_get_whole_numbers_and_what_the_titles_tell(stored, pprof):
    stored(training())
    rows = list(csv.DictReader(io.StringIO(pprof("--csv"))))
    reduce = [row for row in rows if row["short_name"] == "_reduce"]
    assert [(row["table"], row["thread"], row["exclusive_ns"]) for row in reduce] == [
        ("thread", "0", "50000000"),
        ("thread", "1", "6000000"),
        ("total", "", "56000000"),
        ("mean", "", "28000000.0"),
    ]
    views = json.loads(pprof("--json"))
    assert [view["title"] for view in views] == [
        "NODE 0;CONTEXT 0;THREAD 0: MainThread",
        "USER EVENTS Profile :NODE 0, CONTEXT 0, THREAD 0",
        "NODE 0;CONTEXT 0;THREAD 1: loader",
        "FUNCTION SUMMARY (total):",
        "FUNCTION SUMMARY (mean):",
    ]
    assert views[0]["rows"][1]["groups"] == "PYTHON"
    assert all(view["notes"] == [] for view in views)


# --- choices -----------------------------------------------------------------


def first_names(page):
    """The routines of the first table, in order."""
    table = page.split("\n\n")[0].splitlines()[5:]
    return [line[67:].split(" [{")[0] for line in table if not line.startswith(("-", "note"))]


@pytest.mark.parametrize(
    ("letter", "key"),
    [
        ("-t", "inclusive"),
        ("-m", "exclusive"),
        ("-c", "calls"),
        ("-b", "subroutines"),
        ("-e", "exclusive-per-call"),
        ("-i", "inclusive-per-call"),
        ("-v", "stddev"),
    ],
)
def test_taus_letters_are_orders(stored, pprof, letter, key):
    stored(training())
    assert pprof(letter) == pprof("--sort", key)
    assert pprof(letter + "r", "-a") == pprof("--sort", key, "--reverse")
    assert pprof("-d", letter) == pprof("--csv", "--sort", key)


def test_a_limit_holds_for_events_too(stored, pprof):
    stored(training())
    rows = list(csv.DictReader(pprof("--events", "--csv").splitlines()))
    assert len(rows) > 1
    assert [*csv.DictReader(pprof("--events", "--csv", "--limit", "1").splitlines())] == rows[:1]


def test_events_that_answers_are_made_of_are_listed_by_taupy_events_only(stored, pprof):
    answered = ["Time per Call from 16", "Suspended in Line 7", "Seen Sleeping", ARGUMENTS]
    own = ["Time per Call from here", "Suspended in Line", "Batch loss"]
    events = [event(name, [1.0, 2.0], "ns") for name in (*answered, *own)]
    stored(profile_of(host(call(MAIN, 1, 5 * MS), name="MainThread", events=events)))
    whole, flat = pprof("--events"), pprof()
    assert [name for name in (*answered, *own) if f"{name} (ns)" in whole] == [*answered, *own]
    assert [name for name in (*answered, *own) if f"{name} (ns)" in flat] == own
    assert all(name in pprof("--json") for name in (*answered, *own))
    note = "`taupy events` also lists the user events that other commands make their answers of"
    assert [line for line in flat.splitlines() if "taupy events" in line] == [f"note: {note}"]


def test_taus_default_order_is_inclusive_and_exclusive_is_another(stored, pprof):
    stored(training())
    assert first_names(pprof()) == [
        ".taupy application", "main", "Net.forward", "mean", "_reduce", "loss",
    ]  # fmt: skip
    assert first_names(pprof("-m")) == [
        "_reduce", "Net.forward", "loss", "mean", "main", ".taupy application",
    ]  # fmt: skip


def test_routines_are_chosen_by_name_group_and_thread(stored, pprof):
    stored(training())
    assert first_names(pprof("--filter", "net.py")) == ["Net.forward"]
    assert first_names(pprof("--filter", "/^(main|loss)/")) == ["main", "loss"]
    assert first_names(pprof("--filter", "mea?", "--group", "python")) == ["mean"]
    assert first_names(pprof("--thread", "0.0.1", "--node", "0"))[:2] == [
        ".taupy application",
        "read",
    ]
    assert "THREAD 0" not in pprof("--thread", "0.0.1")
    assert "SUMMARY" not in pprof("--thread", "0.0.1")


def test_folded_libraries_keep_their_boundary_and_all_time(stored, pprof):
    stored(training())
    rows = list(csv.DictReader(io.StringIO(pprof("--csv", "--fold-libraries"))))
    mine = {row["short_name"]: row for row in rows if row["table"] == "total"}
    assert "_reduce" not in mine
    assert mine["mean"]["exclusive_ns"] == mine["mean"]["inclusive_ns"] == "70000000"
    assert sum(int(row["exclusive_ns"]) for row in mine.values()) == 150 * MS


def test_a_tree_for_people_leaves_small_call_paths_out_one_for_machines_none(stored, pprof):
    small = call(ROOT, 1, 995, [call(Timer("tiny", "a.py", 1), 1, 5)])
    stored(profile_of(host(small)))
    assert "tiny" not in pprof("--tree")
    assert "not shown: call paths below 1 % (--min-share)" in pprof("--tree")
    assert "tiny" in pprof("--tree", "--min-share", "0")
    assert pprof("--tree", "--min-percent", "0") == pprof("--tree", "--min-share", "0%")
    assert "tiny" in pprof("--tree", "--limit", "5")
    assert "tiny" in pprof("--tree", "--csv")
    assert "tiny" in pprof("--tree", "--filter", "tiny", "--min-share", "0.5%")


def test_shares_in_a_tree_are_those_of_its_own_thread(stored, pprof):
    """The database is asked for less than all; nothing that should be there is lost."""
    tiny = call(Timer("tiny", "a.py", 1), 1, 5)
    stored(profile_of(host(call(ROOT, 1, 995, [tiny])), host(call(ROOT, 1, 45, [tiny]), node=1)))
    large, small = pprof("--tree").split("\n\n")
    assert "tiny" not in large
    assert "tiny" in small


def test_a_metric_is_chosen_by_name_and_stands_in_the_title(stored, pprof):
    values = {"time": 2 * MS, "flop": 12345678}
    profile = profile_of(
        host(call(ROOT, 1, values, [call(MAIN, 1, values)])),
        host(call(ROOT, 1, 5), thread=1),
        metrics=[Metric("time", "ns"), Metric("flop", "flop")],
    )
    stored(profile)
    page = pprof("--metric", "flop")
    assert page.startswith("NODE 0;CONTEXT 0;THREAD 0: (metric flop)\n")
    assert "1.235E+07    2.469E+07" in page
    assert "THREAD 1" not in page
    assert pprof("--metric", "FLOP") == page


def test_a_trial_is_chosen_by_any_selector(stored, pprof):
    stored(training(), training(number=2, application="other"))
    assert pprof("app") == pprof("1") == pprof("latest") == pprof()


def test_how_the_trial_was_measured_stands_beneath(stored, pprof):
    remarks = {"taupy.health.a": "one\ntwo", "taupy.healthy": "three", "Host": "h"}
    stored(training(metadata=remarks, node_metadata={0: {"taupy.health.b": "four\x1b"}}))
    assert pprof().splitlines()[-4:] == [
        "-" * 87,
        "note: one",
        "note: two",
        r"note: node 0: four\x1b",
    ]
    assert json.loads(pprof("--json"))[-1]["notes"][:2] == ["one", "two"]


# --- refusals ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--metric", "flop"],
            "taupy: trial 1 has no metric 'flop' (it has: time); near it: flop_rate; "
            "`taupy derive` lists what can be derived",
        ),
        (["--thread", "0.0.5"], "taupy: no thread matches '0.0.5' (the trial has: 0.0.0, 0.0.1)"),
        (["--node", "4"], "taupy: no node 4 (the trial has: 0)"),
        (["--group", "GPU"], "taupy: no group 'GPU' (there are: PYTHON, TAUPY)"),
        (
            ["--callers", "forwards"],
            "taupy: no routine matches 'forwards' (7 names, such as Net.forward [{net.py}{3}]); "
            "`taupy pprof -l` lists them",
        ),
        (
            ["--group", "TAUPY", "--filter", "main"],
            "taupy: no routine is in a group of --group and matches a --filter",
        ),
        (
            ["--events", "--filter", "heap"],
            "taupy: no user event of trial 1 matches 'heap' "
            "(it has: Batch loss, Resident Memory)",
        ),
        (
            ["--tree", "--by", "file"],
            "taupy: --tree and --by are different views: choose one",
        ),
        (["--depth", "2"], "taupy: --depth and --min-share apply to the call tree: add --tree"),
        (
            ["-v", "--tree"],
            "taupy: --sort stddev applies to TAU's tables, not to --tree",
        ),
        (["--events", "--group", "PYTHON"], "taupy: --group does not apply to --events"),
        (["--kernels", "--where", "time > 1"], "taupy: --where does not apply to --kernels"),
        (
            ["--callers", "main", "--filter", "main"],
            "taupy: --filter does not apply to --callers or --callees",
        ),
        (["-l", "-c"], "taupy: --sort does not apply to --list"),
        (["--by", "file", "-s"], "taupy: --summary-only does not apply to --by"),
        (
            ["-f", "profile"],
            "taupy: -f names profile files in TAU; here, choose a trial with TRIAL and a database "
"with --db",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused_in_one_line(stored, refused, arguments, line):
    stored(training())
    code = 1 if arguments[0] == "--metric" else 2
    assert refused(*arguments, code=code) == line


@pytest.mark.parametrize(
    "arguments",
    [["-n", "-1"], ["-n", "x"], ["--min-share", "101", "--tree"], ["--summary", "median"],
     ["--sort", "time"], ["--csv", "--json"], ["-z"]],
)  # fmt: skip
def test_wrong_values_are_refused(stored, refused, arguments):
    stored(training())
    assert refused(*arguments, code=2).startswith("taupy: pprof: ")


def test_without_a_trial_it_says_how_to_make_one(stored, refused):
    assert "`taupy run SCRIPT` creates one" in refused()
    stored()
    assert "`taupy run SCRIPT` adds one" in refused()


# --- the process -------------------------------------------------------------


def run_process(*arguments, **more):
    return subprocess.run(
        [sys.executable, "-m", "taupy", "pprof", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        **more,
    )


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_it_quietly(stored):
    stored(wide_profile(20_000))
    command = f"'{sys.executable}' -m taupy pprof --tree --min-share 0 | head -1"
    made = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert (made.stdout, made.stderr) == ("CALL TREE NODE 0;CONTEXT 0;THREAD 0:\n", "")


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.slow
def test_a_flat_profile_is_shown_without_reading_the_call_paths(stored):
    stored(wide_profile(100_000))
    took: dict[str, list[float]] = {"--thread=0.0.0": [], "--tree --min-share=0": []}
    for _ in range(2):
        for options, seconds in took.items():
            begin_s = children_cpu_s()
            made = run_process(*options.split())
            seconds.append(children_cpu_s() - begin_s)
            assert made.returncode == 0
            assert len(made.stdout.splitlines()) > 1000
    flat, tree = map(min, took.values())
    assert flat < tree / 2


def many_routines():
    return profile_of(host(call("main", 1, 0, [call(f"r{n:02}", 1, 100 - n) for n in range(40)])))


def test_only_the_names_of_shown_routines_are_read(stored, pprof, monkeypatch):
    stored(many_routines())
    timers, asked = TimerNames.timers, []
    monkeypatch.setattr(
        TimerNames, "timers", lambda self, ids: asked.extend(ids) or timers(self, ids)
    )
    assert "-others-" in pprof("-s", "--limit", "3")
    assert len({*asked}) == 3


def test_routines_with_one_name_in_different_groups_are_one_in_a_summary(stored, pprof):
    both = [call(Timer("f", groups=(group,)), 2, 30) for group in ("PYTHON", "PHASE")]
    stored(profile_of(host(call("main", 1, 10, both))))
    rows = csv.DictReader(io.StringIO(pprof("--summary", "total", "--csv")))
    assert [(row["table"], row["timer"], row["calls"]) for row in rows] == [
        ("thread", "main", "1"),
        ("thread", "f", "2"),
        ("thread", "f", "2"),
        ("total", "main", "1"),
        ("total", "f", "4"),
    ]


def test_a_terminal_shows_25_rows_and_the_sum_of_the_others(stored, pprof, monkeypatch):
    stored(many_routines())
    everything = pprof()
    for module in (terminal, pprof_command):
        monkeypatch.setattr(module, "columns", lambda stream, piped: 120)
    shown = pprof()
    rows = [line for line in shown.splitlines() if "r2" in line or "-others-" in line]
    # main and r00 to r23; the others are r24 to r39: 76 + 75 + ... + 61 ns.
    assert "r23" in shown and "r24" not in shown
    assert rows[-1].split() == ["0.0011", "16", "0", "-others-"]
    assert "first 25 rows of each table" in shown and "--all shows all" in shown
    assert "r39" in pprof("--all") and "-others-" not in pprof("--all")
    assert "r39" in pprof("--csv") and "r39" in pprof("--json")
    assert "r39" in everything and "--all" not in everything


def test_all_rows_and_some_rows_contradict_each_other(stored, refused):
    stored(many_routines())
    assert "--all and --limit cannot be combined" in refused("--all", "-n", "3", code=2)


def test_people_see_sums_of_kinds_of_which_there_are_several_threads(stored, capsys):
    """Three workers, each of which calls f twice for 5 ms; two other threads have own tables."""
    f = Timer("f", "a.py", 3, path=HOME + "a.py")
    work = call(ROOT, 1, 1 * MS, [call(f, 2, 5 * MS)])
    threads = [host(work, name="MainThread"), *(host(work, thread=at) for at in (1, 2))]
    stored(profile_of(*threads, *(host(work, node=node) for node in (1, 2, 3))))
    assert main(["pprof"]) == 0
    shown = capsys.readouterr().out
    titles = [line for line in shown.splitlines() if ";THREAD" in line or "ADDED UP" in line]
    assert titles == [
        "NODE 0;CONTEXT 0;THREAD 0: MainThread",
        "NODE 0;CONTEXT 0;THREAD 1:",
        "NODE 0;CONTEXT 0;THREAD 2:",
        "3 WORKER PROCESSES, ADDED UP (--thread all: one by one):",
    ]
    row = next(line for line in shown.split("ADDED UP")[1].splitlines() if "f [" in line)
    assert row.split()[1:4] == ["15", "15", "6"]  # own and inclusive time, calls
    assert main(["pprof", "--thread", "all"]) == 0
    every = capsys.readouterr().out
    assert every.count("NODE ") == 6 and "FUNCTION SUMMARY (total):" in every
    assert main(["pprof", "--csv"]) == 0
    assert capsys.readouterr().out.count("thread,") >= 6
