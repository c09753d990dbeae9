"""ParaProf's packed profiles: the layout as its writer makes it, and what is refused."""

from __future__ import annotations

import gzip
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import FormatError
from taupy.formats.tau import packed as tau_packed
from taupy.model.profile import Metric
from tests.unit.formats.comparing import events, flat_by_name, one, read, short_paths


def i(number):
    return struct.pack(">i", number)


def d(number):
    return struct.pack(">d", number)


def u(text):
    data = text.encode("utf-16-be", "surrogatepass")
    halves = (chr(int.from_bytes(data[n : n + 2], "big")) for n in range(0, len(data), 2))
    java = "".join(halves).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    return struct.pack(">H", len(java)) + java


def table(items, make=u):
    return i(len(items)) + b"".join(map(make, items))


def facts(pairs):
    return table(list(pairs.items()), lambda pair: u(pair[0]) + u(pair[1]))


def packed(
    threads, functions, metrics=("TIME",), groups=("TAU_USER", "TAU_CALLPATH"), events=(),
    trial=None, metadata=None, version=2, compatible=1,
):  # fmt: skip
    """functions: (name, group ids); threads: {place: ([(id, calls, subrs, values)], events)}."""
    out = "PPK".encode("utf-16-be") + i(version) + i(compatible)
    if version >= 2:
        header = i(0) + facts(trial or {}) + i(len(metadata or {}))
        for place, values in (metadata or {}).items():
            header += b"".join(map(i, place)) + facts(values)
        out += i(len(header)) + header
    else:
        out += i(3) + b"any"
    out += table(metrics) + table(groups)
    out += table(functions, lambda one: u(one[0]) + table(one[1], i))
    out += table(events) + i(len(threads))
    for place, (rows, samples) in threads.items():
        out += b"".join(map(i, place)) + i(len(rows))
        for id, *values in rows:
            out += i(id) + b"".join(map(d, values))
        out += i(len(samples))
        for id, count, *values in samples:
            out += i(id) + i(count) + b"".join(map(d, values))
    return out


MAIN, F, PATH = ("main", [0]), ("f \U0001f600\0", [0]), ("main => f \U0001f600\0", [1, 0])
SMALL = packed(
    {
        (0, 0, 0): ([(0, 1, 2, 38.5, 98), (1, 2, 0, 59.5, 59.5), (2, 2, 0, 59.5, 59.5)], []),
        (1, 0, 0): ([(0, 1, 0, 5, 5)], [(0, 2, 1.0, 9.0, 5.0, 82.0)]),
    },
    [MAIN, F, PATH],
    events=["Bytes"],
    trial={"Executable": "/bin/app", "café": "∑"},
    metadata={(0, 0, 0): {"Hostname": "a"}, (1, 0, 0): {"Hostname": "b"}},
)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_packed_profile_is_read(tmp_path, pack):
    file = tmp_path / "small.ppk"
    file.write_bytes(pack(SMALL))
    first, second = read(tau_packed, file)
    assert short_paths(first, first.threads[0]) == {
        "main": (1, 2, 98_000, 38_500),
        "main > f \U0001f600\0": (2, 0, 59_500, 59_500),
    }
    assert flat_by_name(second, second.threads[0]) == {"main": (1, 0, 5_000, 5_000)}
    assert events(second, second.threads[0]) == [("Bytes", "", (), 2, 1.0, 9.0, 5.0, 82.0)]
    assert first.metadata == second.metadata == {"Executable": "/bin/app", "café": "∑"}
    assert (first.node_metadata, second.node_metadata) == (
        {0: {"Hostname": "a"}}, {1: {"Hostname": "b"}}
    )  # fmt: skip
    assert first.application == "app"


def test_metrics_stand_beside_each_other(tmp_path):
    file = tmp_path / "two.ppk"
    rows = [(0, 1, 0, 5, 5, 1e6, 1e6)]
    file.write_bytes(packed({(0, 0, 0): (rows, [])}, [MAIN], metrics=["Time", "PAPI_X"]))
    profile = one(tau_packed, file)
    tree = profile.threads[0].tree
    assert tree.calls.tolist() == [1]
    assert tree.exclusive["time"].tolist() == [5_000]
    assert tree.exclusive["PAPI_X"].tolist() == [1_000_000]
    assert Metric("PAPI_X", "count") in profile.metrics


