"""Perfetto traces of other writers, packet by packet: defaults, clocks, lost packets, Chrome's
older events. The expected times are worked out by hand from the packets."""

from __future__ import annotations

import pytest

from taupy.errors import FormatError
from taupy.formats import perfetto
from taupy.formats import protowire as wire
from taupy.formats.registry import IMPORT_NOTES
from taupy.model import invariants
from taupy.model.profile import ROOT_TIMER
from tests.unit.formats import comparing
from tests.unit.formats.comparing import one

MONOTONIC, BOOTTIME, INCREMENTAL, ABSOLUTE = 3, 6, 64, 65
CLEARED, NEEDS_STATE = 1, 2
BEGIN, END = 1, 2


def message(**fields):
    """A message of fields `f8=5`: numbers, texts or messages (bytes); lists are repeated."""
    data = b""
    for name, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            number = int(name[1:])
            if isinstance(value, int):
                data += wire.put_number(number, value)
            else:
                data += wire.put_bytes(number, value.encode() if isinstance(value, str) else value)
    return data


def packet(sequence=1, flags=None, **fields):
    if flags is not None:
        fields["f13"] = flags
    return wire.put_bytes(1, message(f10=sequence, **fields))


def snapshot(sequence=1, *clocks, primary=None, flags=None, **fields):
    """Clocks as (number, stamp, counts on, unit)."""
    readings = [message(f1=n, f2=at, f3=int(on), f4=unit) for n, at, on, unit in clocks]
    more = {} if primary is None else {"f2": primary}
    return packet(sequence, flags, f6=message(f1=readings, **more), **fields)


def thread(uuid, pid, tid, name, **fields):
    return packet(9, f60=message(f1=uuid, f4=message(f1=pid, f2=tid, f5=name)), **fields)


def begin(stamp, name, sequence=1, flags=None, track=None, clock=None):
    event = message(f9=BEGIN, f23=name, **({} if track is None else {"f11": track}))
    return packet(sequence, flags, f8=stamp, f11=event, **({} if clock is None else {"f58": clock}))


def end(stamp, sequence=1, flags=None, track=None, clock=None):
    event = message(f9=END, **({} if track is None else {"f11": track}))
    return packet(sequence, flags, f8=stamp, f11=event, **({} if clock is None else {"f58": clock}))


def defaults(track, clock=None):
    return message(f11=message(f11=track), **({} if clock is None else {"f58": clock}))


def read(tmp_path, *packets):
    path = tmp_path / "trace"
    path.write_bytes(b"".join(packets))
    profile = one(perfetto, path)
    assert invariants.check(profile) == []
    return profile


def short_paths(profile, measured):
    """Call paths without a root of ours."""
    paths = comparing.short_paths(profile, measured)
    return {
        path.removeprefix(f"{ROOT_TIMER} > "): found
        for path, found in paths.items()
        if path != ROOT_TIMER
    }


def by_name(profile):
    return {measured.thread.name: short_paths(profile, measured) for measured in profile.threads}


def test_threads_and_clocks_of_the_sdk_are_defaults_of_their_sequences(tmp_path):
    """Stamps count from packet to packet, here of two threads in turn, one in microseconds."""
    profile = read(
        tmp_path,
        thread(5, 1, 1, "main"),
        thread(6, 1, 2, "io"),
        snapshot(1, (INCREMENTAL, 1000, True, 0), (BOOTTIME, 1000, False, 0), flags=CLEARED),
        packet(1, f59=defaults(5, INCREMENTAL)),
        snapshot(2, (INCREMENTAL, 2, True, 1000), (BOOTTIME, 2000, False, 0), flags=CLEARED),
        packet(2, f59=defaults(6, INCREMENTAL)),
        begin(10, "load", 1, NEEDS_STATE),  # 1010
        begin(3, "load", 2, NEEDS_STATE),  # 5000
        begin(5, "parse", 1, NEEDS_STATE),  # 1015
        packet(1, NEEDS_STATE, f8=4),  # something else, 1019
        end(1, 1, NEEDS_STATE),  # 1020
        end(20, 1, NEEDS_STATE),  # 1040
        end(7, 2, NEEDS_STATE),  # 12000
    )
    assert by_name(profile) == {
        "main": {"load": (1, 1, 30, 25), "load > parse": (1, 0, 5, 5)},
        "io": {"load": (1, 0, 7000, 7000)},
    }
    assert profile.duration_ns == 12_000 - 1010
    assert IMPORT_NOTES not in profile.metadata


