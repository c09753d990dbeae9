"""Idle time of GPUs by cause: each rule by hand, sums without remainder, and public traces."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from time import process_time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taupy.analysis import gpu_idle
from taupy.analysis.gpu_conclusion import sentences
from taupy.formats import registry
from taupy.model.gpu import Activity, Launch
from taupy.model.gpu_path import Path as CriticalPath
from taupy.model.gpu_time import CAUSES, OUTSIDE, GpuTime, Idle, parsed, stored
from taupy.model.progress import SILENT
from tests.builders import gpu_profile
from tests.unit.formats import chrome_files as made
from tests.unit.formats import nsys_files

SHARED = Path(os.environ.get("TAUPY_SHARED_DATA") or "/nonexistent") / "traces"
US, MS = 1000, 1_000_000
END = 10 * MS


def gpu_times(path: Path) -> dict[tuple[int, int], GpuTime]:
    format = registry.recognised(path)
    (profile,) = format.read(path, SILENT)
    return stored(profile.node_metadata)


def times_of(tmp_path, *events) -> dict[tuple[int, int], GpuTime]:
    return gpu_times(made.written(tmp_path / "t.json", events))


def launch(start, number, name="cudaLaunchKernel", took=5 * US, tid=made.PID):
    return made.slice_("cuda_runtime", name, start, start + took, tid, correlation=number)


def python(name, start, end, tid=made.PID):
    return made.slice_("python_function", name, start, end, tid)


def operator(name, start, end, tid=made.PID):
    return made.slice_("cpu_op", name, start, end, tid)


FIRST = (launch(10 * US, 1), made.kernel("first", 20 * US, 100 * US, 1))
"""The gap begins at 100 us."""


def one_gap(tmp_path, *events) -> dict[str, tuple[int, str]]:
    """Cause -> its time in us and its place, of a trace with the first kernel and one more."""
    (time,) = times_of(tmp_path, python("train.py(1): main", 0, END), *FIRST, *events).values()
    return {part.cause: (part.ns // US, part.places[0][0]) for part in time.idle}


def second(start, number=2, **where):
    return made.kernel("second", start, start + 50 * US, number, **where)


MAIN = "main (train.py:1)"


@pytest.mark.parametrize(
    ("events", "causes"),
    [
        pytest.param(
            [launch(40 * US, 2), second(102 * US)],
            {"between kernels": (2, "cudaLaunchKernel")}, id="between kernels"),
        pytest.param(
            [second(130 * US, 1)],  # a graph's kernels have one correlation
            {"inside a graph": (30, "cudaLaunchKernel")}, id="inside a graph"),
        pytest.param(
            [second(130 * US, 99)], {"launch not seen": (30, "second")}, id="launch not seen"),
        pytest.param(  # 100 to 400 main, then aten::mm until the launch at 450, which takes 15
            [operator("aten::mm", 400 * US, 480 * US), launch(450 * US, 2), second(465 * US)],
            {"host": (350, MAIN), "launch latency": (15, "cudaLaunchKernel")}, id="host"),
        pytest.param(
            [operator("aten::mm", 90 * US, 480 * US), launch(450 * US, 2), second(465 * US)],
            {"host": (350, "aten::mm"), "launch latency": (15, "cudaLaunchKernel")},
            id="innermost operator"),
        pytest.param(
            [launch(50 * US, 0, "cudaStreamSynchronize", 60 * US), launch(450 * US, 2),
             second(465 * US)],
            {"synchronisation": (350, f"cudaStreamSynchronize in {MAIN}"),
             "launch latency": (15, "cudaLaunchKernel")}, id="synchronisation"),
        pytest.param(
            [launch(50 * US, 0, "hipMemcpyWithStream", 60 * US),
             launch(450 * US, 2, "hipLaunchKernel"), second(465 * US)],
            {"synchronisation": (350, f"hipMemcpyWithStream in {MAIN}"),
             "launch latency": (15, "hipLaunchKernel")}, id="blocking copy"),
        pytest.param(
            [launch(110 * US, 0, "cudaMalloc", 300 * US), launch(450 * US, 2), second(465 * US)],
            {"memory allocation": (300, "cudaMalloc"), "host": (50, MAIN),
             "launch latency": (15, "cudaLaunchKernel")}, id="allocation"),
        pytest.param(  # it frees when the kernel has ended: what follows is its consequence
            [launch(90 * US, 0, "hipFree", 300 * US), launch(450 * US, 2), second(465 * US)],
            {"memory allocation": (290, "hipFree"), "synchronisation": (60, f"hipFree in {MAIN}"),
             "launch latency": (15, "cudaLaunchKernel")}, id="free"),
        pytest.param(
            [launch(110 * US, 0, "hipModuleLoad", 300 * US), launch(450 * US, 2), second(465 * US)],
            {"loading code": (300, "hipModuleLoad"), "host": (50, MAIN),
             "launch latency": (15, "cudaLaunchKernel")}, id="loading code"),
        pytest.param(
            [python("torch/utils/data/dataloader.py(700): __next__", 110 * US, 410 * US),
             python("my.py(3): read", 120 * US, 400 * US), launch(450 * US, 2), second(465 * US)],
            {"data loading": (300, "__next__"), "host": (50, MAIN),
             "launch latency": (15, "cudaLaunchKernel")}, id="data loading"),
        pytest.param(
            [launch(100 * US, 2, took=2 * MS), second(2110 * US)],
            {"long launch call": (2010, "cudaLaunchKernel")}, id="long launch call"),
        pytest.param(  # launched at 95, returned at 100; 50 us later it is late
            [launch(95 * US, 2), second(400 * US)],
            {"launch latency": (50, "cudaLaunchKernel"),
             "queued, started late": (250, "cudaLaunchKernel")}, id="late"),
        pytest.param(
            [launch(60 * US, 0, "hipStreamWaitEvent"), launch(95 * US, 2), second(400 * US)],
            {"launch latency": (50, "cudaLaunchKernel"), "waits for an event": (250, OUTSIDE)},
            id="event of other work"),
        pytest.param(  # the wait was before a launch that has run since
            [launch(5 * US, 0, "hipStreamWaitEvent"), launch(95 * US, 2), second(400 * US)],
            {"launch latency": (50, "cudaLaunchKernel"),
             "queued, started late": (250, "cudaLaunchKernel")}, id="event of earlier work"),
        pytest.param(  # an asynchronous copy that merely ends before its call returns is no wait
            [launch(30 * US, 3, "cudaMemcpyAsync", 80 * US),
             made.slice_("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 90 * US, 100 * US, 7, 0,
                         device=0, stream=7, correlation=3),
             launch(450 * US, 2), second(465 * US)],
            {"host": (350, MAIN), "launch latency": (15, "cudaLaunchKernel")}, id="pinned"),
        pytest.param(
            [launch(30 * US, 3, "cudaMemcpyAsync", 80 * US),
             made.slice_("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 90 * US, 100 * US, 7, 0,
                         device=0, stream=7, correlation=3),
             launch(450 * US, 2), second(465 * US)],
            {"synchronisation": (350, f"cudaMemcpyAsync in {MAIN}"),
             "launch latency": (15, "cudaLaunchKernel")}, id="pageable"),
    ],
)  # fmt: skip
def test_each_part_of_a_gap_has_a_cause(tmp_path, events, causes):
    assert one_gap(tmp_path, *events) == causes


def test_what_the_host_does_is_unknown_without_slices(tmp_path):
    (time,) = times_of(tmp_path, *FIRST, launch(450 * US, 2), second(465 * US)).values()
    causes = {part.cause: part.ns // US for part in time.idle}
    assert causes == {"nothing recorded on the host": 350, "launch latency": 15}


def test_another_thread_that_launched_before_tells_what_was_done(tmp_path):
    """Autograd's thread begins with its first launch; the main thread led to it."""
    (time,) = times_of(
        tmp_path, python("train.py(1): main", 0, END), *FIRST, launch(450 * US, 2, tid=9),
        second(465 * US),
    ).values()  # fmt: skip
    assert {part.cause: part.places[0][0] for part in time.idle}["host"] == MAIN


