"""Loops over elements that one vector call would do, and those that look like them."""

from __future__ import annotations

import ast

import pytest

from taupy.analysis.findings.loops import element_loop, is_of_numbers
from taupy.analysis.findings.tensor_cores import type_without


def function(body: str) -> ast.FunctionDef:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    (made,) = ast.parse(f"def f(a, b, out, n):\n{lines}\n").body
    assert isinstance(made, ast.FunctionDef)
    return made


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(n):\n    out[i] = a[i] * b[i]",
        "total = 0.0\nfor x in a:\n    total += x * x\nreturn total",
        "for i in range(len(a)):\n    if a[i] > 0:\n        out[i] = a[i] + 1\n    else:\n        out[i] = -a[i] * 2",  # noqa: E501
        "for i in range(n):\n    for j in range(n):\n        out[i, j] = a[i] - b[j]",
        "for x in a:\n    out[int((x - 1) / 2)] += 1",
        "for i in range(n):\n    t = a[i] - b[i]\n    out[i] = t * t",
        "for i, x in enumerate(a):\n    out[i] = sqrt(x) / 2",
    ],
)
def test_arithmetic_on_elements_is_a_loop_that_a_vector_call_does(body):
    assert element_loop(function(body)) is not None


@pytest.mark.parametrize(
    "body",
    [
        # needs the element before
        "mean = a[0]\nfor i in range(n):\n    mean += b * (a[i] - mean)\n    out[i] = mean",
        "for i in range(n):\n    out[i] = out[i - 1] + a[i]",
        "x = 1\nfor i in range(n):\n    x = x * 3 + a[i]",
        "last = 0\nfor i in range(n):\n    out[i] = a[i] - last\n    last = a[i]",
        # does something else
        "for x in a:\n    b.append(x * 2)",
        "for i in range(n):\n    while a[i] > 1:\n        a[i] = a[i] / 2",
        "for name in a:\n    out[name] = b[name] + '!'",
        "for i in range(n):\n    with b:\n        out[i] = a[i] * 2",
        "for i in range(n):\n    pass",
        # the time may be elsewhere
        "c = solve(a, b)\nfor i in range(n):\n    out[i] = c[i] * 2",
        "return a + b",
    ],
)
def test_other_loops_are_none(body):
    assert element_loop(function(body)) is None


def test_a_function_that_is_called_for_each_element_is_named():
    loop = element_loop(function("for i in range(n):\n    out[i] = g(a[i])"))
    assert loop is not None
    assert loop.calls == {"g"}
    assert loop.line == 2


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = a * b\nif x > 1:\n    return 1\nreturn x", True),
        ("return max(a * b, sqrt(n))", True),
        ("return a", False),
        ("out.append(a * b)\nreturn a", False),
        ("for i in a:\n    n = n + i\nreturn n", False),
    ],
)
def test_a_function_of_numbers_computes_and_calls_nothing_else(body, expected):
    assert is_of_numbers(function(body)) is expected


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("ampere_sgemm_128x64_tn", "single"),
        ("volta_sgemm_64x64_nn", "single"),
        ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(T1::Params)", "single"),
        ("ampere_fp16_sgemm_fp16_64x64_tn", "half"),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn", None),
        ("volta_fp16_s884gemm_fp16_64x64_ldg8_f2f_nn", None),
        ("ampere_sgemm_tf32_128x64_tn", None),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", None),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4", None),
        ("turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_nt", None),
        ("vectorized_elementwise_kernel<4, add>", None),
    ],
)
def test_products_without_tensor_cores_are_recognised_by_their_names(kernel, kind):
    assert type_without(kernel) == kind
