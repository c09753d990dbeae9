"""Chrome traces: what CUPTI counted of kernels, and accelerators that are no GPUs."""

from __future__ import annotations

import pytest

from taupy.commands import main
from taupy.model.profile import ABSENT
from tests.unit.formats import chrome_files as made
from tests.unit.formats.test_chrome import notes, trace
from tests.unit.formats.test_nsys import paths

FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
FADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
FMUL = "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum"


def launch(operator: str, at: int, correlation: int):
    yield made.slice_("cpu_op", operator, at, at + 500, **{"External id": correlation})
    yield made.slice_(
        "cuda_runtime", "cudaLaunchKernel", at + 100, at + 300, correlation=correlation
    )


def counted(kernel: str, at: int, ffma: float, device: int = 0, **more) -> dict:
    counters = {FFMA: ffma, FADD: 10, FMUL: 1, **more}
    return made.slice_("cuda_profiler_range", kernel, at, at + 1000, 0, device, **counters)


def values(profile, metric):
    """Path -> exclusive value of a metric on streams, where it was counted."""
    found = {}
    for measured in profile.threads:
        tree = measured.tree
        names = [profile.timers[timer].name for timer in tree.timer]
        for row, value in enumerate(tree.exclusive.get(metric, ())):
            if value == value and value is not ABSENT and tree.calls[row]:
                above = names[tree.parent[row]]
                found[f"{above} > {names[row]}"] = value
    return found


def test_what_was_counted_of_kernels_stands_under_the_calls_that_launched_them(tmp_path):
    pct = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    profile = trace(
        tmp_path,
        # The file's order is not that of time; ranges come in the order of the launches.
        counted("gemm(float*)", 9000, 100, **{pct: 40.5}),
        *launch("aten::mm", 1000, 1),
        *launch("aten::relu", 2000, 2),
        *launch("aten::mm", 3000, 3),
        counted("relu(float*)", 10_000, 0, **{pct: 5.0}),
        counted("gemm(float*)", 11_000, 200, **{pct: 59.5}),
    )
    # An FFMA is two operations; FADD and FMUL are 10 and 1 in each launch.
    assert values(profile, "flop_fp32") == {
        "cudaLaunchKernel > gemm(float*)": 2 * 300 + 2 * 11,
        "cudaLaunchKernel > relu(float*)": 11,
    }
    stream = paths(profile, (0, 1, 0))
    assert stream["aten::mm > cudaLaunchKernel > gemm(float*)"] == (2, 0, 0)
    (measured,) = [thread for thread in profile.threads if thread.thread.kind == "stream"]
    assert {one.untimed for one in measured.launches} == {1, 2}  # the file's times are made up
    assert "without times" in notes(profile)
    assert {metric.name: metric.unit for metric in profile.metrics}["flop_fp32"] == "flop"
    (gemm, relu) = sorted(measured.user_events, key=lambda event: -event.mean)
    assert (gemm.name, gemm.count, gemm.mean, gemm.minimum) == (pct, 2, 50.0, 40.5)
    assert (relu.count, relu.mean) == (1, 5.0)
    assert profile.devices[0].name == "NVIDIA H200"


def test_counted_kernels_without_as_many_launches_have_an_unknown_place(tmp_path):
    profile = trace(
        tmp_path, *launch("aten::mm", 0, 1), counted("a", 5000, 1), counted("b", 6000, 2)
    )
    stream = paths(profile, (0, 1, 0))
    assert stream["(launched from an unknown place) > a"] == (1, 0, 0)
    assert "2 counted kernels and 1 launches" in notes(profile)


def test_a_trace_of_counters_alone_is_one(tmp_path):
    profile = trace(tmp_path, counted("a", 0, 5, device=3))
    assert values(profile, "flop_fp32") == {"(launched from an unknown place) > a": 21}
    assert [
        thread.thread.context for thread in profile.threads if thread.thread.kind == "stream"
    ] == [4]


def named(pid: int, label: str) -> dict:
    return {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}}


