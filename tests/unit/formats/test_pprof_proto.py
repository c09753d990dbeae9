"""pprof profiles: there and back, and those of others."""

from __future__ import annotations

import gzip
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import FormatError
from taupy.formats import pprof_proto
from taupy.formats import protowire as wire
from taupy.formats.registry import exported
from taupy.model import invariants
from taupy.model.profile import ROOT_TIMER
from taupy.model.progress import SILENT
from tests import builders


def read(path):
    first = path.read_bytes()
    first = gzip.decompress(first) if first.startswith(b"\x1f\x8b") else first
    assert pprof_proto.recognises(path, first[:65536])
    (profile,) = pprof_proto.read(path, SILENT)
    return profile


def there_and_back(profile, folder):
    path = folder / "p.pb.gz"
    lost = exported(profile, pprof_proto.FORMAT, path, SILENT)
    return read(path), lost


def essence(profile):
    """Threads with their call paths: calls, subroutines, values by metric."""
    found = {}
    for thread in profile.threads:
        tree, paths = thread.tree, {}
        for row in range(len(tree)):
            names, at = [], row
            while at >= 0:
                timer = profile.timers[tree.timer[at]]
                names.append((timer.full_name, tuple(sorted(timer.groups))))
                at = tree.parent[at]
            values = {
                name: (column[row], tree.exclusive[name][row])
                for name, column in tree.inclusive.items()
                if any(tree.exclusive[name])
            }
            paths[tuple(reversed(names))] = (tree.calls[row], tree.subroutines[row], values)
        found[thread.thread] = paths
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_any_profile_comes_back(tmp_path_factory, seed):
    profile = builders.random_profile(random.Random(seed))
    back, lost = there_and_back(profile, tmp_path_factory.mktemp("pprof"))
    assert essence(back) == essence(profile)
    assert lost == []
    assert invariants.check(back) == []


def test_metrics_names_and_metadata_come_back(tmp_path):
    profile = builders.small_profile()
    back, lost = there_and_back(profile, tmp_path)
    assert essence(back) == essence(profile)
    assert [thread.thread for thread in back.threads] == [
        thread.thread for thread in profile.threads
    ]
    assert back.metadata == profile.metadata
    assert (back.application, back.started_at, back.duration_ns) == (
        "app",
        builders.STARTED_AT,
        2 * 10**9,
    )
    assert [line.partition(";")[0] for line in lost] == [
        "not written: user events",
        "not written: metadata of single nodes",
    ]


def test_gpu_work_keeps_its_call_paths(tmp_path):
    profile = builders.gpu_profile()
    back, lost = there_and_back(profile, tmp_path)
    kernel = back.threads[1]
    assert kernel.thread == profile.threads[1].thread
    assert kernel.tree.inclusive["time"][0] == 5800
    gemm = next(timer for timer in back.timers if timer.short == "gemm")
    assert gemm.groups == ("GPU_KERNEL",)
    assert "not written: the difference between not measured and 0; both are 0" in lost
    assert any("launch configurations" in line for line in lost)


def message(samples, types=(("samples", "count"), ("cpu", "nanoseconds")), locations=(), extra=b""):
    """A profile as other tools write it, not packed."""
    strings = [""]

    def text(value):
        if value not in strings:
            strings.append(value)
        return strings.index(value)

    out = b""
    for kind, unit in types:
        out += wire.put_bytes(1, wire.put_number(1, text(kind)) + wire.put_number(2, text(unit)))
    functions = {}
    for number, names in locations:
        lines = b""
        for name, file, line in names:
            if name not in functions:
                functions[name] = len(functions) + 1
                out += wire.put_bytes(
                    5,
                    wire.put_number(1, functions[name]) + wire.put_number(2, text(name))
                    + wire.put_number(4, text(file)) + wire.put_number(5, line),
                )  # fmt: skip
            lines += wire.put_bytes(
                4, wire.put_number(1, functions[name]) + wire.put_number(2, line)
            )
        out += wire.put_bytes(4, wire.put_number(1, number) + lines)
    for stack, values, *labels in samples:
        parts = b"".join(wire.put_number(1, one) for one in stack)  # not packed: also lawful
        for key, value in labels:
            number = isinstance(value, int)
            told = wire.put_number(3, value) if number else wire.put_number(2, text(value))
            parts += wire.put_bytes(3, wire.put_number(1, text(key)) + told)
        out += wire.put_bytes(2, parts + wire.put_packed(2, values))
    for string in strings:
        out += wire.put_text(6, string)
    return out + extra


