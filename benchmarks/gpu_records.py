"""What the GPU collector costs per record and per CUDA API call. Needs no GPU.

    python benchmarks/gpu_records.py [--records 10000000]

The compiled collector receives calls and records of kernels and copies in the way that CUPTI
delivers them: calls through its callback, records in buffers of 2 MiB through its decoder (taupy's,
and NVIDIA's if a libcupti is installed whose decoder works without a driver). CUPTI's own work is
not included: that needs a GPU (`make gpu-check`). Times are CPU times.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUFFER = 2 << 20
KERNELS = 50  # distinct ones
CALLPATHS = 200
STREAMS = 4
WORKLOADS = ("kernels", "kernels and copies", "with a trace")


def kernel_record(size: int, name: int, number: int) -> bytes:
    """The relevant fields of CUpti_ActivityKernel10."""
    record = bytearray(size)
    struct.pack_into("<I", record, 0, 10)
    struct.pack_into("<QQ", record, 16, 10_000 + number * 100, 10_050 + number * 100)
    struct.pack_into("<III", record, 40, 0, 1, 7 + number % STREAMS)
    struct.pack_into("<6i", record, 52, 108, 1, 1, 256, 1, 1)
    struct.pack_into("<I", record, 92, number)
    struct.pack_into("<Q", record, 104, name)
    return bytes(record)


def copy_record(size: int, number: int) -> bytes:
    """CUpti_ActivityMemcpy6."""
    record = bytearray(size)
    struct.pack_into("<IBBBB", record, 0, 1, 1, 1, 3, 1)
    struct.pack_into("<QQQ", record, 8, 4096, 10_000 + number * 100, 10_050 + number * 100)
    struct.pack_into("<IIII", record, 32, 0, 1, 7 + number % STREAMS, number)
    return bytes(record)


def measure(workload: str, library: str, total: int) -> None:
    """Measure in this process: the collector's state is global, so each workload needs its own."""
    from taupy._native import engine

    assert engine.__file__ is not None
    collector = ctypes.CDLL(engine.__file__.replace("/engine.", "/cupti."))
    feed = collector.taupy_gpu_replay_records
    feed.argtypes, feed.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_size_t
    calls = collector.taupy_gpu_replay_calls
    calls.argtypes = [ctypes.c_int, *[ctypes.c_uint32] * 3, *[ctypes.c_uint64] * 2]
    with tempfile.TemporaryDirectory() as folder:
        path = None if library == "-" else library.encode()
        trace = int(workload == "with a trace")
        assert collector.taupy_gpu_replay_begin(folder.encode(), path, 1300, trace) == 0
        names = [
            ctypes.create_string_buffer(
                b"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE%d" % i
            )
            for i in range(KERNELS)
        ]
        records, at = [], 0
        while sum(map(len, records)) < BUFFER - 400:
            at += 1
            records.append(kernel_record(216, ctypes.addressof(names[at % KERNELS]), at))
            if workload != "kernels":
                at += 1
                records.append(copy_record(96, at))
        data = b"".join(records)
        feed(data, len(data))  # the first buffer: allocates memory and tables
        start = time.thread_time()
        calls_made = 0
        for first in range(1, at + 1, at // CALLPATHS):
            place = 0x7F0000000000 + first * 64
            calls(2, 211, first, at // CALLPATHS, place, place)
            calls_made += at // CALLPATHS
        a_call = (time.thread_time() - start) / calls_made * 1e9
        feed(data, len(data))  # now the call paths of its records are known
        done, spent = 0, 0.0
        while done < total:
            start = time.thread_time()
            feed(data, len(data))
            spent += time.thread_time() - start
            done += len(records)
        collector.taupy_gpu_replay_end()
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        print(
            f"{workload:20} {'NVIDIA' if path else 'ours':8} {done:12,} {spent / done * 1e9:9.1f} "
            f"{a_call:9.1f} {size / 2**20:9.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        measure(*arguments.worker, arguments.records)
        return
    from taupy.collectors.cupti_paths import libraries

    print(f"{'':20} {'decoder':8} {'records':>12} {'ns/record':>9} {'ns/call':>9} {'MiB':>9}")
    installed = [path for path in libraries(sys.path) if os.path.exists(path)][:1]
    for workload in WORKLOADS:
        for library in ["-", *installed]:
            subprocess.run(
                [
                    *(sys.executable, __file__, "--worker", workload, library),
                    *("--records", str(arguments.records)),
                ],
                check=False,
            )
    print("goal: < 100 ns/record; a call is its beginning and its end, in the launching thread")


if __name__ == "__main__":
    main()
