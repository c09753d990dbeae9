"""`taupy ranks` names who was waited for, and the routine that took it longer."""

from __future__ import annotations

import csv
from array import array
from dataclasses import replace

import pytest

from taupy.commands import main
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call, collectives, host, profile_of, small_profile, steps, stretches

ROOT = Timer(".taupy application", groups=("TAUPY",))
MAIN = Timer("main", "train.py", 3, path="/home/train.py")
SLOW = Timer("augment", "train.py", 17)
CHECKED = Timer("evaluate", "train.py", 30, path="/home/train.py")
READS = Timer("read", "data.py", 5, path="/home/data.py")
BACKWARD = Timer("Tensor.backward", "torch/_tensor.py", 600, ("PYTHON", "PHASE_BACKWARD"))
REDUCES = Timer("all_reduce", "torch/distributed/d.py", 9, ("PHASE_COMMUNICATION",))
MAKES = Timer("init_process_group", "torch/distributed/distributed_c10d.py", 1666)
CHECKS = Timer("_verify_param_shape_across_processes", "torch/distributed/utils.py", 281)
SCALES = Timer("scale", "torch/amp/grad_scaler.py", 7)
OWN = Timer("wait for a library", groups=("TAUPY",))
RECEIVED = Timer("gloo:recv", groups=("COMMUNICATION",))
OF_MPI = Timer("MPI.Comm.recv", groups=("PHASE_COMMUNICATION", "COMMUNICATION"))
LAYER = Timer("head [Linear]", groups=("LAYER",), short="head")


def rank(number: int, augment: int, asked: list[int], received: int = 0, receive: Timer = RECEIVED):
    """Of 2 steps; rank 1 waits long for the other while groups are made, and for taupy.

    Args:
        received: time in receives [ns].
    """
    tree = call(ROOT, 1, 5, [
        call(MAKES, 1, 900 * number),
        call(CHECKS, 1, 800 * number),
        call(MAIN, 1, 10, [
            call(OWN, 1, 1000 * number),
            call(LAYER, 2, 4, [call(SLOW, 2, augment)]),
            call(BACKWARD, 2, 200 - augment, [call(REDUCES, 1)]),
        ]),
    ])  # fmt: skip
    receiving = [host(call(receive, 1, received), number, 1)] if received else []
    profile = profile_of(host(tree, number), *receiving)
    measured = profile.threads[0]
    measured.collectives = [collectives(asked, [95, 195], ranks="0-2", size=3)]
    measured.steps = [steps([100, 100])]
    measured.steps[0].phases["backward"] = measured.steps[0].time_ns[:]
    measured.steps[0].phases["data"][0] = 1
    measured.steps[0].phases["forward"] = measured.steps[0].time_ns[:]
    measured.steps[0].phases["forward"][0] = augment // 2
    measured.steps[0].phases["backward"][0] = 95 - augment // 2
    profile.node_metadata[number] = {"Peak Resident Memory (KiB)": "1024"}
    return profile


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    profile = rank(0, 20, [20, 120])
    other = rank(1, 160, [85, 180])
    with ProfileDB.open("taupy.db", create=True) as db:
        add_profile(db, profile)
        add_profile(db, replace(other, uuid=profile.uuid))
        add_profile(db, small_profile(2))

    def ask(*arguments: str, code: int = 0) -> str:
        assert main(["ranks", *arguments]) == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    return ask


def test_the_one_that_was_waited_for_is_named_with_its_routine(ask):
    text = ask("1")
    assert text.splitlines()[0] == "2 RANKS, 2 MATCHED COLLECTIVES"
    assert "the others waited 125 ns for rank 1, 100 % of all waiting" in text
    assert (
        "over the whole run, augment [{train.py}{17}] took rank 1 140 ns longer than the others "
        "(forward, head, called by main [{train.py}{3}]): 100 % of what took it longer" in text
    )
    assert "up to 1.00 us of a rank's time is taupy's own and left out of causes: wait for" in text
    assert "rank 2 is missing" in text
    rows = list(csv.DictReader(ask("1", "--csv").splitlines()))
    assert [row["wait_ns"] for row in rows] == ["125.0", "0.0"]
    assert [row["transfer_ns"] for row in rows] == ["25.0", "25.0"]
    assert [row["last"] for row in rows] == ["0", "2"]
    assert [row["memory_bytes"] for row in rows] == ["1048576", "1048576"]


