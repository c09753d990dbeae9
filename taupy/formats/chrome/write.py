"""Write a trial as Chrome trace JSON, for chrome://tracing, Perfetto and our own reader.

Each node is a process; each GPU of a node is another process, whose threads are its streams. A
kernel's stack frame (`sf`, `stackFrames`) names the code that launched it; `correlation` links it
to the call, if that was kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from taupy.formats.tracks import (
    Counter,
    Slice,
    Track,
    Tracks,
    frames,
    launches_by_row,
    process_name,
    tracks,
)
from taupy.model.gpu import Launch
from taupy.model.profile import Profile, ThreadProfile
from taupy.model.progress import Progress

_CATEGORIES: Final = {
    "kernel": "kernel",
    "copy": "gpu_memcpy",
    "memset": "gpu_memset",
    "sync": "cuda_sync",
    "api": "cuda_runtime",
    "range": "user_annotation",
    "call": "python_function",
}


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    """Write the trace; return descriptions of what it cannot hold."""
    laid = tracks(profile)
    progress.begin(target.name, len(laid.tracks))
    stacks = _Stacks(profile)
    base = 0 if laid.laid_out else _base(profile)
    with open(target, "w", encoding="utf-8") as file:
        header: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [_properties(device) for device in profile.devices],
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": int(profile.started_at * 1e9) if laid.laid_out else base,
            "otherData": {"application": profile.application, "experiment": profile.experiment,
                          "trial": profile.name or "", "uuid": profile.uuid,
                          "laid out": laid.laid_out, **profile.metadata},
        }  # fmt: skip
        file.write(json.dumps(header)[:-1] + ',\n"traceEvents": [')
        comma = "\n"
        for event in _names(profile, laid):
            file.write(comma + json.dumps(event))
            comma = ",\n"
        for track in laid.tracks:
            for line in _slices(profile, track, laid.tracks, base, stacks):
                file.write(comma + line)
                comma = ",\n"
            progress.advance()
        offset = int(profile.started_at * 1e9) if laid.laid_out else base
        for counter in laid.counters:
            for line in _counter(profile, counter, offset):
                file.write(comma + line)
                comma = ",\n"
        file.write('\n],\n"stackFrames": ' + json.dumps(stacks.frames) + "\n}\n")
    return laid.lost


def _base(profile: Profile) -> int:
    """Time 0 of timestamps: the second in which the trial began, since small numbers stay exact."""
    return int(profile.started_at) * 1_000_000_000


class _Stacks:
    """The stack frames that slices need, by number."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._numbers: dict[tuple[int, int], int] = {}
        self._rows: dict[tuple[int, int], int | None] = {}
        self.frames: dict[str, dict[str, Any]] = {}

    def of(self, measured: ThreadProfile, row: int) -> int | None:
        """The stack frame of a row's caller; None for the root's children."""
        key = (id(measured), row)
        if key not in self._rows:
            above: int | None = None
            for at in frames(measured, row):
                above = self._frame(above, measured.tree.timer[at])
            self._rows[key] = above
        return self._rows[key]

    def _frame(self, above: int | None, timer: int) -> int:
        key = (-1 if above is None else above, timer)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers) + 1
            named = self._profile.timers[timer]
            frame: dict[str, Any] = {"name": named.full_name, "category": ",".join(named.groups)}
            if above is not None:
                frame["parent"] = str(above)
            self.frames[str(number)] = frame
        return number


def _names(profile: Profile, laid: Tracks) -> Iterator[dict[str, Any]]:
    named: set[int] = set()
    for track in laid.tracks:
        process, thread = _place(profile, track)
        if process not in named:
            named.add(process)
            yield from _process_names(profile, process, track.thread.node, track.thread.context)
        yield _meta("thread_name", process, thread, name=track.title())
        order = track.thread.thread * 100 + track.lane
        yield _meta("thread_sort_index", process, thread, sort_index=order)

    for counter in laid.counters:
        process = _process(profile, counter.node, counter.context)
        if process not in named:
            named.add(process)
            yield from _process_names(profile, process, counter.node, counter.context)


def _process_names(
    profile: Profile, process: int, node: int, context: int
) -> Iterator[dict[str, Any]]:
    name = process_name(profile, node)
    label = f"GPU {context - 1}" if context else "CPU"
    for device in profile.devices:
        if context and (device.node, device.ordinal + 1) == (node, context):
            name = device.name
    yield _meta("process_name", process, 0, name=name)
    yield _meta("process_labels", process, 0, labels=label)
    yield _meta("process_sort_index", process, 0, sort_index=node * 1000 + context)


def _counter(profile: Profile, counter: Counter, base: int) -> Iterator[str]:
    """Counter events; each value is valid from its time on."""
    named = {
        "ph": "C",
        "name": f"{counter.title} [{counter.samples.unit}]",
        "pid": _process(profile, counter.node, counter.context),
        "tid": 0,
    }
    head = json.dumps(named)[:-1]
    for moment, value in counter.values():
        yield f'{head}, "ts": {_micro(moment - base)}, "args": {{"value": {json.dumps(value)}}}}}'