def test_a_stamp_of_another_clock_does_not_advance_the_one_that_counts_on(tmp_path):
    profile = read(
        tmp_path,
        snapshot(
            1,
            (INCREMENTAL, 1, True, 1000),
            (ABSOLUTE, 1, False, 1000),
            (BOOTTIME, 1000, False, 0),
            flags=CLEARED,
            f59=defaults(7, INCREMENTAL),
        ),
        begin(1, "f"),  # 2000
        begin(4, "g", clock=ABSOLUTE),  # 4000
        end(7500, clock=BOOTTIME),
        end(8),  # 2000 + 8000
    )
    assert short_paths(profile, profile.threads[0]) == {
        "f": (1, 1, 8000, 4500),
        "f > g": (1, 0, 3500, 3500),
    }


def test_defaults_are_replaced_and_end_with_the_state_of_their_sequence(tmp_path):
    profile = read(
        tmp_path,
        thread(5, 1, 1, "a"),
        thread(6, 1, 2, "b"),
        packet(1, CLEARED, f59=defaults(5)),
        begin(10, "f"),
        end(20),
        packet(1, f59=defaults(6)),
        begin(30, "f"),
        end(60),
        begin(100, "f", track=5),  # its own track counts for more
        end(101, track=5),
        packet(1, CLEARED),
        begin(200, "f"),  # the trace's own track
        end(207),
    )
    assert by_name(profile) == {
        "a": {"f": (2, 0, 11, 11)},
        "b": {"f": (1, 0, 30, 30)},
        "": {"f": (1, 0, 7, 7)},
    }


def test_packets_that_rely_on_lost_ones_are_left_out_and_counted(tmp_path):
    names = message(f2=message(f1=1, f2="before"))
    profile = read(
        tmp_path,
        begin(1, "early", flags=NEEDS_STATE),  # the ring buffer lost the beginning
        end(2, flags=NEEDS_STATE),
        packet(1, CLEARED, f59=defaults(5), f12=names),
        packet(1, NEEDS_STATE, f8=10, f11=message(f9=BEGIN, f10=1)),
        end(15, flags=NEEDS_STATE),
        packet(1, NEEDS_STATE, f42=1, f8=20, f11=message(f9=BEGIN, f10=1)),
        end(30, flags=NEEDS_STATE),
        packet(1, CLEARED, f59=defaults(5), f12=message(f2=message(f1=1, f2="after"))),
        packet(1, NEEDS_STATE, f8=40, f11=message(f9=BEGIN, f10=1)),
        end(47, flags=NEEDS_STATE),
    )
    assert short_paths(profile, profile.threads[0]) == {
        "before": (1, 0, 5, 5),
        "after": (1, 0, 7, 7),
    }
    assert profile.metadata[IMPORT_NOTES].splitlines() == [
        "packets were lost in 1 place: what they held is missing",
        "omitted: 4 packets relying on packets that were lost",
    ]


