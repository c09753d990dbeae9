"""Programs with one fault each, whose fault comes first, and healthy ones, in which none is found.

Programs are run by `taupy run`; trainings on a GPU are profiles (`trainings.py`), since no machine
of ours has one. Those in `programs/faults` were written before the rules that judge them; those in
`programs/independent`, and some healthy ones, by an author who had not read the rules.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import re
import shutil
from pathlib import Path

import pytest

from taupy.analysis import findings
from taupy.analysis.findings import RULES
from taupy.model.profile import Profile, Timer
from taupy.model.question import Question
from taupy.model.sampled import STATES
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.report import front, screen
from taupy.report.report import Report, report
from taupy.units import duration
from tests.builders import call, database_at, event, host, profile_of
from tests.findings import gpu_faults, gpu_healthy
from tests.findings.cases import INDEPENDENT, PROGRAMS, TRAININGS, UNSEEN
from tests.findings.pairs import (
    PROGRAM,
    measured,
    measured_until,
    placed,
    skip_without_packages,
)

HEALTHY = sorted(path.stem for path in (PROGRAM / "healthy").glob("*.py"))
QUICK = {"histogram_by_hand", "many_patterns", "optional_import", "one_lock", "tables_at_import"}
QUICK |= {"queens", "recurrence", "word_counts"}
"""Some of each kind; all of them take minutes."""

PUBLIC = {
    "tokenize": ("-m", "tokenize", "argparse.py"),
    "tree": ("-m", "ast", "argparse.py"),
    "compile": ("-m", "compileall", "-q", "-f", "argparse.py"),
}
"""Programs of the standard library, as they are."""

EXAMPLES = (
    *("regression/main.py", "fx/invert.py", "fx/inline_function.py", "fx/primitive_library.py"),
)
"""Of PyTorch's own, as they are."""


def _marked(names):
    slow = pytest.mark.slow
    return [pytest.param(name, marks=() if name in QUICK else slow) for name in names]


def _run(folder: Path, *command: str) -> Report:
    pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    return measured(folder, *command)


def _run_copy(folder: Path, kind: str, name: str) -> Report:
    skip_without_packages(PROGRAM / kind / f"{name}.py")
    found = _run(placed(folder, PROGRAM / kind), f"{name}.py")
    _shows_a_line_of(name, folder, found)
    return found


def _shows_a_line_of(name: str, folder: Path, found: Report) -> None:
    """Of whatever program, the overview has run time, command, and a routine at its line; with the
    text of that line where its time is known."""
    with ProfileDB.open(str(folder / "t.db")) as db:
        page = front.overview(db, found, 0)
    assert page["run_ns"] > 0 and f"{name}.py" in page["command"]
    rows = [row for group in page["groups"] for row in (*group["places"], *group["apart"])]
    first = max((row for row in rows if row["file"]), key=lambda row: row["ns"])
    at = re.fullmatch(r"\S+\.py:\d+( ~?\d.*)?", first["at"])
    assert at is not None and first["routine"] and (first["text"] or not at[1]), first
    # The first of other threads may be one that idles, which the screen leaves out.
    shown = screen.text(found, 200)
    # With its calls only in a row of its own, which one that takes little has not.
    names = [re.sub(r" [\d,]+x$", "", row["routine"]) for row in rows if row["file"]]
    assert any(name in shown for name in names)
    texts = [
        row["text"][:40] for row in rows if row["file"] and row["text"] and row["routine"] in shown
    ]
    assert not texts or any(text in shown for text in texts)


def _run_until_found(folder: Path, kind: str, name: str, expected: tuple[str, str]) -> Report:
    def tells(found: Report) -> bool:
        findings = found.judgement.findings
        return any(one.kind == expected[0] and expected[1] in one.sentence for one in findings)

    (empty := folder / "run").mkdir()
    return measured_until(tells, empty, lambda there: _run_copy(there, kind, name))


def _stored(folder: Path, *profiles: Profile) -> Report:
    """What is reported of the last of these profiles."""
    with database_at(str(folder / "t.db")) as db:
        for profile in profiles:
            add_profile(db, profile)
        return report(db, db.latest())


def _first(found: Report):
    judgement = found.judgement
    assert judgement.findings, judgement.abstentions
    return judgement.findings[0]


def _assert_first(found: Report, expected: tuple[str, str]) -> None:
    """The first finding is of this kind, and its sentence names this place."""
    first, (kind, where) = _first(found), expected
    assert first.kind == kind
    assert where in first.sentence


def _sentences(found: Report) -> list[str]:
    return [finding.sentence for finding in found.judgement.findings]


