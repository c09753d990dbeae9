"""The tables of `taupy lines`."""

from __future__ import annotations

from taupy.answers import lines
from taupy.model.profile import LineTime, Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call, host, profile_of


def test_threads_without_a_line_are_named_with_their_time(tmp_path):
    """Of three short threads one was looked at: the table had its time, as if it were all."""
    short = Timer("short", "jobs.py", 3)
    threads = [call(short, 1, ns) for ns in (40_000_000, 50_000_000, 60_000_000)]
    profile = profile_of(
        host(call(Timer("main", "jobs.py", 9), 1, 100_000_000), name="MainThread"),
        *(host(root, thread=number) for number, root in enumerate(threads, 1)),
    )
    at = [timer.name for timer in profile.timers]
    for thread, name, line in ((0, "main", 10), (1, "short", 4)):
        (ns,) = set(profile.threads[thread].tree.inclusive["time"]) - {0}
        profile.threads[thread].lines = [
            LineTime(at.index(name), None, line, line, 4, 9, "cpu", 20, ns, ns, 20.0)
        ]
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        main, others = lines.views(db, add_profile(db, profile), lines.Options())
    assert not any("no line is known" in note for note in main.notes)
    assert "no line is known of 2 more threads, 110 ms in all" in others.notes
