"""Read the plain-Python engine's part, a record whose content `engine_part.py` describes."""

from __future__ import annotations

from typing import Any

import numpy as np

from taupy.errors import FormatError
from taupy.record.part_data import ENDED, RUNNING, Part, PartThread, Routine
from taupy.state.shape import fits
from taupy.state.values import loads

VERSION = 4
NOT_MEASURED = {
    "no_processes": "child processes, and threads that are not started by the module threading",
    "no_c_functions": "C functions, and what passes after the program's last line",
    "no_api": "timers, phases, user events, metadata and snapshots in code, record_function",
    "no_training": "GPUs, layers, steps, backward passes and collectives",
    "no_values": "where memory grows, CPU time of routines, hardware counters and waiting",
}
"""What the plain engine never measures, by name of the note."""

_LOWER_BOUNDS = (
    "measured by the plain-Python engine: calls, times and call paths of Python routines; signal "
    "handlers and finalizers (__del__, weakref callbacks) that run while it is at work are not "
    "counted, nor what they call: their counts are lower bounds"
)
_MISSED = {
    "audit": "an audit hook of the program refuses what measuring needs: counts are lower bounds",
    "dynamo": "up to Python 3.11, torch.compile looks at the plain engine's functions, too, and "
    "counts them among the program's",
    "forks": "forked processes that were not measured: {}",
    "greenlets": "the program imported greenlet: call paths and times of greenlets are wrong",
    "part": "the profile could not always be written during the run",
    "profile_hook": "the profile function was replaced or removed, by the program, another "
    "profiler, the recursion limit or an exception in a signal handler: what ran afterwards is "
    "missing",
    "recursion": "events at the recursion limit that were not counted: {}",
    "threads": "missing threads, started without the module threading or while the program had its "
    "own hook in threading.setprofile: {}",
}
_OPTIONS = {
    "c_calls": "--c-calls", "throttle": "--throttle", "metrics": "--cpu-time", "depth": "--depth",
    "max_callpaths": "--max-callpaths",
}  # fmt: skip
_FIELDS: dict[str, Any] = {
    "pid": int,
    "ppid": int,
    "process_start": int,
    "state": str,
    "started_at": float,
    "start_ns": int,
    "end_ns": int,
    "exit_status": int | None,
    "routines": tuple[list[str], list[str], list[int]],
    "unsupported": list[str],
    "missed": dict[str, int],
}
_COLUMNS = ("routine", "parent", "calls", "resumes", "inclusive_ns")
_THREAD: dict[str, Any] = {
    "native_id": int,
    "name": str,
    "cpu_ns": int,
    **dict.fromkeys((*_COLUMNS, "open", "entered_ns"), list[int]),
}


def read(name: str, data: bytes) -> Part | None:
    """Decode a part; None if nothing was recorded in it.

    Raises:
        FormatError: it is not a part.
        ValueError: it is not a record (`values.Damaged`).
    """
    if not data:
        return None
    values = _loaded(name, data)
    threads = [_thread(name, item) for item in values["threads"]]
    for thread in threads[1:]:
        thread.ended = not thread.open
    return Part(
        name=name,
        engine="python",
        pid=values["pid"],
        parent_pid=values["ppid"],
        process_start=values["process_start"],
        state=ENDED if values["state"] == "ended" else RUNNING,
        forked=False,
        started_at=values["started_at"],
        start_ns=values["start_ns"],
        end_ns=values["end_ns"],
        exit_status=values["exit_status"],
        routines=[
            Routine(name, file, line, "python", "PYTHON", False)
            for name, file, line in zip(*values["routines"], strict=True)
        ],
        threads=threads,
        metadata={},
        health=_notes(values["unsupported"], values["missed"]),
    )


def peek(name: str, data: bytes) -> tuple[int, int, bool, bool]:
    """Like `host_part.peek_process`."""
    values = _loaded(name, data)
    return values["pid"], values["process_start"], values["state"] != "running", False


def _notes(unsupported: list[str], missed: dict[str, int]) -> dict[str, str]:
    """What was not measured: always, because of options, and because of what happened."""
    notes = {"plain_engine": _LOWER_BOUNDS}
    notes |= {name: f"not measured: {what}" for name, what in NOT_MEASURED.items()}
    if options := [word for name, word in _OPTIONS.items() if name in unsupported]:
        notes["options"] = f"not measured: {', '.join(options)}"
    return notes | {
        name: text.format(n) for name, text in _MISSED.items() if (n := missed.get(name))
    }


def _loaded(name: str, data: bytes) -> dict[str, Any]:
    values = loads(data)
    if not isinstance(values, dict) or values.get("format") != "taupy-part":
        raise FormatError(f"{name} is not a part of a run")
    if values.get("version") != VERSION:
        raise FormatError(f"{name} is a part of another version of taupy")
    _check(name, values, _FIELDS)
    if not isinstance(values.get("threads"), list) or not values["missed"].keys() <= _MISSED.keys():
        raise FormatError(f"{name} is damaged: it has no threads, or unknown notes")
    return values


def _check(name: str, values: object, hints: dict[str, Any]) -> None:
    for field, hint in hints.items():
        if not isinstance(values, dict) or not fits(values.get(field), hint):
            raise FormatError(f"{name} is damaged: its {field} is invalid")


def _thread(name: str, item: Any) -> PartThread:
    _check(name, item, _THREAD)
    routine, parent, calls, resumes, inclusive = (np.array(item[at], "i8") for at in _COLUMNS)
    return PartThread(
        item["native_id"],
        item["name"],
        item["cpu_ns"],
        routine=routine,
        parent=parent,
        calls=calls,
        resumes=resumes,
        inclusive=inclusive,
        open=[*zip(item["open"], item["entered_ns"], strict=True)][::-1],
    )
