"""A training of which is known beforehand what it launches, computes, moves, and where it waits.

    python tests/gpu/programs/two_gpus.py                   runs it, on a GPU
    python tests/gpu/programs/two_gpus.py --no-pause        without the sleep of step 5
    python tests/gpu/programs/two_gpus.py --kineto FILE     steps 5 to 8 under torch.profiler
    python tests/gpu/programs/two_gpus.py --small           in seconds; on the CPU without a GPU
    python tests/gpu/programs/two_gpus.py --expected        what a profile must say, as JSON
    python tests/gpu/programs/two_gpus.py --estimates       times of kernels by the data sheets

It was made to be run on two kinds of GPU, whose trials are then compared: a transformer block in
bfloat16, a convolution, an LSTM and an embedding are trained with a fused optimizer for 12 steps
after 3 of warm-up, beside element-wise work on tensors that no L2 cache holds. No kernel takes
above a quarter of the GPU's time. The GPU is idle where and why `PLAN` says. `train` is the order
of the work; what does it is handed in, so that a simulated driver can do the same
(tests/fake_gpu/two_gpus.py).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

try:
    from taupy import snapshot
except ImportError:  # under plain Python

    def snapshot(label):
        pass


WARM_UP, STEPS = 3, 12
PAUSE_STEP, SLOW_BATCH_STEP, ALLOCATION_STEP, LOADING_STEP = 5, 6, 7, 8
GRAPH_STEPS = range(10, STEPS + 1)
KINETO_STEPS = range(5, 9)
PAUSE_S, SLOW_BATCH_S = 0.0205, 0.031  # a little longer than what is planned: see PLAN
ALLOCATED_BYTES, COPIED_BYTES = 64 << 20, 256 << 20
FASTEST_HOST_COPY = 64e9  # B/s: sixteen lanes of PCIe 5
GRAPH_NODES = 8
FMA, THREADS = 4000, 256  # of the kernel that is loaded in LOADING_STEP


class Sizes(NamedTuple):
    """Of the tensors. `big` is in floats."""

    batch: int = 4
    sequence: int = 2048
    width: int = 2048
    heads: int = 16
    vocabulary: int = 32768
    pictures: int = 32
    channels: int = 64
    picture: int = 112
    hidden: int = 512
    big: int = 1 << 28
    pinned: int = COPIED_BYTES

    @property
    def tokens(self) -> int:
        return self.batch * self.sequence

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """Input and output widths of the block's products."""
        width = self.width
        return {
            "qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width),
            "down": (4 * width, width),
        }  # fmt: skip


FULL = Sizes()
SMALL = Sizes(2, 32, 64, 4, 128, 2, 4, 8, 16, 1 << 16, 1 << 16)


class Idle(NamedTuple):
    """Time in which nothing runs on the GPU, or copies alone, and why.

    Attributes:
        step: of the program; a profile that counts the warm-up has WARM_UP more. None: each step.
        cause: as `taupy kernels --activity` calls it.
        at_least_ns: how long; 0: some time.
        routine: of this program, in which it is.
    """

    step: int | None
    cause: str
    at_least_ns: int
    routine: str


PLAN = (
    Idle(None, "synchronisation", 0, "result"),
    Idle(PAUSE_STEP, "host", 20_000_000, "pause"),
    Idle(SLOW_BATCH_STEP, "data loading", 30_000_000, "fetch"),
    Idle(
        SLOW_BATCH_STEP, "copies only", round(1e9 * COPIED_BYTES / FASTEST_HOST_COPY), "lone_copy"
    ),
    Idle(ALLOCATION_STEP, "memory allocation", 50_000, "empty_and_allocate"),
    Idle(LOADING_STEP, "loading code", 50_000, "load_code"),
)


def pause():
    time.sleep(PAUSE_S)


