"""The Conv2D and LSTM sweeps of the time-based roofline paper (Wang et al., 2020) in PyTorch.

    taupy run sweep.py conv2d --over filters
    taupy roofline --sweep filters -o filters.html

Each value of the parameter is a phase such as "conv2d forward fp32 filters=128", which contains
only the computation, after five warm-up rounds. On a GPU, `taupy run --metrics roofline` counts
flop and bytes; otherwise the analytic values stated by each phase are used. Runs on the GPU if
there is one; `--small` is for a CPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import taupy
from taupy.catalog import operations

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("sweep.py: PyTorch is missing; install it with: pip install torch")

WARM_UP = 5
ROUNDS = 20

CONV2D = {"batch": 16, "filters": 64, "kernel": 3, "stride": 2, "size": 112, "channels": 64}
LSTM = {"batch": 16, "sequence": 16, "features": 32, "hidden": 16}
SMALL = {"batch": 4, "filters": 16, "kernel": 3, "stride": 2, "size": 28, "channels": 16}

VALUES = {
    "conv2d": {
        "batch": (16, 32, 64),
        "filters": (64, 128, 256, 512),
        "kernel": (3, 5, 7, 9),
        "stride": (1, 2, 3),
    },
    "lstm": {
        "batch": (16, 32, 64, 128),
        "sequence": (16, 32, 64, 128),
        "features": (16, 32, 64, 128),
        "hidden": (16, 32, 64, 128),
    },
}
SMALL_VALUES = {"batch": (4, 8, 16), "filters": (16, 32, 64, 128)}

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def conv2d(
    shape: dict[str, int], kind: torch.dtype, device: torch.device
) -> tuple[nn.Module, torch.Tensor, operations.Work, operations.Work]:
    """The layer, its input, and the work of one forward and one backward pass."""
    layer = nn.Conv2d(
        shape["channels"], shape["filters"], shape["kernel"], shape["stride"], bias=False
    )
    given = torch.randn(
        shape["batch"], shape["channels"], shape["size"], shape["size"], device=device, dtype=kind
    )
    sizes = operations.Conv2d(
        *(shape["batch"], shape["channels"], shape["size"], shape["size"]),
        *(shape["filters"], shape["kernel"], shape["stride"]),
    )
    forward = operations.conv2d(sizes, kind.itemsize)
    backward = operations.conv2d_backward(sizes, kind.itemsize)
    return layer.to(device, kind), given, forward, backward


def lstm(
    shape: dict[str, int], kind: torch.dtype, device: torch.device
) -> tuple[nn.Module, torch.Tensor, operations.Work, operations.Work]:
    layer = nn.LSTM(shape["features"], shape["hidden"])
    given = torch.randn(
        shape["sequence"], shape["batch"], shape["features"], device=device, dtype=kind
    )
    forward = operations.lstm(
        shape["batch"], shape["sequence"], shape["features"], shape["hidden"], kind.itemsize
    )
    backward = operations.Work(2 * forward.flop, 2 * forward.bytes)
    return layer.to(device, kind), given, forward, backward


KERNELS: dict[str, Callable] = {"conv2d": conv2d, "lstm": lstm}


def state(work: operations.Work, precision: str) -> None:
    """State the work of this round, in case nothing counts it."""
    taupy.user_event(f"flop_{precision}", "flop").sample(work.flop)
    taupy.user_event("bytes_dram", "B").sample(work.bytes)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(
    title: str, arguments: argparse.Namespace, shape: dict[str, int], device: torch.device
) -> None:
    """Warm up, then run a phase that contains only the computation."""
    layer, given, forward, backward = KERNELS[arguments.kernel](
        shape, TYPES[arguments.precision], device
    )
    given.requires_grad_(arguments.direction == "backward")

    def result() -> torch.Tensor:
        output = layer(given)
        return output[0] if isinstance(output, tuple) else output

    def rounds(number: int, work: operations.Work | None) -> Iterator[None]:
        for _ in range(number):
            if arguments.direction == "forward":
                with torch.no_grad():
                    yield result()
            else:
                output = result()
                gradient = torch.ones_like(output)
                wait(device)
                phase = taupy.phase(title) if work is not None else nullcontext()
                with phase:
                    output.backward(gradient)
                    wait(device)
                    if work is not None:
                        state(work, arguments.precision)
                yield None

    for _ in rounds(WARM_UP, None):
        pass
    wait(device)
    if arguments.direction == "backward":
        for _ in rounds(arguments.rounds, backward):
            pass
        return
    with taupy.phase(title):
        for _ in rounds(arguments.rounds, forward):
            state(forward, arguments.precision)
        wait(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernel", choices=sorted(KERNELS))
    parser.add_argument("--over", default="batch", help="the parameter that is varied")
    parser.add_argument("--values", type=int, nargs="*", help="its values")
    parser.add_argument("--direction", choices=["forward", "backward"], default="forward")
    parser.add_argument("--precision", choices=sorted(TYPES), default="fp32")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    arguments = parser.parse_args()
    values_of = VALUES[arguments.kernel]
    if arguments.over not in values_of:
        parser.error(f"{arguments.kernel} varies over {', '.join(values_of)}")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = dict(LSTM if arguments.kernel == "lstm" else SMALL if arguments.small else CONV2D)
    values = arguments.values or (arguments.small and SMALL_VALUES.get(arguments.over))
    # This thread launches the gradients, so that they belong to its phases.
    torch.autograd.set_multithreading_enabled(False)
    taupy.metadata("framework", f"PyTorch {torch.__version__}")
    for value in values or values_of[arguments.over]:
        shape[arguments.over] = value
        title = (
            f"{arguments.kernel} {arguments.direction} {arguments.precision} "
            f"{arguments.over}={value}"
        )
        measure(title, arguments, shape, device)
        print(title)


if __name__ == "__main__":
    main()