def test_an_event_of_another_gpu_of_the_trace_is_seen(tmp_path):
    times = times_of(
        tmp_path, *FIRST, launch(60 * US, 0, "cudaStreamWaitEvent"), launch(95 * US, 2),
        second(400 * US), launch(20 * US, 3), second(345 * US, 3, device=1),
    )  # fmt: skip
    (waited,) = [part for part in times[0, 1].idle if part.cause == "waits for an event"]
    assert (waited.places, times[0, 1].unproven_ns) == ((("cudaLaunchKernel", 250 * US),), 0)


def test_kernels_that_communicate_and_copies_count_only_alone(tmp_path):
    copy = made.slice_("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 100, 9, 0, device=0,
                       stream=9, correlation=3)  # fmt: skip
    (time,) = times_of(
        tmp_path,
        launch(1, 1), launch(2, 2), launch(3, 3), copy | {"ts": 0.130, "dur": 0.04},
        made.kernel("gemm", 100, 120, 1),
        made.kernel("ncclDevKernel_AllReduce_Sum_f32", 110, 150, 2, stream=8),
    ).values()  # fmt: skip
    assert (time.compute_ns, time.communication_ns, time.copies_ns) == (20, 30, 20)
    assert (time.busy_ns, time.idle_ns, time.span_ns) == (70, 0, 70)