def train(work, with_pause: bool = True, after_step: Callable[[int], object] = lambda number: None):
    """All steps; what they do is in `work`. Steps of the warm-up have numbers up to 0."""
    for number in range(1 - WARM_UP, STEPS + 1):
        step(work, number, with_pause)
        if number == 6:
            snapshot("after step 6")
        after_step(number)


def step(work, number: int, with_pause: bool) -> None:
    """One step. At its beginning and its end the GPU has nothing to do."""
    work.fetch(number)
    whole = work.range_start(f"step {number}")
    if number == SLOW_BATCH_STEP:
        work.lone_copy()
    if number == ALLOCATION_STEP:
        work.empty_and_allocate()
    if number == LOADING_STEP:
        work.load_code()
    if number >= LOADING_STEP:
        work.launch_loaded()
    if number == PAUSE_STEP:
        work.begin_anything()  # a moment's work, so that nobody waits when the GPU falls idle
        if with_pause:
            pause()
    work.learn()
    work.range_push("element-wise")
    work.elementwise()
    work.range_pop()
    work.on_second_stream()
    if number in GRAPH_STEPS:
        work.replay_graph()
    work.mark("before the result")
    work.result()
    work.range_end(whole)


# ------------------------------------------------------------------- what is known beforehand


def expected(sizes: Sizes = FULL) -> dict[str, object]:
    """What a profile of the run must say, as far as it is known beforehand.

    Counts are of the whole run, with the warm-up. `flop_per_step` is by operator: of products and
    attention forward and backward, of the loaded kernel each launch.
    """
    steps = WARM_UP + STEPS
    return {
        "steps": {"warm-up": WARM_UP, "then": STEPS, "torch.profiler": [*KINETO_STEPS]},
        "launches": {
            "loaded_late": STEPS + 1 - LOADING_STEP,
            "cudaGraphLaunch": len(GRAPH_STEPS),
            "kernels of the graph": GRAPH_NODES * len(GRAPH_STEPS),
        },
        "operators": {
            "aten::embedding": steps,
            "aten::mm": 3 * len(sizes.linears) * steps,
            "aten::_scaled_dot_product_flash_attention": steps,
            "aten::_scaled_dot_product_flash_attention_backward": steps,
            "aten::_softmax": steps,
            "aten::native_layer_norm": 2 * steps,
            "aten::convolution": steps,
            "aten::_cudnn_rnn": steps,
            "aten::_fused_adamw_": 2 * steps,  # parameters in bfloat16, and the LSTM's
            "aten::mul_": steps,
            "aten::addcmul_": steps,
            "aten::clamp_": steps,
        },
        "copied_bytes": {
            "lone_copy": {"Memcpy HtoD": sizes.pinned},
            "fetch": {"Memcpy HtoD": 8 * sizes.tokens * steps},
            "result": {"Memcpy DtoH": 4 * steps},
        },
        "allocated_bytes": {"empty_and_allocate": ALLOCATED_BYTES},
        "flop_per_step": {
            "aten::mm": 3 * sum(2 * sizes.tokens * m * n for m, n in sizes.linears.values()),
            "attention": 14 * sizes.batch * sizes.sequence**2 * sizes.width,
            "loaded_late": 2 * FMA * THREADS,
        },
        "idle": [one._asdict() for one in PLAN],
        "streams": "two, and where graphs run",
        "nvtx": {
            "element-wise": steps,
            "marks": {"before the result": steps},
            "started": [f"step {number}" for number in range(1 - WARM_UP, STEPS + 1)],
        },
        "record_function": {"block": steps},
        "snapshots": ["after step 6"],
        "dram-bound": ["aten::mul_", "aten::addcmul_", "aten::clamp_"],
        "products": ["aten::mm"],
        "largest_share": 0.25,
        "worker processes": 2,
    }


class Kernel(NamedTuple):
    """Launches of one kernel in a step, together: of one name at worst."""

    name: str
    flop: float
    peak: str
    bytes: float


