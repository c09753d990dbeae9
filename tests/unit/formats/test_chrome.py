"""Chrome traces: torch.profiler's on a GPU, broken ones, and ours, there and back."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import FormatError
from taupy.formats import limits
from taupy.formats.chrome import trace as chrome
from taupy.formats.chrome.values import nanoseconds
from taupy.formats.registry import IMPORT_NOTES, exported
from taupy.formats.slices import Timeline
from taupy.model import invariants
from taupy.model.gpu import Activity
from taupy.model.progress import SILENT
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests import builders
from tests.growth import is_linear
from tests.unit.formats import chrome_files as made
from tests.unit.formats.test_nsys import paths, totals


def read(path):
    (profile,) = chrome.read(Path(path), SILENT)
    assert invariants.check(profile) == []
    return profile


def trace(tmp_path, *events, **how):
    return read(made.written(tmp_path / "t.json", events, **how))


def notes(profile):
    return profile.metadata.get(IMPORT_NOTES, "")


def test_an_event_without_times_sets_neither_start_nor_duration(tmp_path):
    late = 14_498_861_000_000_000
    profile = trace(
        tmp_path,
        made.slice_("cuda_runtime", "cudaLaunchKernel", late, late + 2_000, correlation=1),
        made.slice_("cuda_runtime", "cudaLaunchKernel", late + 3_000, late + 5_000, correlation=2),
        made.slice_("cuda_runtime", "cudaGetLastError", 0, 0, correlation=3),
        made.kernel("k", late + 10_000, late + 20_000, 1),
        made.kernel("k", 0, 0, 2),
    )
    assert profile.duration_ns == 20_000
    assert profile.started_at == (made.BASE_NS + late) // 1000 / 1e6
    (streamed,) = [thread for thread in profile.threads if thread.thread.kind == "stream"]
    assert sum(launch.count for launch in streamed.launches) == 2
    assert sum(launch.untimed for launch in streamed.launches) == 1
    assert streamed.tree.inclusive["time"][0] == 10_000


def test_a_kernel_hangs_under_call_operator_and_python_frame(tmp_path):
    profile = trace(tmp_path, *made.steps(20))
    kernel = "void layer_2<float, 2>(float*, int)"
    stream = paths(profile, (0, 1, 0))
    assert stream[f"ProfilerStep* > step > aten::linear_2 > cudaLaunchKernel > {kernel}"] == (
        20,
        40_000,
        40_000,
    )
    copy = "ProfilerStep* > step > cudaMemcpyAsync > Memcpy DtoH (Device -> Pinned)"
    assert stream[copy] == (20, 10_000, 10_000)
    host = paths(profile, (0, 0, 0))
    assert host["ProfilerStep* > step > aten::linear_2"] == (20, 50_000, 38_000)
    (streamed,) = [thread for thread in profile.threads if thread.thread.kind == "stream"]
    launch = next(one for one in streamed.launches if one.configuration.grid is not None)
    config = launch.configuration
    assert (config.grid, config.block, config.registers) == ((8, 1, 1), (128, 1, 1), 32)
    # 16 blocks of 4 warps fill an H200's 64: ours, not the trace's estimate of 50 %.
    assert (config.shared_dynamic_bytes, config.occupancy) == (1024, 1.0)
    assert [event.name for event in streamed.user_events] == ["Bytes copied from Device to Host"]
    assert profile.devices[0].compute_capability == "9.0"
    assert min(activity.start_ns for activity in streamed.activities) == made.BASE_NS + 1100
    assert profile.state == "complete" and notes(profile) == ""


def occupancies(tmp_path, *properties, device=0, **launch):
    how = {"registers per thread": 168, "shared memory": 200 << 10, **launch}
    event = made.kernel("gemm", 0, 1000, 1, device=device)
    event["args"] |= {"block": [384, 1, 1], "est. achieved occupancy %": 0, **how}
    profile = trace(tmp_path, event, header={**made.HEADER, "deviceProperties": [*properties]})
    (stream,) = profile.threads[-1:]
    (kernel,) = stream.launches
    return kernel.configuration.occupancy, kernel.configuration.limiter, profile.devices


H100 = made.HEADER["deviceProperties"][0]
MI300 = {"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 0,
         "warpSize": 64}  # fmt: skip


def test_the_occupancy_of_a_kernel_with_much_shared_memory_is_computed(tmp_path):
    share, limiter, _ = occupancies(tmp_path, H100)  # one block of 12 warps of 64 fits
    assert (share, limiter) == (0.1875, "registers, shared memory")


@pytest.mark.parametrize(
    ("properties", "launch"),
    [
        ([], {}),
        ([MI300], {}),  # its compute capability is not NVIDIA's 9.0
        ([H100], {"registers per thread": None}),
        ([H100], {"shared memory": None}),
        ([H100], {"block": None}),
    ],
)
def test_an_occupancy_that_cannot_be_computed_is_unknown(tmp_path, properties, launch):
    assert occupancies(tmp_path, *properties, **launch)[:2] == (None, None)


def test_a_device_is_of_the_only_model_of_the_header(tmp_path):
    """On AMD's GPUs, work names the HSA agent."""
    models = [{**MI300, "id": number} for number in range(8)]
    assert [gpu.name for gpu in occupancies(tmp_path, *models, device=9)[2]] == [
        "AMD Instinct MI300X"
    ]
    others = [MI300, {**MI300, "id": 1, "name": "AMD Instinct MI210"}]
    assert occupancies(tmp_path, *others, device=9)[2] == []