def test_an_mtia_is_a_device_and_its_runtime_is_the_host(tmp_path):
    def on_device(name, start, end, correlation=None, **args):
        if correlation is not None:
            args["correlation"] = correlation
        return made.slice_("mtia_ccp_events", name, start, end, 3536, 17, stream=101, **args)

    ways = {"direction": "HOST_TO_DEVICE", "size": 4096}
    profile = trace(
        tmp_path,
        made.slice_("cpu_op", "aten::mm", 0, 1000),
        made.slice_("mtia_runtime", "runFunction", 100, 300, correlation=5),
        made.slice_("mtia_runtime", "synchronizeStream", 1000, 3000, correlation=6),
        on_device("fc-dtype_Float", 400, 900, 5, column="0", row="0"),
        on_device("dma_request", 1000, 1200, **ways),
        on_device("event_wait", 1200, 2900, 6),
        made.slice_("mtia_runtime", "synchronize", 1300, 1400, 3568, 17, correlation=6, device=17),
        named(17, "MTIA 17"),  # names may come after what they name
    )
    assert {(thread.thread.node, thread.thread.context) for thread in profile.threads} == {
        (0, 0),
        (0, 18),
    }
    stream = paths(profile, (0, 18, 0))
    assert stream["aten::mm > runFunction > fc-dtype_Float"] == (1, 500, 500)
    assert stream["(launched from an unknown place) > Memcpy HtoD"] == (1, 200, 200)
    assert not [path for path in stream if "wait" in path]
    (host,) = [thread for thread in profile.threads if thread.thread.kind == "host"]
    assert paths(profile, (0, 0, 0))["aten::mm > runFunction"] == (1, 200, 200)
    waits = {event.name: event.mean for event in host.user_events}
    assert waits == {"Wait: event_wait": 1700, "Wait: synchronize": 100}
    (measured,) = [thread for thread in profile.threads if thread.thread.kind == "stream"]
    (moved,) = measured.user_events
    assert (moved.name, moved.mean) == ("Bytes copied from Host to Device", 4096)
    assert [(device.ordinal, device.name) for device in profile.devices] == [(17, "MTIA 17")]


def two_processes(*calls):
    """Launches with the same ids, and a kernel of each: process, device, and both beginnings."""
    for number, (pid, device, launched, began) in enumerate(calls):
        yield made.slice_("cuda_runtime", "cudaLaunchKernel", launched, launched + 5, pid, pid,
                     correlation=1 + number // 2)  # fmt: skip
        yield made.kernel(f"k{number}", began, began + 10, 1 + number // 2, device=device)


def launchers_of(profile):
    """The process that launched each kernel; None if that is not known."""
    found = {}
    for measured in profile.threads:
        names = [profile.timers[timer].name for timer in measured.tree.timer]
        for launch in measured.launches:
            above = names[measured.tree.parent[launch.row]]
            pid = profile.node_metadata[measured.thread.node]["PID"]
            found[names[launch.row]] = pid if above == "cudaLaunchKernel" else None
    return found


def test_a_kernel_belongs_to_the_process_whose_call_it_can_be(tmp_path):
    in_turn = [(100, 0, 10, 20), (200, 1, 30, 40), (100, 0, 50, 90), (200, 1, 60, 95)]
    profile = trace(tmp_path, *two_processes(*in_turn))
    assert launchers_of(profile) == {"k0": "100", "k1": "200", "k2": "100", "k3": "200"}


@pytest.mark.parametrize("devices", [(0, 1), (0, 0)])
def test_where_calls_of_two_processes_may_be_meant_the_launch_is_unknown(tmp_path, devices):
    at_once = [(100, devices[0], 10, 20), (200, devices[1], 11, 21)]
    profile = trace(tmp_path, *two_processes(*at_once))
    assert launchers_of(profile) == {"k0": None, "k1": None}
    assert "GPU activities with a correlation id that calls of several" in str(profile.metadata)


@pytest.mark.parametrize("label", ["XPU 1", "HPU 1", "NPU 1", "PrivateUseOne 1"])
def test_what_a_process_called_a_device_did_is_its_work(tmp_path, label):
    profile = trace(
        tmp_path,
        made.slice_("cpu_op", "aten::mm", 0, 1000, **{"External id": 5}),
        made.slice_("vendor_task", "MatMul", 200, 500, 2, 900, **{"External id": 5}),
        named(900, label),
    )
    assert paths(profile, (0, 2, 0))["aten::mm > MatMul"] == (1, 300, 300)
    assert [device.name for device in profile.devices] == [label]


def test_a_kernel_is_named_with_its_launch_where_no_routine_is_known(tmp_path, capsys):
    """A thread that only calls the runtime launched one kernel; nobody saw the other's launch."""
    file = made.written(
        tmp_path / "x.json",
        [
            made.slice_("cuda_runtime", "cudaLaunchKernel", 0, 100, correlation=1),
            made.kernel("seen", 200, 500, 1),
            made.kernel("lost", 600, 700),
        ],
    )
    database = str(tmp_path / "t.db")
    assert main(["import", str(file), "--db", database, "--no-trace"]) == 0
    capsys.readouterr()
    assert main(["pprof", "--kernels", "--db", database]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if " seen " in line).endswith(" cudaLaunchKernel")
    lost = next(line for line in lines if " lost " in line)
    assert lost.endswith("(launched from an unknown place)")
    assert "note: 25.0 % of the GPU's time has no known launching routine" in lines
    (advice,) = [line for line in lines if "gaps and overlap" in line]
    assert advice.endswith(f"`taupy import {file}`")