# --- faults ------------------------------------------------------------------------


@pytest.mark.parametrize("name", _marked(PROGRAMS))
def test_the_fault_of_a_program_comes_first(name, tmp_path):
    expected = PROGRAMS[name]
    _assert_first(_run_until_found(tmp_path, "faults", name, expected), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", INDEPENDENT)
def test_the_fault_of_an_independent_author_comes_first(name, tmp_path):
    expected = INDEPENDENT[name]
    _assert_first(_run_until_found(tmp_path, "independent", name, expected), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNSEEN)
def test_faults_that_are_not_seen_are_known(name, tmp_path):
    assert _sentences(_run_copy(tmp_path, "independent", name)) == []


@pytest.mark.slow
def test_a_version_that_takes_longer_is_a_regression(tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    shutil.copy2(PROGRAM / "independent/panel_model_before.py", tmp_path / "panel_model.py")
    for _ in range(5):
        _run(tmp_path, "panel_model.py")
    first = _first(_run_copy(tmp_path, "independent", "panel_model"))
    assert first.kind == "regression"


@pytest.mark.parametrize("name", TRAININGS)
def test_the_fault_of_a_training_comes_first(name, tmp_path):
    _assert_first(_stored(tmp_path, getattr(gpu_faults, name)()), TRAININGS[name])


def test_all_faults_are_expected_somewhere():
    assert {fault.__name__ for fault in gpu_faults.FAULTS} == {*TRAININGS}


def test_every_rule_is_asked_once_and_is_in_the_docs():
    modules = [importlib.import_module(name) for name in _modules()]
    assert sorted(rule.KIND for rule in RULES) == sorted(
        module.KIND for module in modules if hasattr(module, "find")
    )
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    assert [rule.KIND for rule in RULES if f"| {rule.KIND} |" not in page] == []


def _modules():
    folder = findings.__path__
    return [f"{findings.__name__}.{module.name}" for module in pkgutil.iter_modules(folder)]


# --- healthy -----------------------------------------------------------------------


@pytest.mark.parametrize("name", _marked(HEALTHY))
def test_nothing_is_found_in_a_healthy_program(name, tmp_path):
    assert _sentences(_run_copy(tmp_path, "healthy", name)) == []


@pytest.mark.parametrize("training", gpu_healthy.HEALTHY, ids=lambda made: made.__name__)
def test_nothing_is_found_in_a_healthy_training(training, tmp_path):
    assert _sentences(_stored(tmp_path, training())) == []


@pytest.mark.parametrize("name", _marked(PUBLIC))
def test_nothing_is_found_in_programs_of_the_standard_library(name, tmp_path):
    shutil.copy2(os.__file__.replace("os.py", "argparse.py"), tmp_path)
    assert _sentences(_run(tmp_path, *PUBLIC[name])) == []


@pytest.mark.slow
@pytest.mark.parametrize("program", EXAMPLES)
def test_nothing_is_found_in_examples_of_pytorch(program, tmp_path):
    folder = os.environ.get("TAUPY_PYTORCH_EXAMPLES")
    if folder is None:
        pytest.skip("TAUPY_PYTORCH_EXAMPLES names no checkout of github.com/pytorch/examples")
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    assert _sentences(_run(tmp_path, str(Path(folder) / program))) == []


# --- evidence and bounds -----------------------------------------------------------


@pytest.mark.parametrize("name", TRAININGS)
def test_evidence_can_be_asked_again(name, tmp_path):
    found = _stored(tmp_path, getattr(gpu_faults, name)())
    with ProfileDB.open(str(tmp_path / "t.db")) as db:
        for finding in found.judgement.findings:
            for evidence in finding.evidence:
                again = Question.of_text(evidence.question.text())
                assert again == evidence.question
                assert len(values(db, again)) == evidence.count > 0


@pytest.mark.parametrize("name", TRAININGS)
def test_no_finding_saves_more_than_the_wall_clock_has(name, tmp_path):
    found = _stored(tmp_path, getattr(gpu_faults, name)())
    saved = [finding.saved_ns for finding in found.judgement.findings]
    assert saved == sorted(saved, reverse=True)
    assert all(0 < one <= found.trial.duration_ns for one in saved)


MS = 1_000_000


def _handed_over(state: str, number: int) -> Profile:
    """The main thread waits for a maker that used a CPU for a tenth of its time."""
    seen = [event("Thread CPU Time", [90 * MS], "ns"), event(state, [800 * MS], "ns")]
    take = call(Timer("Queue.get", "queue.py"), 9, 900 * MS)
    return profile_of(
        host(call("main", 1, 0, [call(Timer("train", "a.py", 2), 1, 0, [take])])),
        host(call(Timer("load", "a.py", 9), 1, 900 * MS), thread=1, events=seen),
        number=number,
        duration_ns=1000 * MS,
    )


def test_a_thread_that_waits_for_a_processor_is_busy_and_one_that_sleeps_is_not(tmp_path):
    (runnable,) = _sentences(_stored(tmp_path, _handed_over(STATES[1], 1)))
    assert "most of it in load (a.py:9)" in runnable
    assert _sentences(_stored(tmp_path, _handed_over(STATES[2], 2))) == []


def test_numbers_are_numbers_where_their_thread_waits_for_a_processor(tmp_path):
    """2 us for one operation, of which the thread ran a tenth; arrays would take as long, too."""
    (tmp_path / "a.py").write_text(LOOP)
    os.utime(tmp_path / "a.py", (0, 0))
    shift, add = (Timer(name, "a.py", line, path=str(tmp_path / "a.py"))
                  for name, line in (("shift", 1), ("add", 4)))  # fmt: skip
    loop = call(shift, 1, 100 * MS, [call(add, 400_000, 800 * MS)])
    imports = call(Timer("import numpy", groups=("IMPORT",)), 1, MS)
    for number, (running, sentences) in enumerate(((90, 1), (900, 0)), 1):
        seen = [
            event(STATES[0], [running * MS], "ns"),
            event(STATES[1], [(900 - running) * MS], "ns"),
        ]
        made = profile_of(
            host(call("main", 1, MS, [imports, loop]), events=seen), number=number,
            duration_ns=902 * MS, metadata={"Hostname": platform.node()},
        )  # fmt: skip
        assert len(_sentences(_stored(tmp_path, made))) == sentences


def _training(data_ms: int, own_ms: int, states: dict[str, int], number: int) -> Profile:
    """A training of 1 s, of which it gets data for so long, made by the program's own routine for
    a part of this time; the watch has seen the thread in these states [ms]."""
    own = call(Timer("Tiles.__getitem__", "a.py", 5), 64, own_ms * MS)
    loader = Timer("_BaseDataLoaderIter.__next__", "torch/utils/data/dataloader.py")
    data = call(loader, 9, (data_ms - own_ms) * MS, [own])
    main = call(Timer("train", "a.py", 2), 1, (1000 - data_ms) * MS, [data])
    seen = [event(name, [ms * MS], "ns") for name, ms in states.items()]
    return profile_of(host(call("main", 1, 0, [main]), events=seen), number=number,
                      duration_ns=1000 * MS)  # fmt: skip


QUIET, CROWDED = {STATES[0]: 1000}, {STATES[0]: 400, STATES[1]: 600}


@pytest.mark.parametrize(
    ("data_ms", "own_ms", "states", "is_found"),
    [
        (140, 0, QUIET, False),  # a loader that collects what is in memory
        (300, 0, QUIET, True),
        (60, 50, QUIET, True),  # a data set of the program's own
        (300, 200, CROWDED, False),  # 120 ms without waits for a processor
        (1000, 900, CROWDED, False),
        (1000, 900, {STATES[0]: 700, STATES[1]: 300}, True),
    ],
)
def test_data_are_waited_for_if_the_machine_is_not_the_reason(
    data_ms, own_ms, states, is_found, tmp_path
):
    found = _stored(tmp_path, _training(data_ms, own_ms, states, 1))
    assert [one.kind for one in found.judgement.findings] == ["data wait"] * is_found
    if not is_found and states is CROWDED:
        (why,) = [one for one in found.judgement.abstentions if one.kind == "data wait"]
        assert "waited for a processor 60" in why.reason
        assert why.fact.startswith(f"the training waits {duration(data_ms * MS)} for its data")
        # Where its time goes is on the screen all the same.
        assert "no verdict on data wait: the training waits" in " ".join(screen.text(found).split())


@pytest.mark.parametrize(("runnable_ms", "is_found"), [(0, True), (120, False)])
def test_a_worker_that_sleeps_between_batches_still_waited_for_a_processor(
    runnable_ms, is_found, tmp_path
):
    """It was asleep for 800 ms, and makes batches for 200 ms, most of it in a queue for a CPU."""
    fetch = Timer("_MapDatasetFetcher.fetch", "torch/utils/data/_utils/fetch.py")
    loader = Timer("_BaseDataLoaderIter.__next__", "torch/utils/data/dataloader.py")
    states = {STATES[0]: 200 - runnable_ms, STATES[1]: runnable_ms, STATES[2]: 800}
    seen = [event(name, [ms * MS], "ns") for name, ms in states.items()]
    made = profile_of(
        host(call("main", 1, 800 * MS, [call(loader, 9, 200 * MS)])),
        host(call("loop", 1, 800 * MS, [call(fetch, 9, 200 * MS)]), node=1, events=seen),
        duration_ns=1000 * MS,
    )
    kinds = [one.kind for one in _stored(tmp_path, made).judgement.findings]
    assert ("data wait" in kinds) == is_found


def _shared(slow_states: dict[str, int], cpu_ms: int, number: int, takes: int = 0) -> Profile:
    """Two threads of 400 and 1000 ms that do the same, and the main thread that waits for them.
    Each takes so many pieces of its work from a queue."""
    queue = [call(Timer("Queue.get", "queue.py"), takes, 0)] if takes else []
    join = call(Timer("Thread.join", "threading.py"), 2, 1000 * MS)
    work = Timer("count", "a.py", 3)

    def thread(index: int, ms: int, cpu: int, states: dict[str, int]):
        seen = [event("Thread CPU Time", [cpu * MS], "ns")]
        seen += [event(name, [took * MS], "ns") for name, took in states.items()]
        return host(
            call("thread", 1, 0, [call(work, 1, ms * MS, queue)]), thread=index, events=seen
        )

    return profile_of(
        host(call("main", 1, 0, [call(Timer("go", "a.py", 9), 1, 0, [join])])),
        thread(1, 400, 390, {STATES[0]: 400}), thread(2, 1000, cpu_ms, slow_states),
        number=number, duration_ns=1000 * MS, metadata={"CPU Cores": "2"},
    )  # fmt: skip


def test_work_is_uneven_if_the_machine_is_not_the_reason(tmp_path):
    told = _stored(tmp_path, _shared({STATES[0]: 1000}, 990, 1))
    (uneven,) = _sentences(told)
    assert "one works for 1.00 s" in uneven
    of_cpu, of_clock = told.judgement.findings[0].evidence
    assert of_cpu.rows[0][-1] == 990 * MS
    assert 1000 * MS in of_clock.rows[0]
    waiting = _shared({STATES[0]: 400, STATES[1]: 600}, 390, 2)
    assert _sentences(_stored(tmp_path, waiting)) == []


def test_workers_that_are_even_on_the_clock_are_not_uneven_by_samples_of_their_waits(tmp_path):
    """Both take 1.00 s, mostly asleep; of one, a few looks were charged to a queue for a CPU."""
    work = Timer("peer", "a.py", 3)
    join = call(Timer("Thread.join", "threading.py"), 2, 1000 * MS)

    def thread(index: int, states: dict[str, int]):
        seen = [event("Thread CPU Time", [10 * MS], "ns")]
        seen += [event(name, [took * MS], "ns") for name, took in states.items()]
        return host(call("thread", 1, 0, [call(work, 1, 1000 * MS)]), thread=index, events=seen)

    made = profile_of(
        host(call("main", 1, 0, [call(Timer("go", "a.py", 9), 1, 0, [join])])),
        thread(1, {STATES[1]: 700, STATES[2]: 300}), thread(2, {STATES[2]: 1000}),
        duration_ns=1000 * MS, metadata={"CPU Cores": "2"},
    )  # fmt: skip
    assert _sentences(_stored(tmp_path, made)) == []


@pytest.mark.parametrize("takes, is_uneven", [(2, True), (50, False)])
def test_workers_that_take_many_pieces_from_a_queue_are_not_uneven(takes, is_uneven, tmp_path):
    """The one that was free took the next piece, so that there is nothing to divide better."""
    report = _stored(tmp_path, _shared({STATES[0]: 1000}, 990, 1, takes))
    assert ("imbalance" in [one.kind for one in report.judgement.findings]) == is_uneven


def test_little_that_one_worker_does_is_not_uneven(tmp_path):
    """Of a pool, the worker that starts first does all, if that is little."""
    profile = _shared({STATES[0]: 1000}, 990, 1)
    profile.duration_ns = 30_000 * MS
    assert _sentences(_stored(tmp_path, profile)) == []


@pytest.mark.parametrize("name", ["python_between_launches", "tiny_kernels"])
def test_a_gpu_that_is_idle_because_the_host_waits_for_a_processor_is_none(name, tmp_path):
    profile = getattr(gpu_faults, name)()
    assert _first(_stored(tmp_path, profile)).kind == TRAININGS[name][0]
    main = profile.threads[0]
    main.user_events += (event(STATES[0], [20 * MS], "ns"), event(STATES[1], [980 * MS], "ns"))
    (tmp_path / "busy").mkdir()
    kinds = [one.kind for one in _stored(tmp_path / "busy", profile).judgement.findings]
    assert TRAININGS[name][0] not in kinds


@pytest.mark.parametrize(("queued", "is_judged"), [(100, True), (950, False)])
def test_a_wait_for_data_on_a_busy_machine_is_told_without_a_verdict(queued, is_judged, tmp_path):
    """It is hardly more than the wait for a processor."""
    decode = call(Timer("decode", "data.py", 7, path="/home/u/data.py"), 60, 600 * MS)
    load = Timer("load", "data.py", 3, groups=("PHASE", "PHASE_DATA"), path="/home/u/data.py")
    train = Timer("train", "t.py", 1, path="/home/u/t.py")
    tree = call(train, 1, 9400 * MS, [call(load, 60, 0, [decode])])
    sampled = {STATES[0]: 1000 - queued, STATES[1]: queued}
    states = [event(state, [ms * MS], "ns") for state, ms in sampled.items()]
    profile = profile_of(host(tree, events=states), duration_ns=10_000 * MS)
    judgement = _stored(tmp_path, profile).judgement
    judged = [one.sentence for one in judgement.findings if one.kind == "data wait"]
    facts = [one.fact for one in judgement.abstentions if one.kind == "data wait"]
    assert (len(judged), len(facts)) == ((1, 0) if is_judged else (0, 1))
    assert "most of it in decode (data.py:7)" in (*judged, *facts)[0]


LOOP = """\
def shift(rows, by):
    for at in range(len(rows)):
        rows[at] = add(rows[at], by)
def add(row, by):
    return row + by
"""


# --- an experiment's earlier trials --------------------------------------------------


def _trial(number: int, parse_ms: float, runnable_ms: float = 0) -> Profile:
    main = call(
        Timer(".taupy application", groups=("TAUPY",)),
        1,
        0,
        [
            call(Timer("load", "app.py", 3), 1, 200_000_000),
            call(Timer("parse", "app.py", 9), 50, int(parse_ms * 1e6)),
        ],
    )
    seen = [event(STATES[1], [int(runnable_ms * 1e6)], "ns")] if runnable_ms else []
    return profile_of(host(main, events=seen), number=number,
                      metadata={"Command Line": "python app.py"},
                      duration_ns=int(200_000_000 + parse_ms * 1e6))  # fmt: skip


def test_a_trial_that_takes_longer_than_all_earlier_ones_is_a_regression(tmp_path):
    times = [100, 103, 98, 101, 99, 102, 160]
    first = _first(_stored(tmp_path, *(_trial(n, ms) for n, ms in enumerate(times, 1))))
    assert first.kind == "regression"
    assert "parse (app.py:9) grew most, by 59.5 ms (taupy compare 6 7)" in first.sentence
    assert first.attempt == ""
    assert first.saved_ns == pytest.approx(59.5e6)


def test_a_trial_that_waited_for_a_processor_is_no_regression(tmp_path):
    times = [100, 103, 98, 101, 99, 102]
    earlier = [_trial(n, ms) for n, ms in enumerate(times, 1)]
    assert _sentences(_stored(tmp_path, *earlier, _trial(7, 160, runnable_ms=55))) == []
    (tmp_path / "longer").mkdir()
    found = _first(_stored(tmp_path / "longer", *earlier, _trial(8, 260, runnable_ms=55)))
    assert "takes 405 ms (without 55.0 ms in which it waited for a processor)," in found.sentence


WITHIN = (104, 120)  # [ms]


@pytest.mark.parametrize("last", WITHIN)
def test_a_trial_within_the_spread_of_earlier_ones_is_none(last, tmp_path):
    """Earlier ones differ by 15 ms: what is beyond them by less may be noise."""
    times = [100, 110, 98, 101, 95, 102, last]
    found = _stored(tmp_path, *(_trial(n, ms) for n, ms in enumerate(times, 1)))
    assert _sentences(found) == []


def test_too_few_earlier_trials_give_no_verdict(tmp_path):
    found = _stored(tmp_path, *(_trial(n, ms) for n, ms in enumerate([100, 160], 1)))
    assert _sentences(found) == []
    reasons = {abstention.kind: abstention.reason for abstention in found.judgement.abstentions}
    assert "5 are needed" in reasons["regression"]