def test_without_correlation_the_operator_owns_a_kernel_and_else_the_arrow(tmp_path):
    profile = trace(
        tmp_path,
        made.slice_("cpu_op", "aten::mm", 0, 1000, **{"External id": 5}),
        made.slice_("cpu_op", "aten::add", 2000, 3000),
        made.arrow("s", 77, 2500, made.PID, made.PID),
        made.kernel("k1", 100, 200, operator=5),
        made.kernel("k2", 3000, 3100),
        made.arrow("f", 77, 3000, 7, 0),
        made.kernel("k3", 4000, 4100),
    )
    stream = paths(profile, (0, 1, 0))
    assert stream["aten::mm > k1"] == (1, 100, 100)
    assert stream["aten::add > k2"] == (1, 100, 100)
    assert stream["(launched from an unknown place) > k3"] == (1, 100, 100)
    assert "GPU activities without a launching call: 1" in notes(profile)


def test_steps_whose_numbers_occur_again_are_numbered_by_time(tmp_path):
    """A program that profiles twice begins again with ProfilerStep#0, in one trace."""
    again = [event | {"ts": event["ts"] + 1000} for event in made.steps(4) if event["ph"] == "X"]
    profile = trace(tmp_path, *made.steps(8), *again)
    (steps,) = profile.threads[0].steps
    assert [*steps.number] == [*range(1, 13)]
    assert "numbers of steps occur again" in notes(profile)
    with ProfileDB.open(tmp_path / "t.db", create=True, readonly=False) as db:
        profile.uuid = builders.UUID.format(1)
        assert add_profile(db, profile)


def test_a_wait_is_an_event_of_the_call_that_waited(tmp_path):
    profile = trace(
        tmp_path,
        made.slice_("cuda_runtime", "cudaStreamSynchronize", 0, 1000, correlation=8),
        made.slice_("cuda_sync", "Stream Sync", 100, 900, 7, 0, correlation=8, stream=7, device=0),
        made.slice_("cuda_sync", "Stream Sync", 100, 900, 7, 0, correlation=9, stream=7, device=0),
    )
    (only,) = profile.threads
    (wait,) = only.user_events
    assert (wait.name, wait.count, wait.mean, wait.row) == ("Wait: Stream Sync", 1, 800, 1)
    assert profile.timers[only.tree.timer[1]].groups == ("CUDA_API", "GPU_SYNC")
    assert "1 wait without a known call" in notes(profile)


