"""Kernels with other names on each GPU, matched by the order of their launches."""

from __future__ import annotations

import random

from taupy.analysis.kernel_order import kind_of_work, matched_by_order
from taupy.analysis.match import matched
from taupy.model.rows import TimerRow


def kernel(name, groups="GPU_KERNEL"):
    return TimerRow(name, name, None, None, groups)


BOTH = {name: kernel(name) for name in ("relu_kernel", "add_kernel")}
FIRST = {
    name: kernel(name) for name in ("sm90_xmma_gemm_a", "sm90_xmma_gemm_b", "flash_fwd_kernel")
}
SECOND = {name: kernel(name) for name in ("Cijk_Ailk_1", "Cijk_Ailk_2", "attn_fwd", "SubTensorOp")}


def layer(gemm, other_gemm, attention):
    return [gemm, BOTH["add_kernel"], attention, BOTH["relu_kernel"], other_gemm, gemm]


def names(first, second):
    keys = matched([{timer: timer for timer in side} for side in (first, second)])
    joined = matched_by_order([[first], [second]], keys)
    return {key.timer for key in joined.values()}, {key.rule for key in joined.values()}


def test_kernels_are_matched_by_what_runs_around_them():
    first = 9 * layer(*FIRST.values())
    second = 9 * layer(*list(SECOND.values())[:3])
    draw = random.Random(2)
    some = [timer for timer in second if draw.random() > 0.1]
    expected = {
        "sm90_xmma_gemm_a = Cijk_Ailk_1", "sm90_xmma_gemm_b = Cijk_Ailk_2",
        "flash_fwd_kernel = attn_fwd",
    }  # fmt: skip
    for other in (second, [*second, SECOND["SubTensorOp"]], some):
        assert names(first, other) == (expected, {"order"})


def test_copies_and_other_kinds_of_work_are_not_matched():
    host = kernel("Memcpy DtoH", "GPU_COPY")
    device = kernel("Memcpy DtoD", "GPU_COPY")
    first = [FIRST["flash_fwd_kernel"], host, BOTH["relu_kernel"], kernel("odd")]
    second = [SECOND["Cijk_Ailk_1"], device, BOTH["relu_kernel"], kernel("strange")]
    assert names(first, second) == (set(), set())


def test_the_kind_of_work_is_in_the_name():
    kinds = {
        "sm90_xmma_gemm_bf16": "product", "Cijk_Ailk": "product", "attn_fwd": "attention",
        "sm80_xmma_fprop_implicit_gemm": "convolution", "ncclDevKernel_AllReduce": "communication",
        "CatArrayBatchedCopy": "move", "mystery": None,
    }  # fmt: skip
    assert {name: kind_of_work(name) for name in kinds} == kinds
