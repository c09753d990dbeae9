"""Flop and compulsory bytes of known operations, computed from shapes.

These are analytic counts, required by the mathematics, not measured on a processor. A
multiplication, an addition, a division, a square root and functions such as exp (10 to 30
instructions in hardware) are one flop each; comparisons, copies, conversions and integer operations
are none. Bytes are compulsory traffic: every operand is read once and every result written once;
caches that are too small increase it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

PRECISIONS = {
    "float64": "flop_fp64",
    "float32": "flop_fp32",
    "float16": "flop_fp16",
    "bfloat16": "flop_bf16",
    "complex128": "flop_fp64",
    "complex64": "flop_fp32",
}
"""Name of an element type -> the metric for its flop."""


class Work(NamedTuple):
    """Flop and compulsory bytes of one operation."""

    flop: float
    bytes: float

    def __add__(self, other: object) -> Work:
        if not isinstance(other, Work):
            return NotImplemented
        return Work(self.flop + other.flop, self.bytes + other.bytes)


def matmul(m: int, n: int, k: int, itemsize: int = 4, batch: int = 1) -> Work:
    """(m x k) times (k x n), `batch` times: 2 m n k flop."""
    return Work(
        2.0 * batch * m * n * k,
        float(batch * (m * k + k * n + m * n) * itemsize),
    )


def dot(n: int, itemsize: int = 4) -> Work:
    """Inner product of two vectors."""
    return Work(2.0 * n, float((2 * n + 1) * itemsize))


def elementwise(outputs: int, inputs: int, itemsize: int = 4, flop_each: float = 1.0) -> Work:
    """A function of each element; `inputs` elements are read, `outputs` written."""
    return Work(flop_each * outputs, float((inputs + outputs) * itemsize))


def reduction(inputs: int, outputs: int = 1, itemsize: int = 4, flop_each: float = 1.0) -> Work:
    """A sum (a mean, a norm) of `inputs` elements into `outputs`.

    Args:
        flop_each: flop per element, for its addition and any operation before that.
    """
    flop = max(inputs - outputs, 0) + (flop_each - 1) * inputs
    return Work(float(flop), float((inputs + outputs) * itemsize))


def conv2d_output(size: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    """Rows (or columns) of a convolution's result."""
    return (size + 2 * padding - kernel) // stride + 1


class Conv2d(NamedTuple):
    """A square 2D convolution."""

    batch: int
    channels: int
    height: int
    width: int
    filters: int
    kernel: int
    stride: int = 1
    padding: int = 0


def conv2d(shape: Conv2d, itemsize: int = 4) -> Work:
    """A square 2D convolution, forward, computed directly: no Winograd, no FFT.

    Wang et al.'s equation 4, extended by stride and padding.
    """
    channels, kernel = shape.channels, shape.kernel
    rows = conv2d_output(shape.height, kernel, shape.stride, shape.padding)
    columns = conv2d_output(shape.width, kernel, shape.stride, shape.padding)
    inputs = shape.batch * channels * shape.height * shape.width
    weights = shape.filters * channels * kernel * kernel
    outputs = shape.batch * shape.filters * rows * columns
    flop = 2.0 * outputs * channels * kernel * kernel
    return Work(flop, float((inputs + weights + outputs) * itemsize))


def conv2d_backward(shape: Conv2d, itemsize: int = 4) -> Work:
    """Gradients of input and weights: two products of the forward one's size."""
    forward = conv2d(shape, itemsize)
    return Work(2 * forward.flop, 2 * forward.bytes)


def lstm(batch: int, sequence: int, features: int, hidden: int, itemsize: int = 4) -> Work:
    """One layer of an LSTM, forward: four gates' products, then 9 flop an element."""
    gates = matmul(batch, 4 * hidden, features, itemsize) + matmul(
        batch, 4 * hidden, hidden, itemsize
    )
    cell = elementwise(batch * hidden, 5 * batch * hidden, itemsize, flop_each=9 + 8)
    return Work(sequence * (gates.flop + cell.flop), sequence * (gates.bytes + cell.bytes))


def matmul_of_shapes(left: Sequence[int], right: Sequence[int]) -> tuple[int, int, int, int]:
    """m, n, k and batch of `left @ right`, as NumPy and PyTorch broadcast them."""
    rows = left[-2] if len(left) > 1 else 1
    columns = right[-1] if len(right) > 1 else 1
    batches = [math.prod(shape[:-2]) for shape in (left, right) if len(shape) > 2]
    return rows, columns, left[-1], max(batches, default=1)


def complex_factor(name: str) -> float:
    """Factor between the flop of an operation on complex numbers and on real ones.

    A complex addition takes two flop, a multiplication six; a multiplication with an addition
    takes eight instead of two.
    """
    if name in ("add", "subtract", "sub", "rsub", "_foreach_add", "cumsum") or name in REDUCTIONS:
        return 2.0
    return 6.0 if name in ("multiply", "mul", "square", "outer", "_foreach_mul") else 4.0


FLOP_OF_FUNCTION = {
    **dict.fromkeys(
        (
            *("add", "subtract", "sub", "rsub", "multiply", "mul", "divide", "div", "true_divide"),
            *("sqrt", "rsqrt", "square", "reciprocal", "exp", "exp2", "expm1", "log", "log2"),
            *("log10", "log1p", "sin", "cos", "tan", "tanh", "sinh", "cosh", "arctan", "erf"),
            *(
                "power",
                "pow",
                "float_power",
                "hypot",
                "cumsum",
                "cumprod",
                "floor_divide",
                "remainder",
            ),
        ),
        1.0,
    ),
    "sigmoid": 3.0,
    "silu": 4.0,
    "gelu": 8.0,
    "addcmul": 3.0,
    "addcdiv": 3.0,
    "lerp": 3.0,
    "threshold_backward": 0.0,
    "tanh_backward": 3.0,
    "sigmoid_backward": 3.0,
    "gelu_backward": 16.0,
    "_softmax": 3.0,
    "_log_softmax": 4.0,
    "_softmax_backward_data": 3.0,
    "_log_softmax_backward_data": 3.0,
    "native_layer_norm": 7.0,
    "native_layer_norm_backward": 14.0,
    "native_batch_norm": 7.0,
    "native_batch_norm_backward": 14.0,
    "_foreach_add": 1.0,
    "_foreach_mul": 1.0,
    "_foreach_div": 1.0,
    "_foreach_sqrt": 1.0,
    "_foreach_addcmul": 3.0,
    "_foreach_addcdiv": 3.0,
    "_foreach_lerp": 3.0,
}
"""Flop for each element of the result, by the name of a function, NumPy's or PyTorch's."""

REDUCTIONS = {
    **dict.fromkeys(("sum", "mean", "prod", "trace", "logsumexp"), 1.0),
    **dict.fromkeys(("average", "nansum", "nanmean"), 1.0),
    **dict.fromkeys(("norm", "linalg_vector_norm"), 2.0),
    **dict.fromkeys(("var", "std"), 4.0),
    "mse_loss": 3.0,
}
"""Functions that sum their input, with the flop per element of the input."""