def test_an_annotation_that_opens_in_one_routine_and_closes_in_the_next(tmp_path):
    """enter [0, 100], step [90, 500], op [200, 300], exit [450, 600]; all within main."""
    profile = trace(
        tmp_path,
        made.slice_("python_function", "a.py(1): main", 0, 1000),
        made.slice_("python_function", "a.py(2): __enter__", 0, 100),
        made.slice_("user_annotation", "step", 90, 500),
        made.slice_("cpu_op", "aten::mm", 200, 300),
        made.slice_("python_function", "a.py(3): __exit__", 450, 600),
    )
    assert paths(profile, (0, 0, 0)) == {
        "main": (1, 1000, 1000 - 90 - 360 - 150),
        "main > __enter__": (1, 90, 90),
        "main > step": (1, 360, 250),
        "main > step > __enter__": (0, 10, 10),
        "main > step > aten::mm": (1, 100, 100),
        "main > __exit__": (1, 150, 100),
        "main > __exit__ > step": (0, 50, 50),
    }


slices = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 40), st.integers(1, 4)), min_size=1, max_size=30
)


@given(slices)
def test_every_slice_keeps_its_time_and_its_call_however_they_overlap(found):
    line = Timeline(0)
    for start, length, timer in sorted(found, key=lambda one: (one[0], -one[1])):
        row = line.place(start, start + length, timer)
        assert line._timer[row] == timer
    line.finish()
    tree = line.tree
    for timer in range(1, 5):
        rows = [row for row in range(len(tree)) if tree.timer[row] == timer]
        # Time in which a timer is open twice is counted by both of its rows.
        assert sum(tree.inclusive["time"][row] for row in rows) == sum(
            length for _, length, which in found if which == timer
        )
        assert sum(tree.calls[row] for row in rows) == sum(which == timer for *_, which in found)
    covered = {at for start, length, _ in found for at in range(start, start + length)}
    assert tree.inclusive["time"][0] == len(covered)
    profile = builders._bare(tree, [builders.Timer(f"t{n}") for n in range(5)], 1, "x")
    assert invariants.check(profile) == []


@pytest.mark.slow
def test_a_staircase_of_slices_keeps_all_time_and_ends_soon():
    line = Timeline(0)
    for start in range(20_000):
        line.place(start, start + 10_000, 1 + start % 3)
    line.finish()
    tree = line.tree
    values = tree.exclusive["time"]
    assert sum(values) == tree.inclusive["time"][0]
    # Each slice has its own time but for what lies in a later one of its timer.
    found = {1: 0, 2: 0, 3: 0}
    for row in range(1, len(tree)):
        found[tree.timer[row]] += tree.inclusive["time"][row]
    assert sum(found.values()) == 20_000 * 10_000
    assert line.cut_off > 0


@given(st.integers(-(10**15), 10**15), st.integers(0, 999))
def test_stamps_are_exact(whole, part):
    expected = whole * 1000 + part if whole >= 0 else whole * 1000 - part
    assert nanoseconds(f"{whole}.{part:03}") == expected or (whole == 0 and part == 0)
    assert nanoseconds(whole) == whole * 1000
    assert nanoseconds("1e3") == 1_000_000
    assert [nanoseconds(one) for one in ("nan", "1e99", "x", None, True, [], float("nan"))] == [
        None
    ] * 7


def test_begin_and_end_pairs_counters_and_asynchronous_slices(tmp_path):
    def half(kind, moment, name="", **more):
        return {"ph": kind, "pid": 1, "tid": 2, "ts": moment, "name": name, **more}

    profile = trace(
        tmp_path,
        half("E", 1),
        half("B", 10, "outer"),
        half("E", 90),
        half("B", 20, "inner"),
        half("E", 30),
        half("B", 95, "open"),
        {"ph": "X", "pid": 1, "tid": 2, "ts": 96, "dur": 4, "name": "x"},
        half("b", 5, "request", cat="net", id=1),
        half("b", 6, "request", cat="net", id=2),
        half("e", 50, "request", cat="net", id=1),
        half("e", 60, "request", cat="net", id=2),
        half("C", 1, "load", args={"value": 2}),
        half("C", 2, "load", args={"value": 4.5}),
        half("i", 3, "tick"),
        {"name": "no ph"},
    )
    host = paths(profile, (0, 0, 0))
    assert host["outer"] == (1, 80_000, 70_000)
    assert host["outer > inner"] == (1, 10_000, 10_000)
    assert host["open"] == (1, 5000, 1000)
    lined = paths(profile, (0, 0, 1))
    assert sum(time for name, (_, time, _) in lined.items() if name.endswith("request")) == 99_000
    assert sum(calls for calls, _, _ in lined.values()) == 2
    (load,) = profile.threads[0].user_events
    assert (load.name, load.count, load.minimum, load.maximum, load.mean) == (
        "load",
        2,
        2,
        4.5,
        3.25,
    )
    for said in (
        "1 slice without an end",
        "1 end without a begin",
        "1 event without ph",
        "1 instant",
    ):
        assert said in notes(profile)