SPANS = st.tuples(st.integers(1, 300), st.integers(0, 40))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(SPANS, st.integers(0, 2), st.integers(0, 1), st.sampled_from("gncs"),
                  st.integers(-1, 30)),
        min_size=1, max_size=25,
    ),
    st.lists(st.tuples(SPANS, st.integers(1, 2), st.integers(0, 6), st.integers(0, 30)),
             max_size=25),
)  # fmt: skip
def test_no_moment_is_lost_and_none_counts_twice(tmp_path_factory, works, slices):
    """Against a count of single nanoseconds, on devices, streams and threads at random."""
    names = {"g": "gemm", "n": "ncclDevKernel_x"}
    kinds = {"c": ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)"), "s": ("gpu_memset", "Memset")}
    events = []
    for (start, took), stream, device, kind, number in works:
        end = start + took
        if kind in names:
            where = {"stream": stream, "device": device}
            events.append(made.kernel(names[kind], start, end, number, **where))
        else:
            events.append(made.slice_(*kinds[kind], start, end, stream, device, device=device,
                                      stream=stream, correlation=number))  # fmt: skip
    calls = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaFree", "cudaStreamWaitEvent",
             "cudaStreamSynchronize")  # fmt: skip
    for (start, took), thread, which, number in slices:
        if which < len(calls):
            events.append(launch(start, number, calls[which], took, tid=thread))
        else:
            events.append(operator("aten::mm", start, start + took, tid=thread))
    times = times_of(tmp_path_factory.mktemp("random"), *events)
    moments: dict[int, dict[str, set[int]]] = {}
    for (start, took), _, device, kind, _ in works:
        sets = moments.setdefault(device, {kind: set() for kind in "gncs"} | {"all": set()})
        sets[kind] |= {*range(start, start + took)}
        sets["all"] |= {start, start + took}
    assert {context - 1 for _, context in times} == {*moments}
    for (_, context), time in times.items():
        sets = moments[context - 1]
        assert time.compute_ns == len(sets["g"])
        assert time.communication_ns == len(sets["n"] - sets["g"])
        assert time.copies_ns == len((sets["c"] | sets["s"]) - sets["n"] - sets["g"])
        assert time.span_ns == max(sets["all"]) - min(sets["all"])
        assert all(part.ns >= part.longest_ns > 0 and part.gaps for part in time.idle)
        assert parsed(time.text()) == time


EXPECTED = {
    "qwen_h100": (49652832, 45647300, 214602, {
        "between kernels": 1777286, "host": 903435, "launch not seen": 727643,
        "synchronisation": 408595, "launch latency": 188573}),
    "qwen_mi300": (47085800, 43062802, 760, {
        "host": 2544635, "launch latency": 1407485, "queued, started late": 34373,
        "between kernels": 24938, "launch not seen": 11567}),
    "bert_h100": (3907825, 309437, 2240, {
        "host": 3035149, "launch latency": 418534, "synchronisation": 144705}),
    "bert_mi300": (3495976, 390748, 2404, {
        "host": 1844026, "launch latency": 1046104, "synchronisation": 188874,
        "between kernels": 26224}),
    "hta_alexnet": (12920244000, 66141000, 55511000, {
        "memory allocation": 8483959000, "long launch call": 3056330000, "host": 1309790000,
        "synchronisation": 2281000, "launch latency": 1649000, "between kernels": 94000}),
}  # fmt: skip
"""Span, busy, only copies, and idle time by cause [ns], by an independent program."""