def test_a_foreign_profile_with_inlined_routines(tmp_path):
    path = tmp_path / "go.pb"
    places = [(1, [("main.main", "main.go", 5)]), (2, [("inner", "m.go", 9), ("outer", "m.go", 7)])]
    path.write_bytes(message([((2, 1), (3, 300)), ((1,), (1, 100))], locations=places))
    profile = read(path)
    (one,) = profile.threads
    names = [profile.timers[place].full_name for place in one.tree.timer]
    assert names == ["main.main [{main.go}{5}]", "outer [{m.go}{7}]", "inner [{m.go}{9}]"]
    assert list(one.tree.inclusive["time"]) == [400, 300, 300]
    assert list(one.tree.exclusive["samples"]) == [1, 0, 3]
    assert profile.metadata["pprof time"] == "cpu"


MAIN = [(1, [("main", "app.py", 1)])]


@pytest.mark.parametrize(
    "unit", ["\u03bcs", "\u00b5s", "us", "USec", "microsecond", "microseconds", "Microseconds"]
)
@pytest.mark.parametrize("kind", ["Wall time", "wall-time", "wall"])
def test_the_time_is_found_however_its_unit_is_spelled(tmp_path, unit, kind):
    path = tmp_path / "other.pprof"
    types = (("cpu-time", "nanoseconds"), (kind, unit))
    path.write_bytes(message([((1,), (7, 300))], types, MAIN))
    profile = read(path)
    assert {metric.name: metric.unit for metric in profile.metrics} == {
        "cpu-time": "ns", "time": "ns"
    }  # fmt: skip
    assert list(profile.threads[0].tree.inclusive["time"]) == [300_000]
    assert profile.duration_ns == 300_000  # the file does not say


@pytest.mark.parametrize(
    ("thread", "name", "native"),
    [
        ("thread id", "thread name", "thread native id"),
        ("Thread ID", "Thread Name", "Thread Native ID"),
        ("thread_id", "thread_name", "thread-native-id"),
        ("threadId", "thread.name", "NativeThreadID"),
    ],
)
def test_labels_name_threads_however_they_are_spelled(tmp_path, thread, name, native):
    path = tmp_path / "other.pprof"
    types = (("wall", "nanoseconds"),)
    samples = [
        ((1,), (10,), (thread, 139), (name, "MainThread"), (native, 39)),
        ((1,), (20,), (thread, 140), (name, "Worker-1"), (native, 40)),
        ((1,), (40,), (thread, 140), (name, "Worker-1"), (native, 40)),
    ]
    path.write_bytes(message(samples, types, MAIN))
    found = [
        (one.thread.name, one.thread.native_id, one.tree.inclusive["time"][0])
        for one in read(path).threads
    ]
    assert found == [("MainThread", 39, 10), ("Worker-1", 40, 60)]


@pytest.mark.parametrize(
    ("unit", "metric", "factor"),
    [
        ("nanosecond", "time", 1), ("sec", "time", 10**9), ("minutes", "time", 60 * 10**9),
        ("byte", "wall", 1), ("MB", "wall", 1 << 20), ("widgets", "wall", 1),
    ],
)  # fmt: skip
def test_units_are_those_of_gos_pprof(tmp_path, unit, metric, factor):
    path = tmp_path / "other.pprof"
    path.write_bytes(message([((1,), (3,))], (("wall", unit),), MAIN))
    profile = read(path)
    assert list(profile.threads[0].tree.inclusive[metric]) == [3 * factor]
    named = {"time": "ns", "wall": "widgets" if unit == "widgets" else "B"}
    assert [one.unit for one in profile.metrics] == [named[metric]]


def test_threads_of_equal_ids_in_two_processes_are_two(tmp_path):
    path = tmp_path / "other.pprof"
    samples = [
        ((1,), (10,), ("Process ID", "7"), ("Thread ID", "7")),
        ((1,), (20,), ("Process ID", "8"), ("Thread ID", "7")),
        ((1,), (40,), ("Process ID", "8"), ("Thread ID", "9")),
    ]
    path.write_bytes(message(samples, (("wall", "nanoseconds"),), MAIN))
    found = [
        ((one.thread.node, one.thread.context, one.thread.thread), one.thread.native_id)
        for one in read(path).threads
    ]
    assert found == [((0, 0, 0), 7), ((1, 0, 0), 7), ((1, 0, 1), 9)]


