"""What a gate says of CPU time beside conditions on elapsed time, from stored pairs of runs."""

from __future__ import annotations

import re
from random import Random

import pytest

from taupy.commands import command_parser
from taupy.commands import gate as command
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call, event, host, profile_of

GATE = "01900000-0000-7000-8000-000000000abc"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))


def stored(pairs, factor=1.0, noise=0.2, cpu_noise=0.002):
    """Alternating runs whose elapsed time is noisy and whose CPU time is not."""
    random = Random(1)
    with ProfileDB.open("taupy.db", create=True) as db:
        for number in range(2 * pairs):
            side = number % 2
            of_side = factor if side else 1.0
            elapsed = 1e9 * of_side * random.lognormvariate(0, noise)
            used = 3e8 * of_side * random.lognormvariate(0, cpu_noise)
            profile = profile_of(
                host(call(Timer("work", "app.py", 1), 1, round(elapsed))),
                uuid=f"01900000-0000-7000-8000-{number:012d}",
                experiment="gate",
                started_at=1.7e9 + number,
                metadata={"gate": GATE, "gate.side": ("baseline", "candidate")[side]},
            )
            profile.threads[0].user_events.append(event("Thread CPU Time", [used], "ns"))
            add_profile(db, profile)


def session(*conditions, options=()):
    parser = command_parser("gate")
    fail_on = [word for text in conditions for word in ("--fail-on", text)]
    words = ["--baseline", "a.py", "--db", "taupy.db", *fail_on, *options, "--", "b.py"]
    args = command.parse(parser, words)
    made = command._Session(args, [command._condition(text) for text in conditions],
                            (["a.py"], ["b.py"]), GATE)  # fmt: skip
    return made


def concluded(pairs, *conditions, options=()):
    made = session(*conditions, options=options)
    made.pairs = pairs
    return made.conclusion()


@pytest.mark.parametrize(
    ("options", "rows"), [((), 5), (("--json",), 7), (("--csv",), 7), (("--parquet", "x.pq"), 7)]
)
def test_people_see_some_of_the_rulings_that_passed_and_programs_all(options, rows):
    stored(3)
    conditions = [f"calls of work > +{more}" for more in range(7)]
    view, code = concluded(3, *conditions, options=options)
    assert (len(view.rows), code) == (rows, 0)


@pytest.mark.parametrize(
    ("factor", "says"),
    [
        (1.1, "it would have failed (7 of 7 pairs lie beyond the limit)"),
        (1.0, "it would have passed (0 of 7 pairs lie beyond the limit)"),
    ],
)
def test_an_undecided_gate_names_the_condition_that_would_have_decided(factor, says):
    stored(12, factor)
    view, code = concluded(12, "time > +5%")
    assert code == 4
    (note,) = [note for note in view.notes if "cpu_time" in note]
    assert "'time > +5%' is undecided after 12 pairs; --fail-on 'cpu_time > +5%'" in note
    assert says in note
    # What it says is what that condition then does.
    assert concluded(12, "cpu_time > +5%")[1] == (3 if factor > 1 else 0)


def test_a_condition_on_a_routine_is_advised_to_ask_for_its_cpu_time():
    stored(12)
    view, code = concluded(12, "time of work > +5%")
    assert code == 4
    (note,) = [note for note in view.notes if "cpu_time" in note]
    assert "--fail-on 'cpu_time of work > +5%'" in note and "would have" not in note


def test_cpu_time_that_differs_as_much_is_not_advised():
    stored(12, cpu_noise=0.5)
    view, code = concluded(12, "time > +5%")
    assert code == 4 and not any("cpu_time" in note for note in view.notes)


def test_ten_undecided_pairs_bring_the_advice_once(capsys):
    stored(12)
    made = session("time > +5%")
    for made.pairs in (9, 10, 11):
        assert not made._done()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and "'time > +5%' is undecided after 10 pairs" in lines[0]


def test_a_run_of_a_pair_that_was_stopped_is_not_judged():
    stored(12, 1.1, noise=0)
    made = session("time > +5%")
    made.pairs, made.stopped = 6, True
    view, code = made.conclusion()
    assert code == 130 and "stopped after 6 pairs" in view.notes
    assert "too few pairs to tell: 6, and 7 are needed" in str(view.rows)


def test_a_log_gets_a_line_every_ten_seconds_and_the_last_one(capsys, monkeypatch):
    stored(12, 1.0, noise=0.001)
    now = [100.0]
    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])
    made = session("time > +0%")
    for made.pairs in range(7, 12):
        now[0] += 4
        made._done()
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"taupy: 9 pairs: ratio [\d.]+ \([\d.]+ \.\. [\d.]+\) of 'time > \+0%'; 0 of 1 decided",
        lines[0],
    )


def test_the_line_on_a_terminal_keeps_the_interval_and_says_where_it_is_cut(capsys, monkeypatch):
    stored(12, 1.0, noise=0.001)
    monkeypatch.setenv("COLUMNS", "60")
    made = session("time of work > +0%")
    made._progress._terminal = True
    made.pairs = 9
    made._done()
    line = capsys.readouterr().err.partition("\x1b")[0]
    assert len(line) == 59 and line.endswith("…")
    assert re.match(r"taupy: 9 pairs: ratio [\d.]+ \([\d.]+ \.\. [\d.]+\) of 'ti", line)
