"""Show once where each thread of a running Python program is: its routines and lines.

    taupy dump 4711
    taupy dump $(pgrep -f train.py)

The program is not stopped. Which programs can be read: docs/lines.md.
"""

from __future__ import annotations

import argparse
from contextlib import suppress

from taupy.commands import bar
from taupy.commands.attach import descendants
from taupy.pprof import terminal
from taupy.record.line_table import position_at, positions
from taupy.state.lines import STATES
from taupy.watch.foreign import Unreadable, interpreter_of

_SAID = {
    "cpu": "computes", "gil": "waits for the GIL", "lock": "waits for a lock", "wait": "waits",
    "disk": "waits for a disk", "runnable": "waits for a processor",
    "active": "runs or waits for a processor",
}  # fmt: skip
_TRIES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pid", type=int, metavar="PID", help="id of the process")


def run(args: argparse.Namespace) -> int:
    _show(args.pid)
    for pid in descendants(args.pid):
        with suppress(Unreadable):  # it runs no Python
            _show(pid)
    return 0


def _show(pid: int) -> None:
    with bar.shown(f"looking at process {pid}"):
        text = _stacks(pid)
    terminal.write(text)


def _stacks(pid: int) -> str:
    interpreter = interpreter_of(pid)
    lines = [f"process {pid}"]
    for native_id, state in interpreter.threads().items():
        with suppress(ProcessLookupError, ValueError):
            thread = interpreter.thread(native_id, state)
            does = _SAID[STATES[thread.does(0)]]
            lines.append(f"  thread {thread.native_id} {thread.name()}: {does}")
            frames = next(filter(None, (thread.look() for _ in range(_TRIES))), None)
            if frames is None:
                lines.append("    no Python, or its frames changed too quickly")
            for frame in frames or ():
                units = positions(frame.table, frame.first_line)
                at = position_at(units, frame.instruction)
                line = frame.first_line if at is None else at.line
                lines.append(f"    {frame.name} ({frame.file}:{line})")
    interpreter.close()
    return "".join(f"{line}\n" for line in lines)
