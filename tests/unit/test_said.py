"""What commands say is true of the trial, and can be done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taupy.model.profile import Timer
from taupy.model.sampled import STATES
from taupy.network.layers import LACKING
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report import front
from taupy.report.report import report
from taupy.study import versus
from tests.builders import call, event, host, profile_of
from tests.in_process import taupy
from tests.unit.profiledb.test_layers import network

S = 1_000_000_000


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TAUPY_DB", raising=False)

    def store(*profiles, path="taupy.db"):
        with ProfileDB.open(path, create=True) as db:
            for profile in profiles:
                add_profile(db, profile)

    return store


def made(**more):
    return profile_of(host(call("main", 1, 10 * S)), duration_ns=10 * S, **more)


def test_a_program_without_counted_operations_is_not_told_to_count_them(store):
    counted = {"Counted Operations": "analytic", "Counted Program": "plain.py"}
    store(made(metadata=counted), made(number=2))
    said = taupy("roofline", "1").stderr
    assert "plain.py ran inside taupy.count" in said and "called none of them" in said
    assert "taupy run -m taupy.count" not in said
    assert "taupy run -m taupy.count SCRIPT" in taupy("roofline", "2").stderr


def test_the_next_commands_find_the_database(store):
    own = Timer("work", "app.py", 3, path="/u/app.py")
    store(profile_of(host(call("main", 1, 0, [call(own, 1, S)])), duration_ns=S), path="a b.db")
    said = taupy("report", "--db", "a b.db").stdout
    assert "next: taupy report 1 --db 'a b.db' -o report.html" in said


def test_layers_that_an_imported_file_lacks_have_a_remedy(store):
    store(made(source="import chrome 1"), made(number=2))
    assert "with_stack=True" in taupy("layers", "1").stderr
    assert "--no-layers" in taupy("layers", "2").stderr


def test_a_note_of_several_lines_has_no_escape(store):
    profile = network()
    profile.metadata[LACKING] = "first: unknown\nsecond: unknown"
    store(profile)
    said = taupy("layers", "1").stdout
    assert "note: first: unknown\n" in said and "note: second: unknown\n" in said


@pytest.mark.parametrize(
    ("format", "name", "noted"),
    [
        ("perfetto", "t.json", True), ("perfetto", "t.json.gz", True), ("csv", "t.pftrace", True),
        ("perfetto", "t.pftrace", False), ("pprof", "t.pb.gz", False), ("csv", "t.data", False),
        ("collapsed", "t", False),
    ],
)  # fmt: skip
def test_a_file_that_is_named_like_another_format_is_pointed_out(store, format, name, noted):
    store(made())
    written = taupy("export", "1", "--format", format, "-o", name)
    assert written.returncode == 0 and Path(name).exists()
    assert (f"{name} is " in written.stderr) == noted


def test_a_page_of_two_trials_has_no_gate_that_nobody_asked_for(store):
    store(made(), made(number=2))
    assert taupy("report", "1", "2", "-o", "a.html").returncode == 0
    with ProfileDB.open("taupy.db") as db:
        shown, code = versus.of_sides(db, "1", "2")
        titles = [view.title for part in shown.sections[0].parts for view in part.views]
    assert code == 0 and titles and not any("GATE" in title for title in titles)


@pytest.mark.parametrize(("runnable", "busy"), [(3, True), (0.5, False)])
def test_a_busy_machine_is_said_beside_the_elapsed_time(store, runnable, busy):
    seen = [event(STATES[0], [6.0 * S], "ns"), event(STATES[1], [runnable * S], "ns"),
            event("Thread CPU Time", [6.5 * S], "ns")]  # fmt: skip
    store(profile_of(host(call("main", 1, 10 * S), events=seen), duration_ns=10 * S))
    said = "busy machine: 6.50 s of CPU time; a thread waited 3.00 s for a processor"
    assert (said in taupy("report", "1").stdout) == busy
    with ProfileDB.open("taupy.db") as db:
        page = front.overview(db, report(db, db.latest()), 0)
    assert "*6.50 s* of CPU time" in str(page)
    of_page = "*busy machine*: a thread waited 3.00 s for a processor"
    assert (of_page in page["facts"]) == busy
    trial = json.loads(taupy("report", "1", "--json").stdout)["trial"]
    assert (trial["cpu_ns"], trial["runnable_ns"]) == (6.5 * S, runnable * S if busy else 0)


def test_cpu_time_and_shares_of_several_threads_say_what_they_are_of(store):
    seen = [event(STATES[1], [3.0 * S], "ns"), event("Thread CPU Time", [2.0 * S], "ns")]
    serve = Timer("serve", "app.py", 3, path="/u/app.py")
    store(
        profile_of(
            host(call("main", 1, 10 * S), events=seen),
            *(host(call(serve, 1, S), thread=number, events=seen) for number in (1, 2)),
            duration_ns=10 * S,
        )
    )
    text = " ".join(taupy("report", "1", "-v").stdout.split())
    assert "6.00 s of CPU time in 3 threads; a thread waited" in text
    assert "in 2 other threads, added up (% of that):" in text


@pytest.mark.parametrize(
    ("place", "said"), [({"node": 1}, "2 of 3 processes"), ({"thread": 1}, "2 of 3 threads")]
)
def test_cpu_time_that_a_signal_has_taken_is_not_said_to_be_none(store, place, said):
    """A pool ends its workers by a signal, so that some of them have not noted it."""
    seen = [event(STATES[1], [3.0 * S], "ns"), event("Thread CPU Time", [2.0 * S], "ns")]
    ((what, first),) = place.items()
    store(
        profile_of(
            host(call("main", 1, 10 * S), events=seen),
            host(call("work", 1, S), events=seen, **place),
            host(call("work", 1, S), **{what: first + 1}),
            duration_ns=10 * S,
        )
    )
    assert f"4.00 s of CPU time in {said}; " in " ".join(taupy("report", "1").stdout.split())
    with ProfileDB.open("taupy.db") as db:
        page = front.overview(db, report(db, db.latest()), 0)
    assert f"*4.00 s* of CPU time in {said}" in page["facts"]


def test_many_calls_of_a_routine_are_no_loop_in_its_caller(store):
    """They may be made by heapq, or by recursion."""
    own = Timer("Item.__lt__", "app.py", 3, path="/u/app.py")
    push = Timer("Queue.push", "app.py", 14, path="/u/app.py")
    pushes = call("heappush", 10, 0, [call(own, 200, S)])
    store(profile_of(host(call("main", 1, 0, [call(push, 10, 1000, [pushes])])), duration_ns=S))
    said = taupy("report", "1").stdout
    assert "called by Queue.push (defined in line 14)" in said and "loop" not in said


def test_a_failed_gate_names_the_routine_that_grew_most_and_the_next_command(store):
    def run(number, ns):
        slow, new = Timer("slow", "app.py", 3), Timer("new", "app.py", 9)
        calls = [call(slow, 1, ns), *([call(new, 1, S // 10)] if number > 5 else [])]
        return profile_of(
            host(call("main", 1, S - number, calls)), number=number, duration_ns=S + ns,
            experiment="after" if number > 5 else "before", name=f"t{number}",
            uuid=f"01900000-0000-7000-8000-{number:012d}",
        )  # fmt: skip

    store(*(run(number, S + number + (2 * S if number > 5 else 0)) for number in range(1, 11)))
    words = ("compare", "app/before", "app/after", "--fail-on")
    failed = taupy(*words, "total time > +5%", "--db", "taupy.db")
    assert failed.returncode == 3
    assert (
        "grew most: slow, exclusive time 1.00 s -> 3.00 s; next: taupy compare 5 10 --by callpath "
        "--filter slow --db taupy.db"
    ) in failed.stdout
    assert taupy(*failed.stdout.split("next: taupy ")[1].split("\n")[0].split()).returncode == 0
    assert "grew most" not in taupy(*words, "total time > +500%").stdout