def kernels(sizes: Sizes = FULL) -> list[Kernel]:
    """The large kernels of a step. Products of one direction may be one kernel: they are here."""
    linears = sizes.linears.values()
    flop = sum(2.0 * sizes.tokens * m * n for m, n in linears)
    moved = sum(2.0 * (sizes.tokens * (m + n) + m * n) for m, n in linears)
    scores = 2.0 * sizes.batch * sizes.sequence**2 * sizes.width
    activations = 2.0 * sizes.tokens * sizes.width
    parameters = sizes.vocabulary * sizes.width + sum(m * n for m, n in linears)
    pixels = sizes.pictures * sizes.picture**2 * sizes.channels
    return [
        Kernel("products, forward", flop, "tensor bf16", moved),
        Kernel("products, gradients of inputs", flop, "tensor bf16", moved),
        Kernel("products, gradients of weights", flop, "tensor bf16", moved),
        Kernel("attention", 2 * scores, "tensor bf16", 4 * activations),
        Kernel("attention, backward", 5 * scores, "tensor bf16", 8 * activations),
        Kernel("gelu", 0, "fp32", 4 * activations * 2),
        Kernel("gelu, backward", 0, "fp32", 4 * activations * 3),
        Kernel("convolution, each direction", 2.0 * pixels * sizes.channels * 9, "tensor bf16",
               4.0 * pixels),
        Kernel("embedding, backward", 0, "fp32", 2.0 * sizes.vocabulary * sizes.width),
        Kernel("optimizer", 0, "fp32", 14.0 * parameters),
        Kernel("mul_", 0, "fp32", 8.0 * sizes.big),
        Kernel("addcmul_", 0, "fp32", 12.0 * sizes.big),
        Kernel("clamp_", 0, "fp32", 8.0 * sizes.big),
    ]  # fmt: skip


def estimates(gpu: str, sizes: Sizes = FULL) -> dict[str, float]:
    """Least seconds of each of `kernels` by the data sheet of the GPU."""
    sys.path.append(str(Path(__file__).parents[3]))
    from taupy.catalog.datasheets import DATASHEETS

    (sheet,) = (one for one in DATASHEETS if one.gpu == gpu)
    return {
        one.name: max(one.flop / sheet.peaks[one.peak], one.bytes / sheet.dram)
        for one in kernels(sizes)
    }


GPUS = ("H100 SXM5", "H200")


def estimated() -> str:
    """The estimates for both kinds of GPU, and each kernel's share."""
    both = [estimates(gpu) for gpu in GPUS]
    heads = "".join(f"{gpu:>20}" for gpu in GPUS)
    lines = [f"{'milliseconds of a step, at least':<34}{heads}"]
    for name in both[0]:
        cells = [
            f"{1e3 * one[name]:11.3f}{100 * one[name] / sum(one.values()):7.1f} %" for one in both
        ]
        lines.append(f"{name:<34}{''.join(cells)}")
    sums = "".join(f"{1e3 * sum(one.values()):20.3f}" for one in both)
    lines.append(f"{'together':<34}{sums}")
    return "\n".join(lines)


# --------------------------------------------------------------------------- with PyTorch


class Tokens:
    """The data set. The first row of the batch of SLOW_BATCH_STEP is made when that is asked for,
    so that the loader's being ahead does not hide how long it takes."""

    def __init__(self, sizes: Sizes, asked) -> None:
        self.sizes, self.asked = sizes, asked

    def __len__(self) -> int:
        return self.sizes.batch * (WARM_UP + STEPS)

    def __getitem__(self, number):
        import torch

        if number == self.sizes.batch * (WARM_UP + SLOW_BATCH_STEP - 1):
            self.asked.wait(60)
            time.sleep(SLOW_BATCH_S)
        drawn = torch.Generator().manual_seed(number)
        shape = (self.sizes.sequence,)
        return torch.randint(0, self.sizes.vocabulary, shape, generator=drawn)


