"""Modules of torch.profiler are layers, and backward operators belong to those of their forward."""

from __future__ import annotations

import pytest

from taupy.network.layers import GROUP, layer_of, layer_type
from taupy.profiledb.writer import add_profile
from tests.unit.formats.chrome_files import PID, kernel, slice_
from tests.unit.formats.test_chrome import trace
from tests.unit.formats.test_nsys import paths
from tests.unit.profiledb.conftest import db  # noqa: F401 - a fixture
from tests.unit.profiledb.test_operators import on_gpu

ENGINE = "autograd::engine::evaluate_function: {}"


def op(name, start, end, number=None, *, backward=False, tid=PID):
    told = {} if number is None else {"Sequence number": number, "Fwd thread id": int(backward)}
    return slice_("cpu_op", name, start, end, tid, **told)


def launch(number, begin, tid=PID):
    return slice_("cuda_runtime", "cudaLaunchKernel", begin, begin + 2, tid, correlation=number)


def module(name, start, end, tid=PID):
    return slice_("python_function", f"nn.Module: {name}", start, end, tid)


EVENTS = [
    module("Net_0", 0, 100),
    module("Linear_0", 10, 50), op("aten::linear", 12, 40, 5), op("aten::addmm", 14, 38, 5),
    launch(1, 16), kernel("gemm", 1000, 1100, 1),
    module("ReLU_8", 60, 90), op("aten::relu", 62, 80, 6), launch(2, 64),
    kernel("relu", 1200, 1210, 2),
    op("aten::mse_loss", 110, 120, 7),
    *(event for number, name, begin, took in (
        (7, "MseLossBackward0", 200, 3), (6, "ReluBackward0", 300, 11),
        (5, "AddmmBackward0", 400, 70))
      for event in (
        op(ENGINE.format(name), begin, begin + 90, number, backward=True, tid=9),
        op(name, begin + 5, begin + 80, number, backward=True, tid=9),
        op("aten::mm", begin + 10, begin + 60, tid=9), launch(number, begin + 12, 9),
        kernel(name, 10 * begin, 10 * begin + took, number))),
    op(ENGINE.format("torch::autograd::AccumulateGrad"), 600, 650, tid=9), launch(9, 610, 9),
    kernel("add", 7000, 7002, 9),
]  # fmt: skip


def test_a_backward_operator_is_below_the_module_of_its_forward(tmp_path, db):  # noqa: F811
    profile = trace(tmp_path, *EVENTS)
    host = paths(profile, (0, 0, 1))
    above = "backward of nn.Module: Linear_0"
    node = f"{above} > {ENGINE.format('AddmmBackward0')}"
    assert host[above] == (0, 90, 0), "the time of what it stands above, and no calls"
    assert host[node][0] == 1
    assert host[f"{node} > AddmmBackward0 > aten::mm > cudaLaunchKernel"][0] == 1
    assert f"{node} > {above}" not in host
    assert host[ENGINE.format("MseLossBackward0")][0] == 1, "a node made outside of modules"
    add_profile(db, profile)
    assert on_gpu(db, "layer") == {"Linear_0": 100 + 70, "ReLU_8": 10 + 11, None: 3 + 2}
    assert on_gpu(db, "layer_type") == {"Linear": 170, "ReLU": 21, None: 5}


@pytest.mark.parametrize("category", ["", "user_annotation", "python_function", "slices"])
def test_a_module_is_a_layer_by_its_name_whatever_its_category(tmp_path, category):
    """Tools that convert, cut or merge traces keep names, and drop categories."""
    profile = trace(tmp_path, *(slice_(category, f"nn.Module: {name}", begin, end)
                                for name, begin, end in (("Net_0", 0, 90), ("Linear_3", 5, 70))),
                    slice_(category, "my nn.Module: x", 100, 110))  # fmt: skip
    layers = {timer.short: timer for timer in profile.timers if GROUP in timer.groups}
    assert list(layers) == ["Net_0", "Linear_3"]
    assert layer_type(layers["Linear_3"].name) == "Linear"


def test_numbers_of_several_forward_threads_tell_nothing(tmp_path):
    again = [module("Conv_0", 0, 50, 4), op("aten::conv2d", 5, 40, 6, tid=4)]
    profile = trace(tmp_path, *EVENTS, *again)
    names = {timer.name for timer in profile.timers}
    assert "backward of nn.Module: Conv_0" in names
    below = [path for thread in (1, 2) for path in paths(profile, (0, 0, thread))]
    assert not any(path.startswith("backward of nn.Module: ReLU_8") for path in below)
    assert any(path.startswith("backward of nn.Module: Linear_0") for path in below)


def test_without_a_backward_pass_there_are_no_timers_for_it(tmp_path):
    profile = trace(tmp_path, *EVENTS[:9])
    assert not any("backward" in timer.name for timer in profile.timers)


@pytest.mark.parametrize("timer, short, kind", [
    ("nn.Module: Qwen2RMSNorm_12", "Qwen2RMSNorm_12", "Qwen2RMSNorm"),
    ("backward of nn.Module: My_Net_0", "backward of My_Net_0", "My_Net"),
    ("nn.Module: Odd_name", "Odd_name", "Odd_name"),
    ("body.0 [Linear]", "body.0", "Linear"),
])  # fmt: skip
def test_the_class_of_a_module(timer, short, kind):
    assert layer_type(timer) == kind
    assert layer_of(short) == short.removeprefix("backward of ")
