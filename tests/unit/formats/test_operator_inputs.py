"""Sizes and types of operators' inputs, as text and as sums."""

from __future__ import annotations

import pytest

from taupy.formats.operator_inputs import UNKNOWN, OperatorInputs, signature_of
from taupy.model.profile import OperatorInput


@pytest.mark.parametrize("sizes, types, text", [
    ([[16, 559], [559, 2], []], ["c10::BFloat16", "long int", "Scalar"],
     "bfloat16[16x559], int64[559x2]"),
    ([[], []], ["float", "ScalarList"], "float32[]"),
    ([[3], []], None, "[3]"),
    ([[[1, 2], [3]], []], ["TensorList", ""], "([1x2] [3])"),
    ([[[2, 3]] * 6], ["TensorList"], "([2x3] [2x3] [2x3] [2x3] ...: 6 tensors, 36 elements)"),
    ([[]], ["Scalar"], ""),
    ([["odd", None]], ["float", "too many"], "[oddxNone]"),
    ("many", ["float"], None), (None, None, None),
])  # fmt: skip
def test_a_signature_names_the_tensors(sizes, types, text):
    assert signature_of(sizes, types) == text


def test_long_signatures_are_cut():
    assert len(signature_of([[10**9] * 9] * 100)) == 1000


def test_work_belongs_to_the_innermost_operator_that_is_active():
    inputs = OperatorInputs()
    outer, inner = inputs.number("[1]"), inputs.number("[2]")
    inputs.begin_thread()
    inputs.operator(0, 100, 1, outer)
    inputs.operator(10, 20, 2, inner)
    inputs.call(12, 0, 1)
    inputs.call(20, 0, 2)  # the inner one has ended
    inputs.operator(30, 40, 3, UNKNOWN)
    inputs.call(31, 0, 3)
    inputs.operator(50, 60, 2, inner)
    inputs.call(200, 0, 4)
    inputs.begin_thread()
    inputs.call(55, 0, 5)
    for number in range(1, 7):
        inputs.ran(0, number, 10**number)
    inputs.ran(0, 1, 7)
    inputs.ran(1, 1, 5)
    assert list(inputs.rows(40)) == [
        (0, OperatorInput(1, "[1]", 1, 100, 1, 100)),
        (0, OperatorInput(2, "[2]", 2, 20, 2, 17)),
    ]


def test_without_gpu_work_all_operators_have_rows():
    inputs = OperatorInputs()
    inputs.begin_thread()
    inputs.operator(0, 5, 1 << 40 | 7, inputs.number("[1]"))
    assert list(inputs.rows(40)) == [(1, OperatorInput(7, "[1]", 1, 5, 0, 0))]