def asynchronous(kind, moment, name="f", pid=1, **more):
    return {"ph": kind, "pid": pid, "tid": 2, "ts": moment, "name": name, "cat": "net", **more}


def test_requests_at_once_are_not_nested_into_each_other(tmp_path):
    """Ten of 100 us with a query of 50 us in each, a new one every microsecond."""
    events = [
        asynchronous(kind, moment + n, name, id=n)
        for n in range(10)
        for kind, moment, name in (
            ("e", 100, "request"),
            ("b", 0, "request"),
            ("b", 20, "query"),
            ("e", 70, "query"),
        )
    ]
    profile = trace(tmp_path, *events)
    assert paths(profile, (0, 0, 0)) == {
        "request": (10, 1_000_000, 500_000),
        "request > query": (10, 500_000, 500_000),
    }
    assert profile.duration_ns == 109_000
    assert invariants.check(profile) == []


@pytest.mark.parametrize(
    ("begin", "end", "other", "found"),
    [
        ({"id2": {"global": 1}}, {"id2": {"global": 1}}, {"id2": {"global": 2}}, (1, 30_000)),
        ({"id": 1}, {"id": 1}, {"id": 2}, (1, 30_000)),
        ({"id2": {"local": 1}}, {"id2": {"local": 1}}, {"id2": {"global": 1}}, None),
        ({"id": 1, "scope": "a"}, {"id": 1, "scope": "b"}, {"id": 1}, None),
        ({"id": 1}, {"id": 1, "cat": "disk"}, {"id": 2}, None),
    ],
)
def test_an_id_may_begin_in_one_process_and_end_in_another(tmp_path, begin, end, other, found):
    profile = trace(
        tmp_path,
        asynchronous("e", 40, pid=2, **end),
        asynchronous("b", 10, pid=1, **begin),
        asynchronous("b", 20, "g", pid=1, **other),
        asynchronous("e", 25, "g", pid=1, **other),
    )
    assert [measured.thread.node for measured in profile.threads] == [0]
    assert profile.node_metadata[0]["PID"] == "1"
    slices = {name: (calls, time) for name, (calls, time, _) in paths(profile, (0, 0, 0)).items()}
    assert slices == {"g": (1, 5000)} | ({"f": found} if found else {})
    assert ("1 end without a begin" in notes(profile)) is (found is None)
    assert ("1 asynchronous slice without an end" in notes(profile)) is (found is None)


def test_an_id_that_two_processes_use_is_one_of_each(tmp_path):
    profile = trace(
        tmp_path,
        asynchronous("b", 10, pid=1, id=1),
        asynchronous("b", 20, pid=2, id=1),
        asynchronous("e", 25, pid=1, id=1),
        asynchronous("e", 70, pid=2, id=1),
    )
    assert [paths(profile, (node, 0, 0))["f"][1] for node in (0, 1)] == [15_000, 50_000]


def test_an_end_ends_the_slice_of_its_name(tmp_path):
    """Two stages of one request that overlap; and the older S and F, whose name is part of their
    id."""
    profile = trace(
        tmp_path,
        asynchronous("b", 0, "read", id=1),
        asynchronous("b", 10, "parse", id=1),
        asynchronous("e", 30, "read", id=1),
        asynchronous("e", 50, "parse", id=1),
        asynchronous("S", 100, "load", id=7),
        asynchronous("S", 110, "save", id=7),
        asynchronous("F", 140, "load", id=7),
        asynchronous("F", 160, "save", id=7),
    )
    found = paths(profile, (0, 0, 0))
    times = Counter()
    for path, (_, _, exclusive) in found.items():
        times[path.split(" > ")[-1]] += exclusive
    assert times["load"] == 40_000 and times["save"] == 50_000
    assert times["read"] + times["parse"] == 50_000  # the moments of both together, once
    assert sum(calls for calls, _, _ in found.values()) == 4
    assert invariants.check(profile) == []


