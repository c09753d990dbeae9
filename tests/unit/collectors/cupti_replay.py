"""Feed the collector records from memory, in a process of its own: `python cupti_replay.py`.

    cupti_replay.py COLLECTOR FOLDER LIBRARY|- CUDA TRACE < STEPS

STEPS is a marshalled list: ("calls", domain, id, correlation, count, at, launch) or
("records", bytes, {offset of a name's pointer: name}).
"""

from __future__ import annotations

import ctypes
import marshal
import sys


def main() -> int:
    path, folder, library, cuda, trace = sys.argv[1:6]
    collector = ctypes.CDLL(path)
    u32, u64, size = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t
    collector.taupy_gpu_replay_calls.argtypes = [ctypes.c_int, u32, u32, u32, u64, u64]
    collector.taupy_gpu_replay_records.argtypes = [ctypes.c_char_p, size]
    collector.taupy_gpu_replay_records.restype = size
    result = collector.taupy_gpu_replay_begin(
        folder.encode(), None if library == "-" else library.encode(), int(cuda), int(trace)
    )
    if result != 0:
        return 10 - result
    names: dict[str, ctypes.Array[ctypes.c_char]] = {}
    for step in marshal.load(sys.stdin.buffer):
        if step[0] == "calls":
            collector.taupy_gpu_replay_calls(*step[1:])
            continue
        data = bytearray(step[1])
        for offset, name in step[2].items():
            text = names.setdefault(name, ctypes.create_string_buffer(name.encode()))
            data[offset : offset + 8] = ctypes.addressof(text).to_bytes(8, "little")
        if collector.taupy_gpu_replay_records(bytes(data), len(data)) != len(data):
            return 3
    collector.taupy_gpu_replay_end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
