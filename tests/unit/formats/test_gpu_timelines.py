"""Timelines of GPUs from torch.profiler: whose work it is, and how long the GPU worked."""

from __future__ import annotations

import pytest

from tests.in_process import taupy
from tests.unit.formats import chrome_files as made


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Imports events, and gives the report on them as text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))

    def of(*events, **header):
        path = made.written(tmp_path / "t.json", events, header={**made.HEADER, **header})
        done = taupy("import", "--db", "t.db", path)
        assert done.returncode == 0, done.stderr
        return taupy("report", "--db", "t.db", "-v").stdout

    return of


MS = 1_000_000


@pytest.mark.parametrize("named", [("--app", "train"), ()])
def test_two_captures_of_a_program_are_comparable(tmp_path, monkeypatch, named):
    """Their identities differ, and the names of their files, after which the trials are named."""
    monkeypatch.chdir(tmp_path)
    for number in range(10):
        side = ("before", "after")[number % 2]
        header = {**made.HEADER, "trace_id": f"D7{number}", "traceName": f"/tmp/{number}.json"}
        path = made.written(tmp_path / f"{number}.json", made.steps(8), header=header)
        done = taupy("import", "--db", "t.db", *named, "--experiment", side, path)
        assert done.returncode == 0, done.stderr
    sides = ("experiment=before", "experiment=after")
    done = taupy("compare", "--db", "t.db", *sides, "--fail-on", "time > +5%")
    assert done.returncode == 0, done.stdout


def main(end, *name):
    return made.slice_("python_function", *(name or ("train.py(1): main",)), 0, end)


def launch(start, number, name="cudaLaunchKernel", took=10_000):
    return made.slice_("cuda_runtime", name, start, start + took, correlation=number)


def helper(end):
    """A thread whose number torch.profiler does not know."""
    return made.slice_("python_function", "threading.py(359): wait", 0, end, tid=0, pid=0)


def test_work_without_a_launch_belongs_to_the_process_that_launches_on_its_gpu(report):
    text = report(
        helper(100 * MS),
        main(99 * MS),
        launch(100_000, 7),
        made.kernel("gemm", 1 * MS, 17 * MS, 1),  # launched before the capture
        made.kernel("relu", 17 * MS, 97 * MS, 7),
    )
    assert "NVIDIA H200 · trial 1" in text and "processes" not in text
    assert "wait (threading.py" not in text
    assert text.splitlines()[0].count("NVIDIA H200") == 1
    assert "idle" not in text


def test_two_processes_that_launch_stay_two(report):
    other = made.slice_("cuda_runtime", "cudaLaunchKernel", 0, 10_000, tid=9, pid=9, correlation=8)
    text = report(
        helper(10 * MS), main(9 * MS), launch(100_000, 7), other,
        made.kernel("k", 1 * MS, 2 * MS, 7), made.kernel("k", 1 * MS, 2 * MS, 8, device=1),
    )  # fmt: skip
    assert "2 processes" in text


def test_slices_of_unknown_threads_are_left_out_and_counted(report):
    text = report(helper(MS), main(MS))
    assert "note: import: omitted: 1 Python routine of threads that torch.profiler" in text


@pytest.mark.parametrize(
    "others",
    [
        [],  # a trace whose only process has the number 0
        [made.slice_("cpu_op", "aten::mm", 0, 1000, tid=0, pid=0), main(MS)],
        [{**launch(0, 7), "pid": 0, "tid": 0}, main(MS)],
    ],
)
def test_slices_at_process_0_that_are_more_than_helpers_stay(report, others):
    assert "omitted" not in report(helper(MS), *others)


def concurrent(count, host_ns=1 * MS):
    """Two kernels at once, half of the time, on two streams."""
    yield main(count * 2 * host_ns)
    for n in range(count):
        at = n * 2 * host_ns
        yield launch(at + 5_000, 2 * n + 1)
        yield launch(at + 20_000, 2 * n + 2)
        yield made.kernel("k7", at + 500_000, at + 1_500_000, 2 * n + 1)
        yield made.kernel("k20", at + 500_000, at + 1_500_000, 2 * n + 2, stream=20)


def test_a_gpu_is_busy_while_any_of_its_streams_works(report):
    text = " ".join(report(*concurrent(50)).split())
    assert "the GPU is idle for 50.0 ms, 50.0 % of the loop in main" in text


@pytest.mark.parametrize("header", [{"deviceProperties": []}, {"deviceProperties": None}, {}])
def test_a_trial_with_gpu_work_is_never_without_gpu(report, header):
    text = report(*concurrent(5), **header)
    assert "not measured" not in text