def test_a_trace_that_is_cut_off_gives_what_is_there(tmp_path):
    whole = made.written(tmp_path / "whole.json", made.steps(50)).read_bytes()
    for cut in (len(whole) // 2, len(whole) * 3 // 4, len(whole) - 20):
        path = tmp_path / "cut.json"
        path.write_bytes(whole[:cut])
        profile = read(path)
        assert profile.state == "incomplete"
        assert "the file is truncated" in notes(profile)
        calls = totals(profile, "CUDA_API")["cudaLaunchKernel"][0]
        there = whole[:cut].count(b'"cudaLaunchKernel"')
        assert calls in (there, there - 1)
    packed = gzip.compress(whole)
    path = tmp_path / "cut.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    assert read(path).state == "incomplete"


AT = '"pid":1,"tid":1,"ts":1,"dur":2'
GOOD = f'{{"ph":"X","name":"f",{AT}}}'


@pytest.mark.parametrize(
    ("event", "timer"),
    [
        (rf'{{"ph":"X","name":"C:\Users\mine\op",{AT}}}', r"C:\Users\mine\op"),
        (f'{{"ph":"X","name":"f",{AT},"args":{{"a":nan,"b":-inf,"c":}}}}', "f"),
        (f'{{"ph":"X","name":"f",{AT},"args":{{"a":NaN,}},}}', "f"),
        (f'{{"ph":"X","name":"g","name":"f",{AT}}}', "f"),
        (f'{{"ph":"X","name":"tab\there",{AT}}}', "tab\there"),
        (f'{{"ph":"X","name":"f","pid":{{"a":1}},"tid":1,"ts":3,"dur":2}},\n{GOOD}', "f"),
        (f'{{"ph":"X","name":"say "hello"","pid":1,"tid":1,"ts":9,"dur":2}},\n{GOOD}', "f"),
        ('{"ph":"X","name":"f","pid":1,"tid":1,"ts":"1.000","dur":2.0e0}', "f"),
        (f'17, null, "text", [1], {GOOD}', "f"),
    ],
)
def test_broken_events_are_mended_or_left_out(tmp_path, event, timer):
    path = tmp_path / "broken.json"
    other = '{"ph":"X","name":"after","pid":1,"tid":1,"ts":5,"dur":1}'
    path.write_text(f'{{"traceEvents": [\n{event},\n{other}\n]}}')
    assert paths(read(path), (0, 0, 0)) == {timer: (1, 2000, 2000), "after": (1, 1000, 1000)}


def test_an_array_without_its_bracket_is_complete(tmp_path):
    """The format allows it: programs append events until they end."""
    path = tmp_path / "t.json"
    for text in (f"[{GOOD}", f"[{GOOD},\n", f"[\n{GOOD},\n{GOOD},"):
        path.write_text(text)
        profile = read(path)
        assert (profile.state, notes(profile)) == ("complete", "")
        assert sum(calls for calls, _, _ in paths(profile, (0, 0, 0)).values()) == text.count("{")
    path.write_text(f"[{GOOD},\n{GOOD[:-9]}")
    assert read(path).state == "incomplete"
    path.write_text(f'{{"traceEvents":[{GOOD},')
    assert read(path).state == "incomplete"


@pytest.mark.parametrize("text", ["[{},\n{}]", '{{"traceEvents": [{},\n{}]}}'])
def test_the_last_event_is_counted_if_it_cannot_be_read(tmp_path, text):
    path = tmp_path / "t.json"
    for odd in ('say "hello"', 'a "b" {c', 'half "a'):
        path.write_text(text.format(GOOD, f'{{"ph":"X","name":"{odd}",{AT}}}'))
        profile = read(path)
        assert profile.state == "complete"
        assert "1 event cannot be read (first traceEvents[1]: Expecting" in notes(profile)


def test_many_broken_events_do_not_take_for_ever(tmp_path):
    path = tmp_path / "quotes.json"
    odd = '{"ph":"X","name":"say "hello","pid":1,"tid":1,"ts":9,"dur":2},\n'

    def read_broken(events):
        path.write_text('{"traceEvents": [' + odd * events + GOOD + "]}")
        return read(path)

    assert is_linear(read_broken, 200)
    profile = read_broken(1000)
    assert paths(profile, (0, 0, 0)) == {"f": (1, 2000, 2000)}
    assert "1000 events cannot be read (first traceEvents[0]" in notes(profile)


def test_bytes_that_are_no_utf8_are_replaced(tmp_path):
    path = tmp_path / "latin.json"
    path.write_bytes(b'\xef\xbb\xbf[{"ph":"X","name":"caf\xe9","pid":1,"tid":1,"ts":1,"dur":2}')
    profile = read(path)
    assert paths(profile, (0, 0, 0)) == {"caf\ufffd": (1, 2000, 2000)}
    assert "not UTF-8" in notes(profile)


NO_TRACES = [
    "", "{", "[", "{}", "[]", "nothing", '{"traceEvents": []}', '{"traceEvents": [{"ph":"X"}]}',
    "[" * 100_000, '{"traceEvents":[' + '{"args":' * 100_000, '{"a" 1}', "[1,2,3]",
    '{"traceEvents": 5}', '{"traceEvents":[{"ph":"X","ts":' + "9" * 5000 + ',"dur":1}]}',
]  # fmt: skip


@pytest.mark.parametrize("text", NO_TRACES, ids=range(len(NO_TRACES)))
def test_what_is_no_trace_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "no.json"
    path.write_text(text)
    with pytest.raises(FormatError) as refused:
        read(path)
    assert str(refused.value).startswith(str(path)) and "\n" not in str(refused.value)


def test_a_value_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "TRACE_VALUE", 4 << 20)
    path = tmp_path / "endless.json"
    with open(path, "w") as file:
        file.write('{"traceEvents": [{"ph": "X", "name": "')
        for _ in range(12):
            file.write("x" * (1 << 20))
    with pytest.raises(FormatError, match="a value of more than"):
        read(path)


