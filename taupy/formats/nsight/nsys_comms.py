"""Collectives in exports of Nsight Systems: NCCL's kernels.

The file contains neither their groups nor their sequence numbers nor their bytes. Therefore each of
a process's streams with such kernels is considered a group, and its kernels are numbered in order.
"""

from __future__ import annotations

import re
from typing import Any, Final

from taupy.formats.nsight.nsys_host import Hosts
from taupy.model.collective_calls import Call, operation, thread_of
from taupy.model.collectives import THREAD_NAME, UNKNOWN_BYTES
from taupy.model.profile import Thread, ThreadProfile
from taupy.model.streams import Owner

_KERNEL: Final = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")
_Key = tuple[Any, ...]
"""A kernel's calling code, process, device, CUDA context, stream and configuration."""


class Comms:
    """NCCL's kernels, while a file is read."""

    def __init__(self) -> None:
        self.kernels: dict[_Key, str] = {}
        self._times: dict[_Key, list[tuple[int, int]]] = {}

    def look_at(self, key: _Key, name: str) -> None:
        """Note a kernel if it is a collective."""
        match = _KERNEL.match(name)
        if match and (what := operation("nccl", match[1])):
            self.kernels[key] = what

    def add(self, key: _Key, start: int, end: int) -> None:
        """Add the times of a noted kernel."""
        if end >= start > 0:
            self._times.setdefault(key, []).append((start, end))

    def threads(
        self, hosts: Hosts, threads: list[ThreadProfile], base_ns: int, notes: list[str]
    ) -> list[ThreadProfile]:
        """A thread of collectives for each process that had any."""
        calls: dict[int, list[Call]] = {}
        for key, times in self._times.items():
            code, process, _, _, stream = key[:5]
            calls.setdefault(process, []).extend(
                Call(
                    communicator=f"stream {stream}",
                    ranks="",
                    size=0,
                    number=None,
                    operation=self.kernels[key],
                    bytes=UNKNOWN_BYTES,
                    asked_ns=base_ns + start,
                    begun_ns=base_ns + start,
                    ended_ns=base_ns + end,
                    code=code,
                )
                for start, end in times
            )
        result = []
        for process, calls_of_process in sorted(calls.items()):
            node = hosts.node(process)
            mine = [thread for thread in threads if thread.thread.node == node]
            if mine:
                number = 1 + max(thread.thread.thread for thread in mine)
                place = Thread(node, 0, number, "host", THREAD_NAME)
                top = Owner(mine[0].tree, 0)
                result.append(thread_of(calls_of_process, place, hosts.timers, hosts.owner, top))
        if result:
            notes.append("collectives are NCCL's kernels, numbered by stream: groups and bytes of "
                         "them are not in the file")  # fmt: skip
        return result