def test_clocks_are_related_by_the_snapshot_before(tmp_path):
    """The machine slept for 500 ns between two snapshots."""
    profile = read(
        tmp_path,
        begin(1100, "f", track=5, clock=MONOTONIC),  # 5100 of BOOTTIME
        end(1300, track=5, clock=MONOTONIC),  # 5800
        snapshot(3, (MONOTONIC, 1000, False, 0), (BOOTTIME, 5000, False, 0)),
        snapshot(3, (MONOTONIC, 1200, False, 0), (BOOTTIME, 5700, False, 0)),
        begin(5000, "f", track=6),  # no clock: that of the trace
        end(5010, track=6),
    )
    assert [short_paths(profile, measured) for measured in profile.threads] == [
        {"f": (1, 0, 700, 700)},
        {"f": (1, 0, 10, 10)},
    ]
    assert profile.duration_ns == 800


def test_the_clock_of_the_trace_may_be_another_one(tmp_path):
    profile = read(
        tmp_path,
        snapshot(1, (MONOTONIC, 100, False, 0), (BOOTTIME, 900, False, 0), primary=MONOTONIC),
        begin(905, "f", track=5, clock=BOOTTIME),  # 105
        end(120, track=5),
    )
    assert short_paths(profile, profile.threads[0]) == {"f": (1, 0, 15, 15)}


def test_one_clock_that_nothing_relates_to_others_is_the_clock_of_the_trace(tmp_path):
    profile = read(tmp_path, begin(7, "f", clock=MONOTONIC), end(9, clock=MONOTONIC))
    assert short_paths(profile, profile.threads[0]) == {"f": (1, 0, 2, 2)}


@pytest.mark.parametrize(
    ("packets", "said"),
    [
        (
            [begin(7, "f"), end(9, clock=MONOTONIC)],
            r"clock 3 \(MONOTONIC\), which no clock snapshot relates to the trace's own clock",
        ),
        (
            [begin(7, "f", clock=BOOTTIME), end(9, 4, clock=INCREMENTAL)],
            r"clock 64 of sequence 4, which no clock snapshot relates to clock 6 \(BOOTTIME\)",
        ),
        (
            [
                snapshot(1, (INCREMENTAL, 5, True, 0), (BOOTTIME, 5, False, 0)),
                begin((1 << 64) - 6, "f", clock=INCREMENTAL),
            ],
            "a time stamp of -1 ns",
        ),
        ([packet(f133=b"x")], "compressed packets"),
    ],
)
def test_time_that_cannot_be_understood_is_refused_by_its_name(tmp_path, packets, said):
    with pytest.raises(FormatError, match=said):
        read(tmp_path, *packets)


def test_packets_of_several_writers_are_not_in_order_of_time(tmp_path):
    """A task begins on one thread and ends on another, whose packets come first."""
    process = packet(9, f60=message(f1=3, f3=message(f1=40, f6="server")))
    task = packet(9, f60=message(f1=8, f5=3))
    profile = read(
        tmp_path,
        process,
        task,
        end(500, 2, track=8),
        begin(300, "step", 2, track=8),
        end(450, 2, track=8),
        begin(100, "task", 1, track=8),
    )
    (measured,) = profile.threads
    assert measured.thread.name == "task"  # a track without a name has that of its first slice
    assert short_paths(profile, measured) == {
        "task": (1, 1, 400, 250),
        "task > step": (1, 0, 150, 150),
    }


def test_tracks_of_one_thread_are_one_and_machines_are_apart(tmp_path):
    profile = read(
        tmp_path,
        thread(5, 1, 1, "main"),
        thread(6, 1, 1, "main"),
        thread(7, 1, 1, "main", f98=2),
        begin(10, "f", track=5),
        begin(12, "g", 2, track=6),
        end(15, 2, track=6),
        end(20, track=5),
        begin(30, "f", track=7),
        end(31, track=7),
    )
    assert [(m.thread.node, short_paths(profile, m)) for m in profile.threads] == [
        (0, {"f": (1, 1, 10, 7), "f > g": (1, 0, 3, 3)}),
        (1, {"f": (1, 0, 1, 1)}),
    ]