def test_packed_traces_and_ranks(tmp_path):
    header = {**made.HEADER, "distributedInfo": {"rank": 3, "world_size": 8, "backend": "nccl"}}
    profile = read(made.written(tmp_path / "rank.json.gz", made.steps(3), header=header))
    assert {thread.thread.node for thread in profile.threads} == {3}
    assert profile.metadata["distributed world_size"] == "8"
    with gzip.open(tmp_path / "rank.json.gz") as file:
        assert chrome.recognises(Path("x"), file.read(65536))


def test_a_trial_with_activities_comes_back(tmp_path):
    profile = builders.gpu_profile()
    path = tmp_path / "out.trace.json"
    lost = exported(profile, chrome.FORMAT, path, SILENT)
    assert any("are sums without" in line for line in lost)
    back = read(path)
    stream = paths(back, (0, 1, 0))
    start = int(builders.STARTED_AT * 1e9)
    original = next(thread for thread in profile.threads if thread.thread.name == "stream 7")
    returned = next(thread for thread in back.threads if thread.thread.name == "stream 7")
    assert [activity[1:5] for activity in original.activities] == [
        activity[1:5] for activity in returned.activities
    ]
    assert min(activity.start_ns for activity in returned.activities) == start
    assert "<module> > step > cudaLaunchKernel > relu(float*)" in stream
    assert back.devices[0].name == "NVIDIA H200"