@pytest.mark.parametrize(
    ("values", "metrics"),
    [((0, 3), {"samples": "count"}), ((2, 3), {"value": "", "samples": "count"})],
)
def test_an_empty_sample_type_is_one_and_left_out_if_it_counted_nothing(tmp_path, values, metrics):
    """Parca's first one."""
    path = tmp_path / "parca"
    path.write_bytes(
        wire.put_bytes(1, b"") + message([((1,), values)], (("samples", "count"),), MAIN)
    )
    profile = read(path)
    assert {metric.name: metric.unit for metric in profile.metrics} == metrics
    assert list(profile.threads[0].tree.inclusive["samples"]) == [3]
    assert not pprof_proto.recognises(path, wire.put_bytes(1, b"") * 4)


def test_a_sample_type_that_is_0_everywhere_is_a_metric(tmp_path):
    """What was counted and is 0 is not unknown."""
    path = tmp_path / "heap"
    types = (("alloc_space", "bytes"), ("inuse_space", "bytes"))
    samples = [((1,), (100, 0), ("thread", "a")), ((1,), (200, 0), ("thread", "b"))]
    path.write_bytes(message(samples, types, MAIN))
    profile = read(path)
    assert [list(one.tree.inclusive["inuse_space"]) for one in profile.threads] == [[0], [0]]
    assert [list(one.tree.inclusive["alloc_space"]) for one in profile.threads] == [[100], [200]]


@pytest.mark.parametrize("more", [0, 1])
def test_functions_without_ids_are_those_of_the_locations_in_order(tmp_path, more):
    """As .NET's profiler wrote them, and as Pyroscope repairs them: where there is one each."""
    names = ["Main", "Work", "Wait"]
    functions = b"".join(wire.put_bytes(5, wire.put_number(2, 2 + n)) for n in range(3 + more))
    places = b"".join(
        wire.put_bytes(4, wire.put_number(1, 10 * n) + wire.put_bytes(4, wire.put_number(2, n)))
        for n in (1, 2, 3)
    )
    sample = wire.put_bytes(2, wire.put_packed(1, (30, 10)) + wire.put_packed(2, (5,)))
    strings = b"".join(wire.put_text(6, text) for text in ["", "cpu", *names, "other"])
    path = tmp_path / "dotnet"
    kind = wire.put_bytes(1, wire.put_number(1, 1))
    path.write_bytes(kind + sample + functions + places + strings)
    profile = read(path)
    (one,) = profile.threads
    found = [profile.timers[timer].name for timer in one.tree.timer]
    assert found == (["Main", "Wait"] if not more else ["other", "other"])


def test_stacks_without_a_common_root_get_one(tmp_path):
    path = tmp_path / "two.pb"
    places = [(1, [("a", "", 0)]), (2, [("b", "", 0)])]
    path.write_bytes(message([((1,), (1, 10)), ((2,), (2, 20))], locations=places))
    profile = read(path)
    tree = profile.threads[0].tree
    assert profile.timers[tree.timer[0]].name == ROOT_TIMER
    assert list(tree.inclusive["time"]) == [30, 10, 20]


@pytest.mark.slow
def test_what_contradicts_itself_is_refused(tmp_path):
    places = [(1, [("a", "", 0)])]
    good = message([((1,), (1, 10))], locations=places)
    cases = {
        "values": (message([((1,), (1,))], locations=places), "1 values and 2 sample types"),
        "location": (message([((9,), (1, 1))], locations=places), "location 9 does not exist"),
        "none": (message([], locations=places), "nothing was sampled"),
        "cut": (good[:-2], "not a protocol buffer"),
        "strings": (good[:-3], "there are 5 strings"),
        "types": (wire.put_bytes(2, b""), "not a pprof profile"),
        "length": (good + b"\x32\xff\xff\xff\xff\x0f", " bytes, but only"),
        "packed": (gzip.compress(good)[:-12], "gzip data ends early"),
        "bomb": (gzip.compress(b"\x32\x00" * (3 << 20)), "entries"),
    }
    for name, (content, reason) in cases.items():
        path = tmp_path / f"{name}.pb"
        path.write_bytes(content)
        with pytest.raises(FormatError, match=reason) as refused:
            list(pprof_proto.read(path, SILENT))
        assert f"{name}.pb" in str(refused.value) and "\n" not in str(refused.value)


@given(st.lists(st.integers(0, (1 << 64) - 1)))
def test_numbers_survive_the_wire(values):
    ((number, kind, packed),) = wire.fields(wire.put_packed(7, values))
    assert (number, wire.numbers(kind, packed)) == (7, values)


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_refused(data):
    try:
        list(wire.fields(data))
    except wire.WireError as problem:
        assert 0 <= problem.at <= len(data)