def test_names_that_the_file_does_not_hold_are_counted(tmp_path):
    first, second = (packet(1, f8=at, f11=message(f9=BEGIN, f10=77)) for at in (5, 6))
    profile = read(tmp_path, first, second, end(7), end(9), packet(f11=message(f9=BEGIN)))
    assert short_paths(profile, profile.threads[0]) == {
        "(no name)": (1, 1, 4, 3),
        "(no name) > (no name)": (1, 0, 1, 1),
    }
    assert profile.metadata[IMPORT_NOTES].splitlines() == [
        "2 slices with a name that the file does not hold",
        "omitted: 1 event without a time",
    ]


def legacy(phase, event=None, **fields):
    return message(f23="f", f6=message(f2=ord(phase), **fields), **(event or {}))


def test_older_events_of_chrome_count_from_a_thread_s_reference(tmp_path):
    """Microseconds since the thread's description, and complete slices with a duration."""
    profile = read(
        tmp_path,
        packet(1, CLEARED, f44=message(f1=4, f2=5, f5="main", f6=1000)),
        packet(1, f11=legacy("X", {"f1": 10}, f3=50)),  # 1010 to 1060 us
        packet(1, f11=message(f9=BEGIN, f23="g", f1=5)),  # 1015
        packet(1, f11=message(f9=BEGIN, f23="h", f16=1017)),
        packet(1, f11=message(f9=END, f16=1018)),
        packet(1, f11=message(f9=END, f1=20)),  # 1035
        packet(1, f11=legacy("I", {"f1": 1})),
        packet(1, f11=legacy("X", {"f1": 40}, f3=4)),  # 1076
    )
    (measured,) = profile.threads
    assert measured.thread.name == "main"
    assert short_paths(profile, measured) == {
        "f": (2, 1, 54_000, 34_000),
        "f > g": (1, 1, 20_000, 19_000),
        "f > g > h": (1, 0, 1000, 1000),
    }
    assert profile.duration_ns == 70_000
    assert IMPORT_NOTES not in profile.metadata


def test_asynchronous_slices_of_an_id_are_a_track(tmp_path):
    def at(stamp, phase, id):
        return packet(1, f8=stamp, f11=legacy(phase, {"f22": "net", "f11": 5}, **id))

    profile = read(
        tmp_path,
        thread(5, 40, 41, "main"),
        *(at(10, "b", {"f6": 1}), at(12, "b", {"f6": 2}), at(13, "b", {"f6": 2})),
        *(at(14, "e", {"f6": 2}), at(20, "e", {"f6": 1}), at(32, "e", {"f6": 2})),
    )
    assert [(m.thread.name, short_paths(profile, m)) for m in profile.threads] == [
        ("asynchronous net", {"f": (1, 0, 10, 10)}),
        ("asynchronous net", {"f": (1, 1, 20, 19), "f > f": (1, 0, 1, 1)}),
    ]


def test_slices_that_outlast_those_around_them_end_with_them(tmp_path):
    profile = read(
        tmp_path,
        packet(1, f8=1000, f11=legacy("X", f3=10)),  # 1000 to 11000
        packet(1, f8=2000, f11=message(f9=BEGIN, f23="g")),
        packet(1, f8=3000, f11=legacy("X", f3=10)),  # to 13000
        packet(1, f8=9000, f11=message(f9=BEGIN, f23="g")),
        packet(1, f8=20_000, f11=message(f9=BEGIN, f23="h")),
        packet(1, f8=20_001, f11=message(f9=END)),
        packet(1, f8=20_002, f11=message(f9=END)),
    )
    assert short_paths(profile, profile.threads[0]) == {
        "f": (1, 1, 10_000, 1000),
        "f > g": (1, 1, 9000, 1000),
        "f > g > f": (1, 1, 8000, 6000),
        "f > g > f > g": (1, 0, 2000, 2000),
        "h": (1, 0, 1, 1),
    }
    assert profile.metadata[IMPORT_NOTES].splitlines() == [
        "3 slices outlasted the slice around: cut off there",
        "omitted: 1 end of slices without a beginning",
    ]