def test_calls_with_moments_lead_to_what_they_launched(tmp_path):
    profile = builders.gpu_profile()
    start = int(builders.STARTED_AT * 1e9)
    profile.threads[0].activities = [
        Activity(3, "api", start + n * 1000 - 90, start + n * 1000 - 10, n + 1) for n in range(20)
    ]
    path = tmp_path / "out.trace.json"
    chrome.write(profile, path, SILENT)
    events = json.loads(path.read_text())["traceEvents"]
    assert [sum(event["ph"] == kind for event in events) for kind in "sfX"] == [20, 20, 40]
    back = read(path)
    host = paths(back, (0, 0, 0))
    assert host["<module> > step > cudaLaunchKernel"] == (20, 1600, 1600)
    stream = paths(back, (0, 1, 0))
    assert stream["<module> > step > cudaLaunchKernel > relu(float*)"] == (10, 800, 800)


@settings(max_examples=30, deadline=None)
@given(st.randoms())
def test_a_trial_without_activities_is_laid_out_and_keeps_its_times(tmp_path_factory, random):
    profile = builders.random_profile(random)
    path = tmp_path_factory.mktemp("laid") / "out.trace.json"
    lost = exported(profile, chrome.FORMAT, path, SILENT)
    assert any("laid out" in line for line in lost)
    found = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "X":
            found[event["name"]] = found.get(event["name"], 0) + round(event["dur"] * 1000)
    expected = {}
    for thread in profile.threads:
        for row in range(len(thread.tree)):
            name = profile.timers[thread.tree.timer[row]].full_name
            expected[name] = expected.get(name, 0) + thread.tree.inclusive["time"][row]
    assert found == expected


def test_only_a_root_that_is_the_program_has_no_slice_and_that_is_reported(tmp_path):
    def written(root):
        profile = builders.profile_of(
            builders.host(builders.call(root, 1, 40, [builders.call("f", 2, 2)]))
        )
        path = tmp_path / f"{root[:4]}.json"
        lost = exported(profile, chrome.FORMAT, path, SILENT)
        back = read(path)
        (one,) = back.threads
        return lost, {
            back.timers[timer].full_name: one.tree.inclusive["time"][row]
            for row, timer in enumerate(one.tree.timer)
        }

    lost, _ = written(".taupy application")
    assert "not written: 40 ns of exclusive time of .taupy application" in lost
    lost, times = written("work")
    assert not any("of exclusive time" in line for line in lost)
    assert times["work"] == 42 and times["f"] == 2


TORCH = """
import json, sys
import torch
from torch.profiler import ProfilerActivity, profile, record_function
model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.Linear(8 * 26 * 26, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for _ in range(5):
        with record_function("train_step"):
            loss = model(torch.randn(4, 1, 28, 28)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
profiler.export_chrome_trace(sys.argv[1])
table = [[a.key, a.count, a.cpu_time_total, a.self_cpu_time_total] for a in profiler.key_averages()]
json.dump(table, open(sys.argv[2], "w"))
"""


@pytest.mark.slow
def test_totals_equal_those_of_torch(tmp_path):
    """torch leaves out an operator that only calls one of its own name; so does the sum here."""
    python = os.environ.get("TAUPY_TORCH_PYTHON", sys.executable)
    there = subprocess.run([python, "-c", "import torch"], capture_output=True)
    if there.returncode:
        pytest.skip("no torch here; TAUPY_TORCH_PYTHON names a Python that has it")
    out, table = tmp_path / "torch.json", tmp_path / "table.json"
    subprocess.run([python, "-c", TORCH, out, table], check=True, capture_output=True)
    profile = read(out)
    found = {}
    for measured in profile.threads:
        tree = measured.tree
        for row in range(1, len(tree)):
            name = profile.timers[tree.timer[row]].name
            calls, time, own = found.get(name, (0, 0, 0))
            if tree.timer[tree.parent[row]] == tree.timer[row]:
                found[name] = (calls, time, own + tree.exclusive["time"][row])
            else:
                found[name] = (
                    calls + tree.calls[row],
                    time + tree.inclusive["time"][row],
                    own + tree.exclusive["time"][row],
                )
    for name, calls, total_us, self_us in json.loads(table.read_text()):
        assert found[name][0] == calls, name
        assert found[name][1] == pytest.approx(total_us * 1000, abs=0.5), name
        assert found[name][2] == pytest.approx(self_us * 1000, abs=0.5), name
