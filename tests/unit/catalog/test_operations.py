"""Analytic counts, worked out by hand."""

from __future__ import annotations

import pytest

from taupy.catalog import operations


def test_matrix_products():
    assert operations.matmul(64, 2304, 768).flop == 226_492_416  # gpt2's QKV
    assert operations.matmul(64, 768, 768).flop == 75_497_472
    assert operations.matmul(2, 3, 4, itemsize=8).bytes == 8 * (8 + 12 + 6)
    assert operations.dot(10) == (20, 84)


@pytest.mark.parametrize(
    ("left", "right", "sizes"),
    [
        ((2, 3), (3, 4), (2, 4, 3, 1)),
        ((5, 2, 3), (5, 3, 4), (2, 4, 3, 5)),
        ((5, 2, 3), (3, 4), (2, 4, 3, 5)),
        ((3,), (3, 4), (1, 4, 3, 1)),
        ((2, 3), (3,), (2, 1, 3, 1)),
        ((3,), (3,), (1, 1, 3, 1)),
    ],
)
def test_shapes_of_products(left, right, sizes):
    assert operations.matmul_of_shapes(left, right) == sizes


def test_convolutions():
    """16 images of 64 x 112 x 112, 64 filters of 3 x 3, stride 2: 55 x 55 places."""
    shape = operations.Conv2d(16, 64, 112, 112, 64, 3, stride=2)
    work = operations.conv2d(shape)
    assert work.flop == 2 * 16 * 64 * 55 * 55 * 64 * 9
    assert work.bytes == 4 * (16 * 64 * 112 * 112 + 64 * 64 * 9 + 16 * 64 * 55 * 55)
    assert operations.conv2d_backward(shape).flop == 2 * work.flop
    # PyTorch's own count of a padded one, checked against hardware counters.
    assert (
        operations.conv2d(operations.Conv2d(16, 64, 56, 56, 64, 3, padding=1)).flop == 3_699_376_128
    )


def test_recurrent_layers_repeat_their_cell():
    one, many = (operations.lstm(16, steps, 32, 16) for steps in (1, 128))
    assert many.flop == 128 * one.flop
    assert one.flop == 2 * 16 * 64 * (32 + 16) + 17 * 16 * 16


def test_sums_and_functions_of_elements():
    assert operations.reduction(100, 10, 8) == (90, 880)
    assert operations.reduction(100, 1, 8, flop_each=2.0) == (199, 808)
    assert operations.elementwise(100, 200) == (100, 1200)
    total = operations.dot(1) + operations.dot(1)
    assert total == (4, 24)