@pytest.mark.parametrize(
    "filler",
    [
        launch(10_000, 901, "cudaMalloc", 60 * MS),
        launch(10_000, 902, "cudaHostAlloc", 60 * MS),
        launch(10_000, 903, "cuModuleLoadData", 60 * MS),
        launch(10_000, 904, "hipModuleLoad", 60 * MS),
        launch(10_000, 905, "cudaDeviceSynchronize", 60 * MS),
        launch(10_000, 906, "cudaLaunchKernel", 60 * MS),
        made.slice_("python_function", "threading.py(359): wait", 10_000, 10_000 + 60 * MS),
        made.slice_("python_function", "<built-in method sleep>", 10_000, 10_000 + 60 * MS),
        made.slice_("python_function", "<built-in function time.sleep>", 10_000, 10_000 + 60 * MS),
        made.slice_("python_function", "torch/utils/data/dataloader.py(700): __next__", 10_000,
                    10_000 + 60 * MS),
        made.slice_("user_annotation",
                    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 10_000,
                    10_000 + 60 * MS),
    ],
    ids=lambda event: event["name"],
)  # fmt: skip
def test_what_fills_the_gap_is_not_called_python_nor_tiny_kernels(report, filler):
    events = [main(64 * MS), filler]
    for n in range(40):
        at = 61 * MS + n * 50_000
        events += [launch(at, n), made.kernel("k", at + 11_000, at + 13_000, n)]
    text = report(*events)
    assert "host slower than GPU" not in text and "tiny kernels" not in text


LOADERS = (
    ("python_function", "torch/utils/data/dataloader.py(700): __next__"),
    ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
)


@pytest.mark.parametrize("loader", LOADERS)
def test_waiting_for_data_is_found(report, loader):
    events = [main(40 * MS)]
    for n in range(40):
        at = n * MS
        events += [made.slice_(*loader, at, at + 900_000), launch(at + 920_000, n),
                   made.kernel("k", at + 940_000, at + 960_000, n)]  # fmt: skip
    assert "data wait, up to 36.0 ms, 90 %" in report(*events)


def test_notes_of_the_import_are_one_line(report):
    omitted = made.slice_("Trace", "PyTorch Profiler", 0, MS)
    instant = {"ph": "i", "name": "Record Window End", "pid": 42, "tid": 42, "ts": 1}
    text = report(main(MS), omitted, instant)
    assert "note: import: omitted: 1 instant; omitted: 1 slice of the category Trace\n" in text


def test_python_between_launches_is_still_found(report):
    text = report(*[main(64 * MS), *(
        event for n in range(40)
        for event in (launch(n * 1_500_000, n),
                      made.kernel("k", n * 1_500_000 + 20_000, n * 1_500_000 + 30_000, n))
    )])  # fmt: skip
    assert "host slower than GPU" in text and "main (train.py:1)" in " ".join(text.split())


@pytest.mark.parametrize("wait", ["cudaStreamSynchronize", "hipMemcpyWithStream", "cudaMemcpy"])
def test_a_blocking_copy_waits_as_a_synchronisation_does(report, wait):
    events = [main(80 * MS)]
    for n in range(40):
        at = n * 2 * MS
        events += [launch(at, 2 * n), made.kernel("k", at + 20_000, at + MS, 2 * n),
                   launch(at + 30_000, 2 * n + 1, wait, 990_000)]  # fmt: skip
    text = " ".join(report(*events).split())
    assert "synchronisation, up to 39.6 ms, 50 %" in text
    assert "the host waits for the GPU 40 times for 39.6 ms" in text


def collective(start, end, number):
    return made.kernel("ncclDevKernel_AllReduce_Sum_f32(x)", start, end, number, stream=20)


def work(how):
    """A kernel of 1 ms, and after it 9 ms of something else, 40 times; one call each."""
    yield main(400 * MS)
    for n in range(40):
        at = n * 10 * MS + 20_000
        yield launch(at - 15_000, 2 * n)
        yield launch(at - 4_000, 2 * n + 1, took=1_000)
        yield made.kernel("gemm", at, at + MS, 2 * n)
        yield how(at + MS, at + 9_900_000, 2 * n + 1)


def copied(start, end, number):
    place = {"device": 0, "context": 1, "stream": 9}
    return made.slice_("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", start, end, 9, 0,
                       correlation=number, **place)  # fmt: skip


@pytest.mark.parametrize(
    ("how", "said"),
    [(collective, "GPU 0 (NVIDIA H200) only communicates for 356 ms"),
     (copied, "GPU 0 (NVIDIA H200) only copies for 356 ms")],
)  # fmt: skip
def test_a_gpu_that_only_communicates_or_copies_is_found(report, how, said):
    """Seen in public traces: 55.6 of 86.6 ms on eight MI300, 940.5 of 969.4 on two H100."""
    text = " ".join(report(*work(how)).split())
    assert f"idle GPU, up to 356 ms, 89 % {said}" in text
    assert "no findings" not in text


