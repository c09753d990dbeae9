"""Read the plain-Python engine's part, a record whose content `engine_part.py` describes."""

from __future__ import annotations

from typing import Any

import numpy as np

from taupy.errors import FormatError
from taupy.record.part_data import ENDED, RUNNING, Part, PartThread, Routine, Sampled
from taupy.state.shape import fits
from taupy.state.values import loads

VERSION = 3
_GROUPS = {"c": "PYTHON_C", "python": "PYTHON"}
_COLUMN = list[int]
_EVENT = tuple[str, str, int | None, int, float, float, float, float]
_FIELDS: dict[str, Any] = {
    "pid": int,
    "ppid": int,
    "process_start": int,
    "forked": bool,
    "helper": bool,
    "state": str,
    "started_at": float,
    "start_ns": int,
    "end_ns": int,
    "exit_status": int | None,
    "node": int | None,
    "metadata": dict[str, str],
    "health": dict[str, str],
}
_THREAD_COLUMNS = ("routine", "parent", "calls", "resumes", "inclusive_ns")
_ROUTINES: dict[str, Any] = {
    "name": list[str],
    "file": list[str],
    "line": _COLUMN,
    "kind": list[str],
    "group": list[str],
}
_THREAD: dict[str, Any] = {
    "native_id": int,
    "name": str,
    "cpu_ns": int,
    "routine": _COLUMN,
    "parent": _COLUMN,
    "calls": _COLUMN,
    "resumes": _COLUMN,
    "inclusive_ns": _COLUMN,
    "open": _COLUMN,
    "entered_ns": _COLUMN,
    "events": list[_EVENT],
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
        forked=values["forked"],
        started_at=values["started_at"],
        start_ns=values["start_ns"],
        end_ns=values["end_ns"],
        exit_status=values["exit_status"],
        routines=_routines(name, values["routines"]),
        threads=threads,
        metadata=values["metadata"],
        health=values["health"],
        node=values["node"],
    )


def peek(name: str, data: bytes) -> tuple[int, int, bool, bool]:
    """Like `host_part.peek_process`."""
    values = _loaded(name, data)
    closed = values["state"] != "running"
    return values["pid"], values["process_start"], closed, values["helper"]


def _loaded(name: str, data: bytes) -> dict[str, Any]:
    values = loads(data)
    if not isinstance(values, dict) or values.get("format") != "taupy-part":
        raise FormatError(f"{name} is not a part of a run")
    if values.get("version") != VERSION:
        raise FormatError(f"{name} is a part of another version of taupy")
    _check(name, values, _FIELDS)
    if not isinstance(values.get("threads"), list):
        raise FormatError(f"{name} is damaged: it has no threads")
    return values


def _check(name: str, values: object, hints: dict[str, Any]) -> None:
    for field, hint in hints.items():
        if not isinstance(values, dict) or not fits(values.get(field), hint):
            raise FormatError(f"{name} is damaged: its {field} is invalid")


def _routines(name: str, columns: Any) -> list[Routine]:
    _check(name, columns, {**_ROUTINES, "throttled": _COLUMN})
    throttled = set(columns["throttled"])
    rows = zip(*(columns[field] for field in _ROUTINES), strict=True)
    return [
        Routine(routine, file, line, kind, group or _GROUPS.get(kind, "USER"), number in throttled)
        for number, (routine, file, line, kind, group) in enumerate(rows)
    ]


def _thread(name: str, item: Any) -> PartThread:
    _check(name, item, _THREAD)
    columns: Any = (np.array(item[name], "i8") for name in _THREAD_COLUMNS)
    thread = PartThread(
        item["native_id"],
        item["name"],
        item["cpu_ns"],
        *columns,
    )
    thread.open = [*zip(item["open"], item["entered_ns"], strict=True)][::-1]
    for event, unit, row, count, low, high, mean, squares in item["events"]:
        thread.samples.append(Sampled(event, unit, row, count, low, high, mean * count, squares))
    return thread
