"""`taupy report` says what `taupy ranks` does, whenever a trial has several ranks."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from taupy.commands import main
from taupy.model.profile import Timer
from taupy.network import layers
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report import contents, document, front, screen
from taupy.report.report import report
from tests.builders import call, collectives, host, profile_of

MS = 1_000_000
WORK = Timer("work", "m.py", 3, path="/home/u/m.py")
RUN = Timer("run", "m.py", 7, path="/home/u/m.py")


def job(work, communicators=None):
    """Ranks that work for so long, and wait in a C function of `run` until all are done."""
    last = max(work)
    threads = [
        host(
            call(".taupy application", 1, 0, [
                call(RUN, 1, (last - ms + 1) * MS, [call(WORK, 10, ms * MS)]),
            ]),
            node=rank,
        )
        for rank, ms in enumerate(work)
    ]  # fmt: skip
    facts = {rank: {"Rank": str(rank), "Ranks": str(len(work))} for rank in range(len(work))}
    profile = profile_of(*threads, node_metadata=facts)
    for thread, mine in zip(profile.threads, communicators or (), strict=False):
        thread.collectives = [mine]
    return profile


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """What a command prints about a job."""
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TAUPY_DB", str(tmp_path / "t.db"))

    def printed(profile, *words):
        if not (tmp_path / "t.db").exists():
            with ProfileDB.open(tmp_path / "t.db", create=True) as db:
                add_profile(db, profile)
        assert main([*words]) == 0
        return " ".join(capsys.readouterr().out.split())

    return printed


SLOW = "work [{m.py}{3}] took rank 2 200 ms longer than the median of the other ranks"


@pytest.mark.parametrize("command", ["report", "ranks"])
def test_without_collectives_the_rank_whose_routine_took_longer_is_named(command, said):
    text = said(job([100, 100, 300, 100]), command)
    assert SLOW in text
    assert "no collectives were matched: who waited for whom is not known" in text


@pytest.mark.parametrize("words", [[], ["--by", "step"]])
def test_a_job_without_collectives_is_not_told_to_be_one(words, said, capsys):
    said(job([100, 100, 300, 100]), "report")
    status = main(["ranks", "1", *words])
    printed = capsys.readouterr()
    text = " ".join((printed.out + printed.err).split())
    assert status == (2 if words else 0)
    assert "trial 1 has 4 ranks and no collectives" in text
    assert "torchrun" not in text and "--collectives" not in text


def test_the_reason_stands_in_json_and_on_the_page(said, tmp_path):
    slow = job([100, 100, 300, 100])
    assert json.loads(said(slow, "report", "--json"))["ranks"][0] == SLOW
    with ProfileDB.open(tmp_path / "t.db") as db:
        overview = contents.of_trial(db, db.latest()).overview
    assert overview["ranks"][0] == SLOW


def test_of_two_ranks_one_may_wait_for_the_other(said):
    text = said(job([100, 300]), "report")
    assert "work [{m.py}{3}] took rank 1 200 ms longer than rank 0" in text
    assert "run [{m.py}{7}] took rank 0 200 ms longer than rank 1" in text
    assert "median" not in text
    assert "one of the two ranks may be waiting for the other" in text


@pytest.mark.parametrize("what", ["collectives", "backward passes by layer", None])
def test_the_library_that_records_collectives_comes_next_where_it_lacks(what, said):
    profile = job([100, 300])
    if what:
        cause = layers.not_built("2.13.0")
        profile.metadata[layers.LACKING] = f"{what}: not recorded, since {cause}"
    is_next = "next: taupy setup torch, taupy report" in said(profile, "report")
    assert is_next == (what == "collectives")


def test_even_ranks_have_no_rank_to_look_at(said):
    text = said(job([100, 101, 99, 100]), "report")
    assert "no routine of the program took a rank much longer than the others" in text


def test_with_collectives_report_says_what_ranks_says(said):
    """Rank 1 comes 50 ms late to each of ten collectives."""
    starts = [[(100 * n + late) * MS for n in range(10)] for late in (0, 50)]
    both = [collectives(mine, [(100 * n + 60) * MS for n in range(10)]) for mine in starts]
    profile = job([100, 600], both)
    assert "the others waited 500 ms for rank 1" in said(profile, "ranks")
    assert "ranks: the others waited 500 ms for rank 1" in said(profile, "report")


def test_a_screen_with_little_room_says_who_was_waited_for_and_why(tmp_path):
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        add_profile(db, job([100, 300]))
        found = replace(report(db, db.latest()), ranks=("who", "why", "how even"))
    text = screen.text(found, height=1)
    assert "ranks: who\n  why\n" in text and "how even" not in text


def test_one_process_has_no_ranks(said):
    assert "ranks" not in said(profile_of(host(call(RUN, 1, MS))), "report")


def test_each_rank_has_a_bar(said):
    text = said(job([100, 100, 300, 100]), "report", "-v")
    assert "Ranks █ your code" in text
    for rank in range(4):
        assert re.search(rf"rank {rank} █+ 301 ms", text), text


def test_in_a_full_screen_each_rank_has_its_seconds(tmp_path):
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        add_profile(db, job([100, 100, 300, 100]))
        shown = screen.text(report(db, db.latest()), height=10)
    assert "Ranks: rank 0 301 ms, rank 1 301 ms, rank 2 301 ms, rank 3 301 ms\n" in shown


def test_of_many_threads_those_that_do_most_and_least_have_a_bar(tmp_path):
    """Worker processes and threads stand under headings of their own."""
    worker = lambda ms: call(WORK, 1, ms * MS)  # noqa: E731
    profile = profile_of(
        host(call(".taupy application", 1, 0, [call(RUN, 1, 500 * MS)])),
        *(host(call(".taupy application", 1, 0, [worker(100 * n)]), thread=n, name=f"pool-{n}")
          for n in range(1, 8)),
        host(call(".taupy application", 1, 0, [worker(50)]), node=3),
    )  # fmt: skip
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        add_profile(db, profile)
        measured = report(db, db.latest())
    shown = screen.text(measured, height=40)
    assert re.search(
        r"\nWorker processes beside the main thread  █ your code\n  process 3 .* 50.0 ms\n", shown
    )
    assert "\nOther threads beside the main thread  █ your code\n" in shown
    assert re.findall(r"\n  pool-(\d)  ", shown) == ["1", "5", "6", "7"]
    assert "and 3 more: 200 ms to 400 ms" in shown


def test_screen_page_and_document_have_the_same_bars(tmp_path):
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        add_profile(db, job([100, 100, 300, 100]))
        measured = report(db, db.latest())
        page = front.overview(db, measured, 0)["lanes"]
    told = document.document(measured)["lanes"]
    assert [(lane["name"], [(band["kind"], band["ns"]) for band in lane["bands"]])
            for of in page for lane in of["lanes"]] == [
        (lane["name"], [(band["kind"], round(band["time_ns"])) for band in lane["bands"]])
        for lane in told
    ]  # fmt: skip
    assert [lane["name"] for lane in told] == [f"rank {rank}" for rank in range(4)]
    shown = screen.text(measured, verbose=True)
    assert all(f"  {lane['name']}  " in shown for lane in told)