def test_a_trace_of_one_step_of_a_few_milliseconds_is_judged(report):
    """Nothing is repeated, and all of it takes less than the start of an interpreter."""
    events = [main(4 * MS)]
    for n in range(30):
        at = n * 100_000 + 10_000
        name = f"aten::op{n}"
        events += [made.slice_("cpu_op", name, at, at + 90_000), launch(at + 60_000, n),
                   made.kernel(f"k{n}", at + 72_000, at + 80_000, n)]  # fmt: skip
    text = " ".join(report(*events).split())
    assert "it was idle for 2.67 ms (91.7 %): host" in text
    assert "idle GPU, up to 2.67 ms" in text or "host slower than GPU" in text


def test_a_step_that_prepares_for_longer_than_its_gpu_works_is_found(report):
    """Seen in traces of a video model: its GPU is busy, in 160 of the 383 ms of the step."""
    step = made.slice_("user_annotation", "ProfilerStep#7", 0, 100 * MS)
    text = report(
        step, main(100 * MS), launch(60 * MS, 1),
        made.kernel("gemm", 60 * MS + 20_000, 99 * MS, 1),
    )  # fmt: skip
    text = " ".join(text.split())
    assert "and always had work; step 8 took 100 ms, 61.0 ms of it before its first work" in text
    assert "so: at most 61.0 % of step 8 to gain from the host before the first work" in text
    assert "up to 61.0 ms, 61 %" in text


def test_a_wait_for_work_outside_the_trace_is_no_verdict(report):
    """Seen in a trace of sglang: 493 ms behind hipStreamWaitEvent, most of the trace."""
    text = report(
        main(500 * MS), launch(10_000, 1), made.kernel("first", 20_000, 100_000, 1),
        launch(110_000, 0, "hipStreamWaitEvent"), launch(120_000, 2, "hipLaunchKernel"),
        made.kernel("second", 493 * MS, 499 * MS, 2),
    )  # fmt: skip
    text = " ".join(text.split())
    assert "whether it was idle then is not proven" in text
    assert "Findings" not in text and "no verdict on idle GPU" in text
    _, lacking = taupy("report", "--db", "t.db").stdout.split("no verdict on idle GPU: ")
    assert "of work that the trace does not have" in " ".join(lacking.split())  # without -v, too


@pytest.mark.parametrize("call", ["cudaFree", "hipMalloc", "cuModuleLoadData"])
def test_allocation_and_loading_of_code_are_found(report, call):
    """Seen in a trace of AlexNet: cudaFree and cudaMalloc took 8.5 of 12.9 s, loading code 3.1."""
    events = [main(100 * MS), launch(10_000, 1), made.kernel("first", 20_000, 100_000, 1),
              launch(200_000, 0, call, 80 * MS), launch(81 * MS, 2),
              made.kernel("second", 81 * MS + 20_000, 99 * MS, 2)]  # fmt: skip
    text = " ".join(report(*events).split())
    assert "idle GPU, up to 80.0 ms, 80 % GPU 0 (NVIDIA H200) is idle while" in text
    assert f"most of it in {call}" in text


def overlapping(stream=3):
    """Kernels of 100 ms that are all recorded as complete at 400 ms."""
    return [
        event
        for n in range(3)
        for event in (
            made.slice_("cuda_runtime", "hipLaunchKernel", n * 100 * MS, n * 100 * MS + 5,
                        correlation=n),
            made.kernel("k", n * 100 * MS + 10, 400 * MS + 10, n, stream=stream),
        )
    ]  # fmt: skip


def test_work_that_overlaps_on_a_stream_is_said_and_counts_once_as_busy(report):
    text = report(*overlapping())
    assert "GPU  busy for 400 ms, 100 % of the run, with 900 ms of kernels and copies" in text
    assert "stream 3 of GPU 0: its work overlaps by 500 ms" in text
    assert "kept it busy for 400 ms of 900 ms" in " ".join(text.split())


def test_streams_that_work_at_the_same_time_do_not_overlap_themselves(report):
    text = report(
        *(event for n in range(2) for event in (
            made.slice_("cuda_runtime", "hipLaunchKernel", n, n + 1, correlation=n),
            made.kernel("k", 10, 300 * MS + 10, n, stream=n),
            made.kernel("k", 300 * MS + 9, 400 * MS + 10, n, stream=n),
        ))
    )  # fmt: skip
    assert "GPU  busy for 400 ms, 100 % of the run, with 800 ms of kernels and copies" in text
    assert "overlaps" not in text
