"""Chrome traces as torch.profiler writes them on a GPU, small or of any size."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

BASE_NS = 1_700_000_000_000_000_000
HEADER = {
    "schemaVersion": 1,
    "deviceProperties": [
        {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150754820096, "computeMajor": 9,
         "computeMinor": 0, "numSms": 132, "warpSize": 32},
    ],
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": BASE_NS,
}  # fmt: skip
PID = 4711


def slice_(category, name, start, end, tid=PID, pid=PID, **args) -> dict:
    """A complete event; times in nanoseconds."""
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
        "ts": start / 1000, "dur": (end - start) / 1000, "args": args,
    }  # fmt: skip


def kernel(name, start, end, correlation=None, operator=None, stream=7, device=0, **args) -> dict:
    if correlation is not None:
        args["correlation"] = correlation
    if operator is not None:
        args["External id"] = operator
    place = {"device": device, "context": 1, "stream": stream}
    shape = {"grid": [8, 1, 1], "block": [128, 1, 1], "registers per thread": 32,
             "shared memory": 1024, "est. achieved occupancy %": 50}  # fmt: skip
    return slice_("kernel", name, start, end, stream, device, **place, **shape, **args)


def arrow(kind, number, moment, tid, pid) -> dict:
    return {"ph": kind, "id": number, "pid": pid, "tid": tid, "ts": moment / 1000, "cat": "ac2g",
            "name": "ac2g"}  # fmt: skip


def steps(count: int) -> Iterator[dict]:
    """A training loop: each step 4 layers, a launch each, and a copy; 15,000 ns a step."""
    yield {
        "ph": "M",
        "name": "process_name",
        "pid": PID,
        "tid": 0,
        "ts": 0,
        "args": {"name": "python"},
    }
    for n in range(count):
        at = n * 15_000
        yield slice_(
            "user_annotation",
            f"ProfilerStep#{n}",
            at,
            at + 14_000,
            **{"External id": 9 * n + 1},
        )
        yield slice_(
            "python_function", "train.py(12): step", at + 100, at + 13_900, **{"Python id": 1}
        )
        for layer in range(4):
            begin, number = at + 200 + layer * 3000, 9 * n + layer + 2
            op = {"External id": number, "Input Dims": [[64, 1024], [1024, 1024]], "Ev Idx": number}
            yield slice_("cpu_op", f"aten::linear_{layer}", begin, begin + 2500, **op)
            launch = {"External id": number, "cbid": 211, "correlation": number}
            yield slice_("cuda_runtime", "cudaLaunchKernel", begin + 100, begin + 700, **launch)
            yield arrow("s", number, begin + 100, PID, PID)
            yield arrow("f", number, begin + 900, 7, 0)
            yield kernel(f"void layer_{layer}<float, {layer}>(float*, int)", begin + 900,
                         begin + 2900, number, number)  # fmt: skip
        number = 9 * n + 8
        yield slice_(
            "cuda_runtime", "cudaMemcpyAsync", at + 12_500, at + 12_900, correlation=number
        )
        yield slice_("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", at + 13_000, at + 13_500, 7, 0,
                     device=0, context=1, stream=7, correlation=number, bytes=4096)  # fmt: skip


def written(path: Path, events, header=HEADER, tail: str = "\n]}") -> Path:
    """A trace file; `.gz` is packed."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps(header)[:-1] + ', "traceEvents": [\n')
        for number, event in enumerate(events):
            file.write((",\n" if number else "") + json.dumps(event, indent=2))
        file.write(tail)
    return path
