"""tests/gpu/programs/two_gpus.py on the simulated driver: `python two_gpus.py [--no-pause]`.

The same steps in the same order, at a tenth of the size. Kernels take what the data sheet of the
GPU (`H100 SXM5`, `H200`) says, operators are timers of that group, and what is idle, copied and
allocated is so for as long as the program plans.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import taupy
from taupy.catalog.datasheets import datasheet
from tests.fake_gpu import PRELUDE
from tests.gpu.programs import two_gpus
from tests.gpu.programs.two_gpus import FULL, GPUS, GRAPH_NODES, WARM_UP

played: dict[str, object] = {}
exec(PRELUDE, played)
launch, copy, cuda, text = (played[name] for name in ("launch", "copy", "cuda", "text"))
nvtx = ctypes.PyDLL("libfakenvtx.so")  # with the GIL held, as PyTorch does
nvtx.range_start.restype = ctypes.c_uint64

TENTH = 0.1
MAIN, SECOND, GRAPH = 7, 8, 9
LEARNING = (
    ("aten::embedding", "embedding", 1),
    ("aten::mm", "products, forward", len(FULL.linears)),
    ("aten::mm", "products, gradients of inputs", len(FULL.linears)),
    ("aten::mm", "products, gradients of weights", len(FULL.linears)),
    ("aten::_scaled_dot_product_flash_attention", "attention", 1),
    ("aten::_scaled_dot_product_flash_attention_backward", "attention, backward", 1),
    ("aten::native_layer_norm", "layer norm", 2),
    ("aten::gelu", "gelu", 1),
    ("aten::_softmax", "softmax", 1),
    ("aten::convolution", "convolution, each direction", 1),
    ("aten::_cudnn_rnn", "recurrence", 1),
    ("aten::_fused_adamw_", "optimizer", 2),
)
"""Operators of `learn`, the kernel of each, and how often it is called."""
OTHERS = {
    "moment": 2e-5,
    "embedding": 4e-5,
    "layer norm": 4e-5,
    "softmax": 1e-4,
    "recurrence": 2e-4,
}
"""Seconds of kernels that the program does not estimate."""


def operator(name: str):
    return taupy.timer(name, group="OPERATOR")


class DataLoader:
    """Hands out batches. PyTorch's is known by its name, and phases are in traces of the host."""

    def __next__(self):
        with taupy.phase("DataLoader.__next__"):
            time.sleep(self.takes)


class Played:
    """The work, played."""

    def __init__(self) -> None:
        sheet = datasheet(os.environ.get("FAKE_NAME", ""))
        self.seconds = two_gpus.estimates(sheet.gpu if sheet else GPUS[0]) | OTHERS
        self.batches = DataLoader()
        played["init"]()

    def run(self, name: str, kernel: str, part: float = 1, stream: int = MAIN) -> None:
        took = round(1e9 * TENTH * part * self.seconds[kernel])
        with operator(name):
            launch(kernel.replace(", ", "_").replace(" ", "_"), stream=stream, took=took)

    def fetch(self, number):
        self.marked = taupy.step()
        self.marked.__enter__()
        slow = number == two_gpus.SLOW_BATCH_STEP
        self.batches.takes = two_gpus.SLOW_BATCH_S if slow else 0
        next(self.batches)
        with operator("aten::copy_"):
            copy(1, 8 * FULL.tokens)

    def lone_copy(self):
        cuda.fake_synchronize(0, MAIN)
        with operator("aten::copy_"):
            copy(1, two_gpus.COPIED_BYTES, took=4_500_000)
        cuda.fake_synchronize(0, MAIN)

    def empty_and_allocate(self):
        slow = ctypes.c_uint64(200_000)
        cuda.fake_slow_alloc(ctypes.c_uint64(two_gpus.ALLOCATED_BYTES), 0, slow)

    def load_code(self):
        cuda.fake_load_module(0, ctypes.c_uint64(300_000))

    def launch_loaded(self):
        launch("loaded_late", took=8000)

    def begin_anything(self):
        self.run("aten::add_", "moment")

    def learn(self):
        with taupy.phase("block"):
            for name, kernel, calls in LEARNING:
                for _ in range(calls):
                    self.run(name, kernel, 1 / calls)

    def elementwise(self):
        self.run("aten::mul_", "mul_")
        self.run("aten::addcmul_", "addcmul_")

    def on_second_stream(self):
        cuda.fake_wait_event(0, SECOND, MAIN)
        self.run("aten::clamp_", "clamp_", stream=SECOND)
        cuda.fake_wait_event(0, MAIN, SECOND)

    def replay_graph(self):
        cuda.fake_graph_launch(text("node"), GRAPH_NODES, 0, GRAPH, ctypes.c_uint64(3000))
        cuda.fake_synchronize(0, GRAPH)

    def result(self):
        with operator("aten::_local_scalar_dense"):
            copy(2, 4)
        cuda.fake_synchronize(0, MAIN)

    def range_start(self, name):
        return nvtx.range_start(name.encode(), 0)

    def range_end(self, number):
        nvtx.range_end(ctypes.c_uint64(number), 0)
        self.marked.__exit__(None, None, None)

    def range_push(self, name):
        nvtx.range_push(name.encode())

    def range_pop(self):
        nvtx.range_pop()

    def mark(self, name):
        nvtx.mark(name.encode(), 0)


if __name__ == "__main__":
    two_gpus.train(Played(), with_pause="--no-pause" not in sys.argv)
    print(f"{WARM_UP + two_gpus.STEPS} steps")