CONCLUSIONS = {
    "qwen_h100": "little to gain here: without any gap it would take 8.5 % less",
    "qwen_mi300": "little to gain here: without any gap it would take 8.5 % less",
    "bert_h100": "at most 88.4 % to gain from the host",
    "bert_mi300": "at most 82.7 % to gain from the host",
    "hta_alexnet": "at most 65.7 % to gain from memory allocation",
}


@pytest.mark.skipif(not SHARED.is_dir(), reason="TAUPY_SHARED_DATA names no folder with traces")
@pytest.mark.parametrize("name", EXPECTED)
def test_public_traces_have_the_expected_nanoseconds(name):
    ((_, time),) = gpu_times(SHARED / f"{name}.json.gz").items()
    span, busy, copies, idle = EXPECTED[name]
    assert (time.span_ns, time.busy_ns, time.copies_ns) == (span, busy, copies)
    assert {part.cause: part.ns for part in time.idle} == idle
    assert sum(idle.values()) == span - busy
    assert sentences("GPU 0", time)[1].startswith(CONCLUSIONS[name])


def test_between_calls_the_host_is_in_the_routine_above_both():
    """Our own trace has calls with their call paths, but no times of routines."""
    profile = gpu_profile()
    main, stream, _ = profile.threads
    base = 1_700_000_000_000_000_000
    main.activities = [
        Activity(3, "api", base, base + 5 * US, 1),
        Activity(4, "api", base + 300 * US, base + 305 * US, 2),
    ]
    stream.launches = [Launch(count=2, time_ns=100 * US, row=4)]
    stream.activities = [
        Activity(4, "kernel", base + 10 * US, base + 60 * US, 1),
        Activity(4, "kernel", base + 320 * US, base + 370 * US, 2),
    ]
    profile.threads = [main, stream]
    gpu_idle.note(profile)
    (time,) = stored(profile.node_metadata).values()
    assert time.host == "calls"
    assert {part.cause: (part.ns, part.places) for part in time.idle} == {
        "host": (240 * US, (("step (train.py:5)", 240 * US),)),
        "launch latency": (20 * US, (("cudaMemcpyAsync", 20 * US),)),
    }


@pytest.mark.parametrize(
    "text", ["", "3", "[]", "{}", '{"idle": [["rain", 1, 1, 1, []]], "compute_ns": 1}',
             '{"idle": [], "compute_ns": -1, "communication_ns": 0, "copies_ns": 0}',
             '{"idle": [], "compute_ns": 1e9, "communication_ns": 0, "copies_ns": 0}'],
)  # fmt: skip
def test_a_text_that_is_no_time_is_ignored(text):
    assert parsed(text) is None


def gpu(compute=0, communication=0, copies=0, **idle) -> GpuTime:
    parts = (Idle(next(cause for cause in CAUSES if cause.split()[0] == name), ns * MS, 1, ns * MS,
                  ((OUTSIDE, ns * MS),) if name == "waits" else (("f", ns * MS),))
             for name, ns in idle.items())  # fmt: skip
    return GpuTime(compute * MS, communication * MS, copies * MS, tuple(parts), "slices")


@pytest.mark.parametrize(
    ("time", "why", "what"),
    [
        (gpu(31, 56), "56.0 ms (64.4 %) only communicating, and always had work",
         "at most 64.4 % to gain from communication: nothing computes meanwhile: overlap it"),
        (gpu(22, 0, 940, launch=2), "940 ms (97.5 %) only copying; it was idle for 2.00 ms",
         "at most 97.5 % to gain from copies: no kernel runs meanwhile: copy less"),
        (gpu(1, host=11), "idle for 11.0 ms (91.7 %): host 11.0 ms (most of it in f)",
         "at most 91.7 % to gain from the host: the host is too slow for the GPU"),
        (gpu(50, data=491), "idle for 491 ms (90.8 %): data loading 491 ms (most of it in f)",
         "at most 90.8 % to gain from data loading: the next batch was not ready"),
        (gpu(7, waits=493), "for 493 ms it waited for an event of work that the trace does not "
         "have: whether it was idle then is not proven",
         "the GPU may have worked for another process"),
        (gpu(95, between=5), "idle for 5.00 ms (5.0 %): between kernels 5.00 ms",
         "little to gain here: without any gap it would take 5.0 % less"),
    ],
)  # fmt: skip
def test_two_sentences_say_why_and_what_to_do(time, why, what):
    first, then = sentences("GPU 0", time)
    assert why in first and what in then