def _meta(what: str, process: int, thread: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "ts": 0, "args": args}


def _place(profile: Profile, track: Track) -> tuple[int, int]:
    """Process and thread ids of a track: real ones on a host, artificial ones on a GPU."""
    at = track.thread
    process = _process(profile, at.node, at.context)
    if at.context:
        return process, at.thread * 100 + track.lane
    natives = [
        thread.thread.native_id
        for thread in profile.threads
        if thread.thread.node == at.node and not thread.thread.context
    ]
    if at.native_id and not track.lane and natives.count(at.native_id) == 1:
        return process, at.native_id
    return process, 1_000_000_000 + at.thread * 100 + track.lane


def _process(profile: Profile, node: int, context: int) -> int:
    if context:
        return node * 1000 + context - 1
    pids = [facts.get("PID", "") for facts in profile.node_metadata.values()]
    pid = profile.node_metadata.get(node, {}).get("PID", "")
    real = pid.isdigit() and len(pid) < 10 and pids.count(pid) == 1 and int(pid) >= 100_000
    return int(pid) if real else 1_000_000_000 + node


def _slices(
    profile: Profile, track: Track, all_tracks: list[Track], base: int, stacks: _Stacks
) -> Iterator[str]:
    process, thread = _place(profile, track)
    measured = track.measured
    launches = launches_by_row(measured)
    arrows = any(not other.thread.context for other in all_tracks)
    heads: dict[tuple[int, str], tuple[str, dict[str, Any]]] = {}
    for activity in track.slices:
        key = (activity.row, activity.kind)
        head = heads.get(key)
        if head is None:
            timer = profile.timers[measured.tree.timer[activity.row]]
            category = _CATEGORIES[activity.kind]
            host = activity.kind in ("range", "call") and "PHASE" not in timer.groups
            named = {
                "ph": "X",
                "cat": ",".join(timer.groups) if host else category,
                "name": timer.full_name,
                "pid": process,
                "tid": thread,
            }
            frame = stacks.of(measured, activity.row) if activity.calls is None else None
            if frame is not None:
                named["sf"] = frame
            args = _config(launches.get(activity.row)) if activity.kind == "kernel" else {}
            if track.thread.context:
                args = {"device": track.thread.context - 1, "stream": _stream(track), **args}
            head = heads[key] = (json.dumps(named)[:-1], args)
        yield _line(head[0], head[1], activity, base)
        if activity.correlation is not None and arrows:
            kind = "f" if track.thread.context else "s"
            arrow = {"ph": kind, "id": activity.correlation, "pid": process, "tid": thread}
            named = {**arrow, "cat": "ac2g", "name": "ac2g", "bp": "e"}
            yield json.dumps(named)[:-1] + f', "ts": {_micro(activity.start_ns - base)}}}'


def _line(head: str, args: dict[str, Any], activity: Slice, base: int) -> str:
    more = dict(args)
    if activity.correlation is not None:
        more["correlation"] = activity.correlation
    if activity.bytes is not None:
        more["bytes"] = activity.bytes
    if activity.calls is not None:
        more["calls"] = activity.calls
    took_ns = max(0, activity.end_ns - activity.start_ns)
    times = f'"ts": {_micro(activity.start_ns - base)}, "dur": {_micro(took_ns)}'
    return f'{head}, {times}, "args": {json.dumps(more)}}}'


def _stream(track: Track) -> int:
    at = track.thread
    if at.native_id and not track.lane:
        return at.native_id
    return at.thread if not track.lane else 1_000_000 + at.thread * 100 + track.lane


def _micro(nanoseconds: int) -> str:
    """Nanoseconds as microseconds with three decimal places, without rounding."""
    sign = "-" if nanoseconds < 0 else ""
    whole, part = divmod(abs(nanoseconds), 1000)
    return f"{sign}{whole}.{part:03}"


def _config(launch: Launch | None) -> dict[str, Any]:
    if launch is None:
        return {}
    grid, block, registers, static, dynamic, _, occupancy, _ = launch.configuration
    config = {
        "grid": grid and list(grid),
        "block": block and list(block),
        "registers per thread": registers,
        "shared memory": None if dynamic is None else dynamic + (static or 0),
        "est. achieved occupancy %": None if occupancy is None else occupancy * 100,
    }
    return {name: value for name, value in config.items() if value is not None}


def _properties(device: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": device.ordinal, "name": device.name, "uuid": device.uuid}
    major, _, minor = device.compute_capability.partition(".")
    if major.isdigit() and minor.isdigit():
        facts["computeMajor"], facts["computeMinor"] = int(major), int(minor)
    names = {"Multiprocessors": "numSms", "Memory": "totalGlobalMem",
             "Threads per warp": "warpSize"}  # fmt: skip
    for fact in device.facts:
        if fact.name in names:
            facts[names[fact.name]] = fact.value
    return facts