def test_what_was_killed_before_its_first_collective_is_not_missing(ask):
    """Rank 2 was measured; of the second job, only one rank took part in a collective."""
    killed = rank(2, 20, [])
    killed.threads[0].collectives, killed.threads[0].steps = [], []
    alone = replace(rank(0, 20, [20, 120]), uuid="3" * 36)
    lone = replace(alone, uuid="4" * 36)
    with ProfileDB.open("taupy.db", readonly=False) as db:
        first = db.trial(1).uuid
        for profile in (replace(killed, uuid=first), alone, lone, replace(killed, uuid="4" * 36)):
            add_profile(db, profile)
    assert "rank 2 began no collective (waiting for it is counted as transfer)" in ask("1")
    assert "missing" not in ask("1")
    assert "is on two ranks: ranks 1-2 are missing; `taupy merge` joins" in ask("3", code=2)
    assert "is on two ranks: rank 1 is missing; rank 2 began no coll" in ask("4", code=2)


def test_a_rank_can_save_what_only_it_was_missing(ask, capsys):
    """65 and 60 ns before two collectives, and 2,700 ns that it outlasted the other rank."""
    assert main(["candidates", "1", "--by", "rank", "--metric", "time", "--csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(row["timer"], row["time_ns"], row["saved_ns"]) for row in rows] == [
        ("1", "2919.0", "2825.0"),
        ("0", "94.0", "0.0"),
    ]
    assert "last at 2 collectives: the others waited 125 ns in all" in rows[0]["evidence"]


def test_layers_of_each_rank_in_a_table_of_its_own(ask, capsys):
    assert main(["layers", "1", "--by", "rank", "--csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    owned = {(row["rank"], row["layer"]): row["own_ns"] for row in rows}
    assert (owned["0", "head"], owned["1", "head"]) == ("24.0", "164.0")
    assert sum(float(own) for (rank, _), own in owned.items() if rank == "0") == 219


def test_failed_ranks_are_named_in_the_order_of_their_ends(ask):
    ends = {0: ("-15", "1700000000900000"), 1: ("-9", "1700000000100000")}
    failing = []
    for number, (code, ended) in ends.items():
        failing.append(replace(rank(number, 20, [20, 120]), uuid="6" * 36))
        failing[-1].node_metadata[number] = {"Exit Code": code, "Ending Timestamp": ended}
    with ProfileDB.open("taupy.db", readonly=False) as db:
        for profile in failing:
            add_profile(db, profile)
    order = "rank 1 (killed by SIGKILL), rank 0 (killed by SIGTERM)"
    assert f"note: failed, in this order: {order}" in ask("3")
    assert "failed" not in ask("1")
    for profile in failing:
        profile.threads[0].collectives = []
        profile.uuid = "7" * 36
        with ProfileDB.open("taupy.db", readonly=False) as db:
            add_profile(db, profile)
    assert f"no collective of trial 4 is on two ranks: failed, in this order: {order}" in ask(
        "4", code=2
    )


def test_receives_are_said_to_count_as_compute(ask):
    """Of steps of 200 ns; less than a twentieth is not mentioned."""
    with ProfileDB.open("taupy.db", readonly=False) as db:
        for uuid, *received in (("7", 20, 11), ("8", 9, 9)):
            for number, time in enumerate(received):
                threads = host(call(MAIN, 1, 200), number), host(call(RECEIVED, 1, time), number, 1)
                profile = profile_of(*threads, uuid=uuid * 36)
                like = rank(number, 20, [20, 120]).threads[0]
                profile.threads[0].collectives = like.collectives
                profile.threads[0].steps = like.steps
                add_profile(db, profile)
    assert "counts as compute: at most 20 ns on rank 0, 11 ns on rank 1 (" in ask("3")
    assert "receives" not in ask("4")


@pytest.mark.parametrize("receive", [RECEIVED, OF_MPI], ids=lambda timer: timer.name)
@pytest.mark.parametrize(("received", "is_known"), [(62, True), (63, False)])
def test_what_made_a_rank_late_that_may_have_waited_itself_is_not_known(
    ask, received, is_known, receive
):
    """The other waited 125 ns for it."""
    with ProfileDB.open("taupy.db", readonly=False) as db:
        for profile in (rank(0, 20, [20, 120]), rank(1, 160, [85, 180], received, receive)):
            add_profile(db, replace(profile, uuid="7" * 36))
    text = ask("3")
    assert "the others waited 125 ns for rank 1, 100 % of all waiting" in text
    assert ("took rank 1 140 ns longer" in text) is is_known
    assert ("up to 63 ns in receives and other calls" in text) is not is_known
    assert ("forward" in ask("3", "--by", "step")) is is_known


def test_collectives_are_summed_by_what_asked_for_them(ask, tmp_path):
    """The first is asked for in a layer, the second by a routine of the backward pass."""
    profiles = [rank(0, 20, [20, 120]), rank(1, 160, [85, 180])]
    with ProfileDB.open("taupy.db", readonly=False) as db:
        for profile in profiles:
            profile.threads[0].collectives[0].row = array("q", [5, 8])
            add_profile(db, replace(profile, uuid="6" * 36))
    names = ("collectives", "bytes", "waited_ns", "rank", "caused_ns")

    def summed(by, *more):
        rows = csv.DictReader(ask("3", "--by", by, "--csv", *more).splitlines())
        return {row[by]: tuple(float(row[name]) for name in names) for row in rows}

    first, second = (1, 8, 65, 1, 65), (1, 8, 60, 1, 60)
    assert summed("layer") == {"head": first, "(no layer)": second}
    assert summed("phase") == {"forward": first, "backward": second}
    assert summed("layer_type", "--step", "1") == {"Linear": first}


def test_compiling_is_no_computing(ask):
    """Of the 200 ns of its steps rank 1 compiles 30, in the first, and is in collectives for 25."""
    assert "Compile" not in ask("1")
    compiled = [rank(0, 20, [20, 120]), rank(1, 160, [85, 180])]
    compiled[1].threads[0].steps[0].phases["compile"] = array("q", [30, 0])
    with ProfileDB.open("taupy.db", readonly=False) as db:
        for profile in compiled:
            add_profile(db, replace(profile, uuid="5" * 36))

    def told(*arguments: str):
        rows = list(csv.DictReader(ask("3", *arguments, "--csv").splitlines()))
        return [(float(row["compute_ns"]), row["compile_ns"]) for row in rows]

    assert told() == [(200 - 11 - 125 - 25, ""), (200 - 11 - 30 - 25, "30")]
    assert told("--step", "1")[1] == (100 - 1 - 30 - 10, "30.0")


def test_each_step_names_its_straggler_and_phase(ask):
    rows = list(csv.DictReader(ask("1", "--by", "step", "--csv").splitlines()))
    assert [(row["step"], row["straggler"], row["caused_ns"]) for row in rows] == [
        ("1", "1", "65.0"),
        ("2", "1", "60.0"),
    ]
    assert (rows[0]["phase"], rows[0]["phase_ns"]) == ("forward", "70.0")
    assert ask("1", "--by", "step", "--step", "2", "--csv").count("\n") == 2
    assert "in step 1 its forward took 70 ns longer" in ask("1", "--step", "1")
    assert "`taupy ranks 1 --by step` lists the steps" in ask("1", "--step", "7", code=2)


def test_each_collective_stands_alone(ask):
    rows = list(csv.DictReader(ask("1", "--by", "collective", "--csv").splitlines()))
    assert [(row["number"], row["last"], row["skew_ns"], row["transfer_ns"]) for row in rows] == [
        ("1", "1", "65.0", "10.0"),
        ("2", "1", "60.0", "15.0"),
    ]


@pytest.fixture
def listed(tmp_path, monkeypatch, capsys):
    """Two ranks that list what they did: the second is late by `augment` in the first step, and in
    the second by two routines of a library that `main` calls."""
    monkeypatch.chdir(tmp_path)
    first, second = rank(0, 20, [20, 120]), rank(1, 160, [85, 180])
    for profile, ends in ((first, [20, 120]), (second, [85, 180])):
        own = [{SLOW: ends[0] - 10, BACKWARD: 4}, {BACKWARD: 5, SCALES: 6}]
        if profile is second:
            own[1] = {BACKWARD: 25, SCALES: 31}
        tree = call(ROOT, 1, 5, [
            call(MAIN, 1, 10, [
                call(LAYER, 2, 4, [call(SLOW, 2, 160)]),
                call(CHECKED, 1, 3, [
                    call(BACKWARD, 2, 49), call(READS, 2, 1, [call(SCALES, 2, 80)]),
                ]),
            ]),
        ])  # fmt: skip
        made = profile_of(host(tree, profile.threads[0].thread.node))
        profile.timers, kept = made.timers, made.threads[0]
        row = {made.timers[timer]: row for row, timer in enumerate(kept.tree.timer)}
        kept.collectives, kept.steps = profile.threads[0].collectives, profile.threads[0].steps
        kept.stretches = stretches(
            ends, *({row[timer]: time for timer, time in of_one.items()} for of_one in own)
        )
        profile.threads = [kept]
    with ProfileDB.open("taupy.db", create=True) as db:
        add_profile(db, first)
        add_profile(db, replace(second, uuid=first.uuid))

    def ask(*arguments: str) -> str:
        assert main(["ranks", "1", *arguments]) == 0
        return capsys.readouterr().out

    return ask


def test_each_collective_names_what_was_longer_since_the_one_before(listed):
    for by in ("step", "collective"):
        rows = list(csv.DictReader(listed("--by", by, "--csv").splitlines()))
        assert [(row["routine"], row["layer"], row["routine_ns"]) for row in rows] == [
            ("augment [{train.py}{17}]", "head", "65.0"),
            ("scale [{torch/amp/grad_scaler.py}{7}]", "", "25.0"),
        ]
    text = listed()
    assert "before the collectives to which it came last, augment [{train.py}{17}] took" in text
    assert "65 ns longer than the others (forward, head, called by main [{train.py}{3}])" in text
    assert "lies within" not in text
    text = listed("--step", "2")
    assert "came last in step 2, scale [{torch/amp/grad_scaler.py}{7}] took rank 1 25 ns" in text
    assert "called by read [{data.py}{5}]): 56 % of what took it longer" in text
    assert "100 % of what took it longer lies within evaluate [{train.py}{30}]" in text


def test_a_trial_without_collectives_says_what_to_do(ask):
    assert "taupy run --collectives" in ask("2", code=2)


@pytest.mark.parametrize("form", ["text", "--csv", "--json", "--markdown"])
def test_names_of_operations_do_no_harm(tmp_path, monkeypatch, capsys, form):
    """They come from files of others."""
    monkeypatch.chdir(tmp_path)
    hostile = "=cmd()|\x1b]0;x\x07\n\u202e<script>"
    with ProfileDB.open("taupy.db", create=True) as db:
        for number in (0, 1):
            profile = replace(rank(number, 20, [20, 120]), uuid="one")
            kept = profile.threads[0].collectives[0]
            kept.operation = [hostile] * 2
            kept.communicator = hostile
            add_profile(db, profile)
    for by in ("collective", "rank"):
        assert main(["ranks", "1", "--by", by, *([form] if form != "text" else [])]) == 0
        text = capsys.readouterr().out
        assert not {"\x1b", "\x07", "\u202e"} & {*text}
        if form == "text":
            assert not any(line.startswith("<script>") for line in text.splitlines())