@pytest.mark.parametrize(
    ("work", "path", "named", "what"),
    [
        ({"compute": 98, "between": 2}, CriticalPath("step 7", 250 * MS, 250 * MS, ()), True,
         "at most 60.0 % of step 7 to gain from the host before the first work and after the last"),
        ({"compute": 98, "between": 2}, CriticalPath("step 7", 104 * MS, 104 * MS, ()), False,
         "little to gain here: without any gap it would take 2.0 % less"),
        ({"compute": 98, "between": 2}, CriticalPath("", 250 * MS, 250 * MS, ()), False,
         "little to gain here"),  # from the first launch to the last: no step says where it began
        ({"compute": 50, "data": 50}, CriticalPath("step 7", 150 * MS, 150 * MS, ()), True,
         "; 33.3 % of step 7 from the host before"),
        ({"compute": 20, "host": 80}, CriticalPath("step 7", 150 * MS, 150 * MS, ()), False,
         "at most 80.0 % to gain from the host: the host is too slow"),
    ],
)  # fmt: skip
def test_a_step_whose_gpu_has_nothing_to_do_for_long_is_not_judged_by_its_kernels(
    work, path, named, what
):
    """Preprocessing may take longer than a model whose GPU is busy from its first work on."""
    time = replace(gpu(**work), paths=(path,))
    first, then = sentences("GPU 0", time)
    assert what in then
    assert (
        f"; step 7 took {path.measured_ns // MS} ms, {path.measured_ns // MS - 100}" in first
    ) == named
    several = replace(time, paths=(path, path))
    assert "step 7" not in "".join(sentences("GPU 0", several)), "between steps it had work"


def test_a_gpu_whose_work_has_no_times_has_no_verdict():
    profile = gpu_profile()
    profile.threads[1].launches = [Launch(count=2, time_ns=50, untimed=1, row=4)]
    profile.threads[1].activities = [Activity(4, "kernel", 1000, 1050, 1)] * 2
    del profile.threads[2]
    gpu_idle.note(profile)
    assert stored(profile.node_metadata) == {}


@pytest.mark.parametrize(("kind", "cause"), [(0, "synchronisation"), (1, "host")])
def test_nsys_tells_the_kind_of_memory_apart(tmp_path, kind, cause):
    """A copy to pageable memory (0) makes the host wait, one to pinned memory (1) does not."""
    schema = nsys_files.SCHEMA.replace(
        "copyKind INTEGER", "srcKind INTEGER, dstKind INTEGER, copyKind INTEGER"
    )
    file = nsys_files.NsysFile(tmp_path / "a.sqlite", schema)
    file.range("train", 0, END)
    file.call("cudaMemcpyAsync_v3020", 10 * US, 110 * US, 1)
    file.db.execute(
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, 1, 7, 1, ?, 4096, 2, ?, 2)",
        (20 * US, 100 * US, nsys_files.pid(7), kind),
    )
    file.call("cudaLaunchKernel_v7000", 450 * US, 455 * US, 2)
    file.kernel("gemm", 465 * US, 500 * US, 2)
    file.db.commit()
    (time,) = gpu_times(tmp_path / "a.sqlite").values()
    assert {part.cause: part.ns // US for part in time.idle} == {cause: 350, "launch latency": 15}


@pytest.mark.slow
def test_the_causes_are_a_small_part_of_an_import(tmp_path, monkeypatch):
    """Of a trace in which nearly each work follows a gap: some 7 % of the CPU time."""
    path = made.written(tmp_path / "t.json", made.steps(1_000))
    spent = []
    note = gpu_idle.note

    def timed(*given, **more):
        begin = process_time()
        note(*given, **more)
        spent.append(process_time() - begin)

    monkeypatch.setattr(gpu_idle, "note", timed)
    whole = []
    for _ in range(3):
        begin = process_time()
        gpu_times(path)
        whole.append(process_time() - begin)
    assert min(spent) < 0.15 * min(whole)
