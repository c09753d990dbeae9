"""Plays PyTorch: tensors that know how they were made, and a library that runs their nodes."""

import ctypes
import os

_FOLDER = os.path.join(os.path.dirname(__file__), "lib")
_C = ctypes.CDLL(os.path.join(_FOLDER, "libtorch_cpu.so"))
ctypes.CDLL(os.path.join(_FOLDER, "libc10.so"))
_INSIDE = ctypes.CFUNCTYPE(None)
_C.played_make.restype = ctypes.c_int64
_C.played_thread.restype = ctypes.c_uint64
_C.played_number.argtypes = (ctypes.c_uint64,)
_C.played_ask.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64)


class Node:
    def __init__(self, name, *before, numbered=True):
        self.kind = name
        self.number = _C.played_make() if numbered else -1
        self.thread = _C.played_thread() if numbered else 0
        self.next_functions = [(node, 0) for node in before]

    def name(self):
        return NAMES.get(self.kind, self.kind)

    def _sequence_nr(self):
        return self.number % 2**64

    def run(self, inside=None):
        run([self], inside)


def run(nodes, inside=None):
    """One pass, in which these nodes run; `inside` is called in each."""
    count = len(nodes)
    names = (ctypes.c_char_p * count)(*(node.kind.encode() for node in nodes))
    numbers = (ctypes.c_int64 * count)(*(node.number for node in nodes))
    threads = (ctypes.c_uint64 * count)(*(node.thread for node in nodes))
    _C.played_run(count, names, numbers, threads, _INSIDE(inside) if inside else _INSIDE())


NAMES = {}
"""What a node says that it is called, where that is not true."""


class Tensor:
    def __init__(self, node, nbytes=0):
        self.grad_fn = node
        self.nbytes = nbytes

    def __mul__(self, other):
        return Tensor(Node("MulBackward0", self.grad_fn))

    def exp(self):
        return Tensor(Node("ExpBackward0", self.grad_fn))

    def sum(self):
        return Tensor(Node("SumBackward0", self.grad_fn))

    def backward(self):
        node = self.grad_fn
        while node is not None:
            node.run()
            node = node.next_functions[0][0] if node.next_functions else None


def ones(*shape, requires_grad=False):
    return Tensor(Node("torch::autograd::AccumulateGrad", numbered=False), 4 * shape[0])