def block_of(torch, sizes: Sizes):
    """One block of a transformer, on rows of tokens."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(sizes.width), nn.LayerNorm(sizes.width)
            for name, (inside, outside) in sizes.linears.items():
                setattr(self, name, nn.Linear(inside, outside, bias=False))

        def attend(self, x):
            parts = self.qkv(x).view(sizes.batch, sizes.sequence, 3, sizes.heads, -1)
            query, key, value = (one.transpose(1, 2) for one in parts.unbind(2))
            mixed = functional.scaled_dot_product_attention(query, key, value)
            return self.out(mixed.transpose(1, 2).reshape(sizes.tokens, sizes.width))

        def forward(self, x):
            x = x + self.attend(self.first(x))
            return x + self.down(functional.gelu(self.up(self.second(x))))

    return Block()


class Torch:
    """The work with PyTorch, on a GPU or, what there is of it, on the CPU."""

    def __init__(self, torch, sizes: Sizes, device: str) -> None:
        self.torch, self.sizes, self.device = torch, sizes, device
        self.on_gpu = device == "cuda"
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = False
        self.batches = self.loader()  # its processes are forked before CUDA begins
        nn = torch.nn
        half = {"device": device, "dtype": torch.bfloat16}
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width).to(**half)
        self.block = block_of(torch, sizes).to(**half)
        self.convolution = nn.Conv2d(sizes.channels, sizes.channels, 3, bias=False).to(
            memory_format=torch.channels_last, **half
        )
        self.lstm = nn.LSTM(sizes.hidden, sizes.hidden).to(device)
        parts = (self.embedding, self.block, self.convolution, self.lstm)
        parameters = [one for part in parts for one in part.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
        shape = (sizes.pictures, sizes.channels, sizes.picture, sizes.picture)
        self.pictures = torch.randn(shape, **half).to(memory_format=torch.channels_last)
        self.sequence = torch.randn(32, 64, sizes.hidden, device=device)
        self.one, self.two, self.three = (torch.rand(sizes.big, device=device) for _ in range(3))
        self.moment = torch.zeros(256, device=device)
        self.pinned = torch.ones(sizes.pinned, dtype=torch.uint8, pin_memory=self.on_gpu)
        self.target = torch.empty(sizes.pinned, dtype=torch.uint8, device=device)
        self.loss = torch.zeros((), device=device)
        self.loaded = None
        self.static = torch.ones(1 << 20 if self.on_gpu else 16, device=device)
        if self.on_gpu:
            self.second = torch.cuda.Stream()
            self.graph = self.captured()
            self.synchronize()

    def loader(self):
        context = self.torch.multiprocessing.get_context("fork")
        self.asked = context.Event()
        return iter(
            self.torch.utils.data.DataLoader(
                Tokens(self.sizes, self.asked), batch_size=self.sizes.batch, num_workers=2,
                multiprocessing_context=context,
            )
        )  # fmt: skip

    def captured(self):
        """A graph of GRAPH_NODES kernels."""
        graph = self.torch.cuda.CUDAGraph()
        aside = self.torch.cuda.Stream()
        with self.torch.cuda.stream(aside):
            self.nodes()  # code is loaded, and cannot be in a capture
        self.synchronize()
        with self.torch.cuda.graph(graph):
            self.nodes()
        return graph

    def nodes(self):
        for _ in range(GRAPH_NODES // 2):
            self.static.reciprocal_()
            self.static.neg_()

    def synchronize(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def fetch(self, number):
        if number == SLOW_BATCH_STEP:
            self.asked.set()
        self.tokens = next(self.batches).to(self.device)

    def lone_copy(self):
        self.synchronize()
        self.target.copy_(self.pinned, non_blocking=True)
        self.synchronize()

    def empty_and_allocate(self):
        if not self.on_gpu:
            self.torch.empty(ALLOCATED_BYTES, dtype=self.torch.uint8)
            return
        cuda = self.torch.cuda
        cuda.empty_cache()
        self.pool = cuda.MemPool()  # what is left of the cache may have as much room in one piece
        with cuda.use_mem_pool(self.pool):
            self.torch.empty(ALLOCATED_BYTES, dtype=self.torch.uint8, device=self.device)

    def load_code(self):
        if self.on_gpu:
            self.loaded = Loaded(self.torch, self.moment)

    def launch_loaded(self):
        if self.loaded is not None:
            self.loaded.launch()

    def begin_anything(self):
        self.moment.add_(1)

    def learn(self):
        torch, sizes = self.torch, self.sizes
        with torch.profiler.record_function("block"), attention_of(torch, self.on_gpu):
            rows = self.block(self.embedding(self.tokens).view(sizes.tokens, sizes.width))
        chosen = torch.softmax(rows.float(), dim=-1)
        pictures = self.convolution(self.pictures)
        sequence, _ = self.lstm(self.sequence)
        self.loss = chosen.square().sum() + pictures.float().mean() + sequence.mean()
        self.optimizer.zero_grad()
        with attention_of(torch, self.on_gpu):
            self.loss.backward()
        self.optimizer.step()

    def elementwise(self):
        self.one.mul_(0.999)
        self.two.addcmul_(self.three, self.three, value=1e-3)

    def on_second_stream(self):
        if not self.on_gpu:
            self.three.clamp_(0, 1)
            return
        cuda = self.torch.cuda
        ready = cuda.current_stream().record_event()
        self.second.wait_event(ready)
        with cuda.stream(self.second):
            self.three.clamp_(0, 1)
        cuda.current_stream().wait_stream(self.second)

    def replay_graph(self):
        if self.on_gpu:
            self.graph.replay()
        else:
            self.nodes()

    def result(self):
        return self.loss.item()

    def range_start(self, name):
        return self.torch.cuda.nvtx.range_start(name) if self.on_gpu else None

    def range_end(self, number):
        if self.on_gpu:
            self.torch.cuda.nvtx.range_end(number)

    def range_push(self, name):
        if self.on_gpu:
            self.torch.cuda.nvtx.range_push(name)

    def range_pop(self):
        if self.on_gpu:
            self.torch.cuda.nvtx.range_pop()

    def mark(self, name):
        if self.on_gpu:
            self.torch.cuda.nvtx.mark(name)


def attention_of(torch, on_gpu):
    """Flash attention: which of them is taken by default depends on the GPU and the version."""
    from contextlib import nullcontext

    attention = torch.nn.attention
    return attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION) if on_gpu else nullcontext()


def ptx() -> str:
    """A kernel in PTX: FMA products and sums in each thread, one after the other."""
    body = "    fma.rn.f32 %f1, %f1, %f2, %f2;\n" * FMA
    return f"""\
