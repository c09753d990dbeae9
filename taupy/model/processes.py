"""Processes of this machine, told apart even when a number is used again."""

from __future__ import annotations


def process_start(pid: int) -> int:
    """Start time of a living process in clock ticks since boot, 0 if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return 0
    fields = text[text.rindex(")") + 2 :].split()
    return 0 if fields[0] in ("Z", "X") else int(fields[19])


def is_alive(pid: int, start: int) -> bool:
    """Is the process that had `pid` and began at `start` still running here?"""
    return start != 0 and process_start(pid) == start