def test_the_first_version_has_no_metadata(tmp_path):
    file = tmp_path / "old.ppk"
    file.write_bytes(packed({(0, 0, 0): ([(0, 1, 0, 5, 5)], [])}, [MAIN], version=1))
    profile = one(tau_packed, file)
    assert profile.metadata == {} and len(profile.threads) == 1


def test_paths_that_no_group_marks_are_paths_where_all_routines_are_known(tmp_path):
    file = tmp_path / "unmarked.ppk"
    rows = [(0, 1, 2, 38, 98), (1, 2, 0, 60, 60), (2, 2, 0, 60, 60), (3, 1, 0, 1, 1)]
    functions = [("main", [0]), ("f", [0]), ("main => f", [0]), ("odd => name", [0])]
    file.write_bytes(packed({(0, 0, 0): (rows, [])}, functions))
    profile = one(tau_packed, file)
    names = set(short_paths(profile, profile.threads[0]))
    assert names >= {"main", "main > f"}
    assert "odd => name" in {timer.name for timer in profile.timers}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\0P\0P\0X", "does not begin with PPK"),
        (packed({}, [MAIN], compatible=3), "is not supported: too new"),
        (packed({}, [("f", [7])]), "group 7 of 2"),
        (packed({}, [MAIN, MAIN]), "twice among the functions"),
        (packed({}, [], events=["a", "a"]), "twice among the user events"),
        (packed({(0, 0, 0): ([(9, 1, 0, 1, 1)], [])}, [MAIN]), "function 9 of 1"),
        (packed({(0, 0, 0): ([], [(0, 1, 1, 1, 1, 1)])}, [MAIN]), "user event 0 of 0"),
        (packed({(0, 0, 0): ([(0, 1, 0, float("nan"), 1)], [])}, [MAIN]), "not a finite number"),
        (packed({(0, 0, 0): ([(0, 1e300, 0, 1, 1)], [])}, [MAIN]), "not a finite number"),
        (packed({(0, 0, 0): ([(0, 1e300, 0, 1, 1)], [])}, [("a\nb", [0])]), r"of 'a\\nb' is no"),
        (SMALL[:200], "ends in the middle"),
        (gzip.compress(SMALL)[:-30], "gzip data ends early"),
        ("PPK".encode("utf-16-be") + i(2) + i(1) + i(0) + i(0) + i(2**31 - 1), "ends in the"),
        ("PPK".encode("utf-16-be") + i(2) + i(1) + i(0) + i(-5), "-5 bytes"),
    ],
)
def test_what_is_no_packed_profile_is_refused_in_one_line(tmp_path, content, reason):
    file = tmp_path / "bad.ppk"
    file.write_bytes(content)
    with pytest.raises(FormatError, match=reason) as refused:
        read(tau_packed, file)
    assert str(refused.value).startswith(f"{file}: unpacked byte ")
    assert "\n" not in str(refused.value)


def test_a_file_that_unpacks_without_end_is_refused_at_its_first_repetition(tmp_path):
    file = tmp_path / "bomb.ppk"
    head = "PPK".encode("utf-16-be") + i(1) + i(1) + i(0) + i(0) + i(0)
    file.write_bytes(gzip.compress(head + i(2**31 - 1) + bytes(50 << 20), 9))
    with pytest.raises(FormatError, match="twice"):
        read(tau_packed, file)


@settings(max_examples=150, deadline=None)
@given(place=st.integers(0, len(SMALL) - 1), value=st.integers(0, 255), drop=st.integers(0, 9))
def test_changed_bytes_are_refused_or_read_never_more(tmp_path_factory, place, value, drop):
    file = tmp_path_factory.mktemp("changed") / "x.ppk"
    file.write_bytes(SMALL[:place] + bytes([value]) + SMALL[place + drop :])
    try:
        read(tau_packed, file)
    except FormatError as problem:
        assert "\n" not in str(problem)


def test_recognised_by_content(tmp_path):
    assert tau_packed.recognises(tmp_path, SMALL)
    assert not tau_packed.recognises(tmp_path, b"PPK")