.version 7.0
.target sm_80
.address_size 64
.visible .entry loaded_late(.param .u64 values)
{{
    .reg .f32 %f<3>;
    .reg .b32 %r<2>;
    .reg .b64 %d<5>;
    ld.param.u64 %d1, [values];
    cvta.to.global.u64 %d2, %d1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d3, %r1, 4;
    add.s64 %d4, %d2, %d3;
    ld.global.f32 %f1, [%d4];
    mov.f32 %f2, 0f3F000000;
{body}    st.global.f32 [%d4], %f1;
    ret;
}}
"""


class Loaded:
    """The kernel of `ptx`, loaded by the driver, which compiles it."""

    def __init__(self, torch, values) -> None:
        self.torch, self.driver = torch, ctypes.CDLL("libcuda.so.1")
        self.function, module = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(module), ptx().encode()))
        self.check(
            self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, b"loaded_late")
        )
        self.values = ctypes.c_void_p(values.data_ptr())

    @staticmethod
    def check(status: int) -> None:
        if status != 0:
            raise RuntimeError(f"the CUDA driver answers {status}")

    def launch(self) -> None:
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.values))
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        sizes = map(ctypes.c_uint, (1, 1, 1, THREADS, 1, 1, 0))
        self.check(self.driver.cuLaunchKernel(self.function, *sizes, stream, arguments, None))


# ------------------------------------------------------------------------ torch.profiler


KEPT = (
    *("schemaVersion", "deviceProperties", "cupti_version", "cuda_runtime_version"),
    *("cuda_driver_version", "record_shapes", "with_stack", "displayTimeUnit"),
    *("baseTimeNanoseconds", "traceEvents"),
)
"""What is kept of a trace beside its events: neither the host's name nor its environment."""


def cleaned(trace: dict) -> dict:
    """A trace of torch.profiler without metadata and without paths outside of the program."""
    kept = {name: trace[name] for name in KEPT if name in trace}
    kept["traceEvents"] = [
        {name: shown(value) for name, value in event.items()}
        for event in kept.get("traceEvents", ())
        if event.get("ph") != "M" or event.get("name") in ("process_name", "thread_name")
    ]
    return kept


def shown(value):
    """A value of JSON whose texts have no folders of the machine."""
    if isinstance(value, dict):
        return {name: shown(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shown(one) for one in value]
    return cut(value) if isinstance(value, str) else value


FOLDERS = re.compile(r"(?<![\w.>])/(?:[^/\s:(){}\[\]'\"]+/)+")
"""Folders of a path that begins at the root."""
KEEP_FROM = re.compile(r".*/(?:site-packages|dist-packages|python3\.\d+)/|.*/(?=(?:taupy|tests)/)")


def cut(text: str) -> str:
    """A text in which paths begin at their package, Python's library or this project; those of
    other files have no folder."""
    return FOLDERS.sub(
        lambda path: KEEP_FROM.sub("", path[0]) if KEEP_FROM.match(path[0]) else "", text
    )


def profiled(torch, work, file: str) -> None:
    """Train under torch.profiler, which keeps KINETO_STEPS; FILE is its trace."""
    profiler, activity = torch.profiler, torch.profiler.ProfilerActivity
    skipped = WARM_UP + KINETO_STEPS.start - 2
    activities = [activity.CPU, *([activity.CUDA] if work.on_gpu else [])]
    with profiler.profile(
        activities=activities, record_shapes=True, with_stack=True,
        schedule=profiler.schedule(
            skip_first=skipped, wait=0, warmup=1, active=len(KINETO_STEPS), repeat=1
        ),
        on_trace_ready=lambda measured: measured.export_chrome_trace(file),
    ) as measured:  # fmt: skip
        train(work, after_step=lambda number: measured.step())
    trace = json.loads(Path(file).read_text())
    Path(file).write_text(json.dumps(cleaned(trace), separators=(",", ":")))


def main() -> None:
    parser = argparse.ArgumentParser(description="A training for two kinds of GPU.")
    parser.add_argument("--small", action="store_true", help="small sizes; on the CPU if need be")
    parser.add_argument("--no-pause", action="store_true", help="without the sleep of step 5")
    parser.add_argument("--kineto", metavar="FILE", help="steps 5 to 8 under torch.profiler")
    parser.add_argument("--expected", action="store_true", help="what a profile must say, as JSON")
    parser.add_argument("--estimates", action="store_true", help="times by the data sheets")
    asked = parser.parse_args()
    sizes = SMALL if asked.small else FULL
    if asked.expected:
        print(json.dumps(expected(sizes), indent=1))
        return
    if asked.estimates:
        print(estimated())
        return
    os.environ.setdefault("CUDA_CACHE_DISABLE", "1")  # each run compiles the kernel of `load_code`
    import needs

    torch = needs.torch(gpu=not asked.small)
    work = Torch(torch, sizes, "cuda" if torch.cuda.is_available() else "cpu")
    if asked.kineto:
        profiled(torch, work, asked.kineto)
    else:
        train(work, with_pause=not asked.no_pause)
    print(f"loss {work.loss.item():.6f}")


if __name__ == "__main__":
    main()
