"""Read and write speedscope's JSON, with both of its kinds of profile.

Export writes a *sampled* profile for each thread and metric: each sample is a call path, its weight
the exclusive value; and, for a thread with single activities (`--trace`), an *evented* profile of
them. Import reads both kinds: samples add up to call paths with weights, events to call paths with
calls. The file is read piece by piece, never as a whole.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from typing import IO, Any

from taupy.formats import json_pieces, limits, py_spy
from taupy.formats.capabilities import VALUES
from taupy.formats.json_pieces import Pieces
from taupy.formats.registry import Format
from taupy.formats.stacks import (
    Stacks,
    joined_tree,
    profile_of,
    refuse_depth,
    routine_timer,
    stacked,
    unsummed,
)
from taupy.model.gpu import Activity
from taupy.model.profile import TIME, Metric, Profile, Thread, ThreadProfile, Timer
from taupy.model.progress import Progress
from taupy.model.timers import Timers
from taupy.units import several

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
EXPORTER = "taupy"
_UNITS: dict[str, tuple[Metric, float]] = {
    "nanoseconds": (TIME, 1),
    "microseconds": (TIME, 1e3),
    "milliseconds": (TIME, 1e6),
    "seconds": (TIME, 1e9),
    "bytes": (Metric("bytes", "B"), 1),
    "none": (Metric("samples", "count"), 1),
}
_OUR_UNITS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds",
              "B": "bytes", "bytes": "bytes"}  # fmt: skip
TIMELINE = "timeline"
OURS = "taupy"
"""Our profiles' key with thread and metric; the profiles' names are for people to read."""

_TITLE = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(?: (.*))?", re.ASCII | re.DOTALL)
_WITH_METRIC = re.compile(r"(.*) \(([^()]+)\)", re.DOTALL)


def recognises(path: Path, first_bytes: bytes) -> bool:
    if not first_bytes.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    if SCHEMA.encode() in first_bytes:
        return True
    if b'"profiles"' not in first_bytes and b'"shared"' not in first_bytes:
        return False
    return b'"sampled"' in first_bytes or b'"evented"' in first_bytes or b'"frames"' in first_bytes


# --- reading -----------------------------------------------------------------


class _Profile:
    """One profile of the file; keys may come in any order."""

    def __init__(self) -> None:
        self.kind = ""
        self.name = ""
        self.unit = "none"
        self.ours: object = None
        self.start: float = 0
        self.stacks = Stacks()
        self.rows: array[int] = array("q")  # a sample's path
        self.weights: list[int | float] = []
        self.has_events = False


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    profiles: list[_Profile] = []
    frames: list[tuple[str, str | None, int | None]] = []
    facts: dict[str, str] = {}
    with json_pieces.opened(source, progress) as pieces:
        pieces.expect("start_map", "an object")
        for key in pieces.members():
            if key == "profiles":
                pieces.expect("start_array", "a list of profiles")
                while (event := pieces.next())[0] != "end_array":
                    pieces.is_start(event, "start_map", "a profile")
                    profiles.append(_read_profile(pieces))
            elif key == "shared":
                pieces.expect("start_map", "an object")
                for shared in pieces.members():
                    if shared == "frames":
                        frames = _read_frames(pieces)
                    else:
                        pieces.skip()
            elif key in ("name", "exporter"):
                facts[f"speedscope {key}"] = str(pieces.value() or "")[:1000]
            else:
                pieces.skip()
        if not profiles:
            raise pieces.refusal("contains no profiles")
        exporter = facts.get("speedscope exporter", "")
        profile = _profile_of_threads(source, profiles, frames, pieces, exporter)
    if exporter == EXPORTER and facts.get("speedscope name", "").count("/") >= 2:
        profile.application = facts["speedscope name"].rsplit("/", 2)[0]
    profile.metadata |= {name: value for name, value in facts.items() if value}
    yield profile


def _read_frames(pieces: Pieces) -> list[tuple[str, str | None, int | None]]:
    frames: list[tuple[str, str | None, int | None]] = []
    pieces.expect("start_array", "a list of frames")
    while (event := pieces.next())[0] != "end_array":
        pieces.is_start(event, "start_map", "a frame")
        frame = pieces.rest_of_map()
        name, file, line = frame.get("name"), frame.get("file"), frame.get("line")
        if not isinstance(name, str):
            raise pieces.refusal(f"frame {len(frames)} has no name")
        frames.append((
            name,
            file if isinstance(file, str) and file else None,
            line if isinstance(line, int) else None,
        ))  # fmt: skip
    return frames


def _read_profile(pieces: Pieces) -> _Profile:
    profile = _Profile()
    for key in pieces.members():
        if key == "samples":
            pieces.expect("start_array", "a list of samples")
            while (event := pieces.next())[0] != "end_array":
                pieces.is_start(event, "start_array", "a sample")
                row = 0
                while (frame := pieces.next())[0] != "end_array":
                    row = profile.stacks.below(row, _frame(pieces, frame))
                profile.rows.append(row)
        elif key == "weights":
            pieces.expect("start_array", "a list of weights")
            while (event := pieces.next())[0] != "end_array":
                profile.weights.append(_number(pieces, event))
        elif key == "events":
            _read_events(pieces, profile)
        elif key == "startValue":
            profile.start = _number(pieces, pieces.next())
        elif key in ("type", "name", "unit"):
            value = str(pieces.value())[:1000]
            if key == "type":
                profile.kind = value
            elif key == "name":
                profile.name = value
            else:
                profile.unit = value
        elif key == OURS:
            profile.ours = pieces.value()
        else:
            pieces.skip()
    if profile.unit not in _UNITS:
        raise pieces.refusal(f"a profile with the unknown unit '{profile.unit}'")
    if profile.has_events:
        return profile
    if profile.kind != "sampled":
        raise pieces.refusal(f"a profile of type '{profile.kind}', not sampled or evented")
    if len(profile.rows) != len(profile.weights):
        raise pieces.refusal(f"{len(profile.rows)} samples with {len(profile.weights)} weights")
    for row, weight in zip(profile.rows, profile.weights, strict=True):
        profile.stacks.add(row, weight)
    profile.rows, profile.weights = array("q"), []
    return profile


def _read_events(pieces: Pieces, profile: _Profile) -> None:
    """Read the events that open and close frames; a frame's own time excludes frames in it."""
    profile.has_events = True
    stack: list[int] = [0]
    opened: list[int] = []
    last: float | None = None
    number = 0
    pieces.expect("start_array", "a list of events")
    while (event := pieces.next())[0] != "end_array":
        pieces.is_start(event, "start_map", "an event")
        kind, frame, at = None, None, None
        for key in pieces.members():
            if key == "at":
                at = _number(pieces, pieces.next())
            elif key == "frame":
                frame = _frame(pieces, pieces.next())
            elif key == "type":
                kind = pieces.value()
            else:
                pieces.skip()
        if at is None or frame is None or kind not in ("O", "C"):
            raise pieces.refusal(f"event {number} without type, frame or at")
        if last is not None and at < last:
            raise pieces.refusal(f"event {number} is earlier than the preceding one")
        if len(stack) > 1:
            profile.stacks.add(stack[-1], at - (at if last is None else last))
        last = at
        if kind == "O":
            row = profile.stacks.below(stack[-1], frame)
            profile.stacks.calls[row] += 1
            stack.append(row)
            opened.append(frame)
        elif not opened or opened[-1] != frame:
            raise pieces.refusal(f"event {number} closes a frame other than the innermost open one")
        else:
            stack.pop()
            opened.pop()
        number += 1
    if opened:
        raise pieces.refusal(
            f"{several(len(opened), 'frame')} still open after {several(number, 'event')}"
        )


def _frame(pieces: Pieces, event: tuple[str, Any]) -> int:
    kind, value = event
    if kind != "number" or not isinstance(value, int) or not 0 <= value < limits.SPEEDSCOPE_FRAMES:
        raise pieces.refusal(f"expected a frame's number, not {str(value)[:50]}")
    return value


def _number(pieces: Pieces, event: tuple[str, Any], lowest: float | None = None) -> int | float:
    kind, value = event
    if kind != "number" or not isfinite(value) or abs(value) > 1e300:
        raise pieces.refusal(f"expected a number, not {str(value)[:50]}")
    return value  # type: ignore[no-any-return]


def _profile_of_threads(
    source: Path,
    profiles: list[_Profile],
    frames: list[tuple[str, str | None, int | None]],
    pieces: Pieces,
    exporter: str,
) -> Profile:
    """The file's profiles as threads; taupy's own profiles of one thread are joined."""
    own_places = _all_ours(profiles) if exporter == EXPORTER else None
    of_py_spy = py_spy.Threads() if exporter.partition("@")[0] == py_spy.EXPORTER else None
    timers = Timers()
    places: dict[int, int] = {}
    by_thread: dict[Thread, list[tuple[Metric, Stacks]]] = {}
    for number, profile in enumerate(profiles):
        if max(profile.stacks.timer) >= len(frames):
            frame = max(profile.stacks.timer)
            raise pieces.refusal(f"frame {frame} of {len(frames)} in profile {number}")
        thread = Thread(0, 0, number, name=profile.name)
        if of_py_spy is not None:
            thread = of_py_spy.thread(_take_place(profile, frames))
        for row in range(1, len(profile.stacks.timer)):
            frame = profile.stacks.timer[row]
            if frame not in places:
                name, file, line = frames[frame]
                # py-spy's is the line that was running, not the routine's.
                line = line if of_py_spy is None else None
                places[frame] = timers.place(routine_timer(name, file, line))
            profile.stacks.timer[row] = places[frame]
        metric, factor = _UNITS[profile.unit]
        if own_places is not None:
            thread, own_metric = own_places[number]
            if own_metric is None:  # a timeline: the samples contain its times already
                continue
            metric, factor = (own_metric, 1) if profile.ours is not None else (own_metric, factor)
        if factor != 1:
            profile.stacks.weight = [weight * factor for weight in profile.stacks.weight]
        by_thread.setdefault(thread, []).append((metric, profile.stacks))
    threads = [
        ThreadProfile(thread, joined_tree(parts, timers)) for thread, parts in by_thread.items()
    ]
    metrics = {metric.name: metric for parts in by_thread.values() for metric, _ in parts}
    whole = profile_of(source, timers.timers, threads, list(metrics.values()))
    if of_py_spy is not None:
        whole.node_metadata = of_py_spy.facts
    return whole


def _take_place(
    profile: _Profile, frames: list[tuple[str, str | None, int | None]]
) -> py_spy.Place:
    """Take the frames of py-spy that name process and thread off a profile's stacks."""
    place, stacks = py_spy.Place(), Stacks()
    moved = [0]
    for row in range(1, len(profile.stacks.timer)):
        above = moved[profile.stacks.parent[row]]
        of_frame, used = (
            py_spy.place([frames[profile.stacks.timer[row]][0]]) if not above else (place, 0)
        )
        if used:
            if of_frame.pid:
                place = place._replace(pid=of_frame.pid, command=of_frame.command)
            else:
                place = place._replace(thread=of_frame.thread, name=of_frame.name)
        moved.append(above if used else stacks.below(above, profile.stacks.timer[row]))
    for row, at in enumerate(moved):
        stacks.add(at, profile.stacks.weight[row])
    profile.stacks = stacks
    if named := py_spy.place_of_profile(profile.name):
        place = named._replace(pid=named.pid or place.pid, command=place.command)
    return place


def _all_ours(profiles: list[_Profile]) -> list[tuple[Thread, Metric | None]] | None:
    """Thread and metric of each profile, no metric for a timeline; None if a profile has no
    thread that taupy wrote."""
    titles = {profile.name for profile in profiles}
    threads: dict[tuple[int, int, int], Thread] = {}
    places = []
    for profile in profiles:
        own_place = (
            _from_own_key(profile.ours)
            if profile.ours is not None
            else _from_title(profile, titles)
        )
        if own_place is None:
            return None
        thread, metric = own_place
        place = thread.place
        places.append((threads.setdefault(place, thread), metric))
    return places


def _from_own_key(ours: object) -> tuple[Thread, Metric | None] | None:
    """The contents of taupy's own key in a profile."""
    if not isinstance(ours, dict):
        return None
    node, context, number = (ours.get(name) for name in ("node", "context", "thread"))
    kind, name, metric, unit = (ours.get(k) for k in ("kind", "name", "metric", "unit"))
    for position in (node, context, number):
        if type(position) is not int or not 0 <= position < limits.SPEEDSCOPE_PLACE:
            return None
    if kind not in ("host", "stream") or not isinstance(name, str):
        return None
    thread = Thread(node, context, number, kind, name)  # type: ignore[arg-type]
    if metric is None:
        return thread, None
    if not isinstance(metric, str) or not isinstance(unit, str):
        return None
    return thread, Metric(metric, unit)


def _from_title(profile: _Profile, titles: set[str]) -> tuple[Thread, Metric | None] | None:
    """The same from the name alone, `0.0.1 Thread-1 (work) (bytes)`, for files without the key.

    The last parenthesis names a metric only if it cannot belong to the thread's name: if the
    values are not times, or another profile has the name without the parenthesis.
    """
    metric: Metric | None = _UNITS[profile.unit][0]
    title = profile.name
    if match := _WITH_METRIC.fullmatch(title):
        if profile.has_events and match[2] == TIMELINE:
            title, metric = match[1], None
        elif metric is not None and (metric != TIME or match[1] in titles):
            title, metric = match[1], Metric(match[2], metric.unit)
    place = _TITLE.fullmatch(title)
    if place is None:
        return None
    node, context, number, name = place.groups()
    kind = "stream" if int(context) else "host"
    return Thread(int(node), int(context), int(number), kind, name or ""), metric  # type: ignore[arg-type]


# --- writing -----------------------------------------------------------------


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    refuse_depth(profile)
    lost = unsummed(profile, None, "exclusive")
    units = {metric.name: metric.unit for metric in profile.metrics}
    progress.begin(target.name, sum(len(thread.tree) for thread in profile.threads))
    overlapping = 0
    with open(target, "w", encoding="utf-8", newline="\n") as out:
        name = f"{profile.application}/{profile.experiment}/{profile.name or profile.uuid}"
        out.write(f'{{"$schema": "{SCHEMA}",\n"exporter": "{EXPORTER}",\n"name": {_text(name)},\n')
        out.write(f'"activeProfileIndex": {_shown_first(profile)},\n"shared": {{"frames": [')
        out.writelines(_frames(profile.timers))
        out.write(']},\n"profiles": [')
        between = "\n"
        for measured in profile.threads:
            for metric, exclusive in measured.tree.exclusive.items():
                out.write(between)
                unit = units.get(metric, "count")
                _write_sampled(out, measured, Metric(metric, unit), exclusive)
                between = ",\n"
            activities = sorted(
                measured.activities, key=lambda activity: (activity.start_ns, -activity.end_ns)
            )
            if activities:
                out.write(between)
                overlapping += _write_evented(out, measured, activities)
                between = ",\n"
            progress.advance(len(measured.tree))
        out.write("]}\n")
    if overlapping:
        lost.append(f"{overlapping} activities that overlap others on their stream")
    return lost


def _shown_first(profile: Profile) -> int:
    """The position of the first host thread's timeline; 0, its first totals, if there is none."""
    before = 0
    for measured in profile.threads:
        before += len(measured.tree.exclusive)
        if measured.activities and measured.thread.context == 0:
            return before
        before += bool(measured.activities)
    return 0


def _frames(timers: list[Timer]) -> Iterator[str]:
    between = "\n"
    for timer in timers:
        frame: dict[str, str | int] = {"name": timer.name}
        if timer.file is not None:
            frame["file"] = timer.file
        if timer.file is not None and timer.line is not None:
            frame["line"] = timer.line
        yield between + _json(frame)
        between = ",\n"


def _title(thread: Thread, metric: str) -> str:
    title = f"{thread.node}.{thread.context}.{thread.thread}"
    if thread.name:
        title += f" {thread.name}"
    return title if metric == TIME.name else f"{title} ({metric})"


def _name(thread: Thread, metric: Metric | None) -> str:
    """The profile's name for people, and taupy's own key for our reader."""
    facts: dict[str, str | int] = {"node": thread.node, "context": thread.context,
                                   "thread": thread.thread, "kind": thread.kind,
                                   "name": thread.name}  # fmt: skip
    if metric is not None:
        facts |= {"metric": metric.name, "unit": metric.unit}
    title = _title(thread, TIMELINE if metric is None else metric.name)
    return f'"name": {_text(title)}, "{OURS}": {_json(facts)}'


def _write_sampled(
    out: IO[str], measured: ThreadProfile, metric: Metric, exclusive: array[int]
) -> None:
    tree = measured.tree
    rows = [row for row, value in enumerate(exclusive) if value > 0]
    total: float = sum(exclusive[row] for row in rows)
    out.write(
        f'{{"type": "sampled", {_name(measured.thread, metric)}, '
        f'"unit": "{_OUR_UNITS.get(metric.unit, "none")}", '
        f'"startValue": 0, "endValue": {_json(total)},\n"samples": ['
    )
    between = "\n"
    frames = {timer: str(timer) for timer in dict.fromkeys(tree.timer)}
    for stack, value in zip(stacked(tree, frames), exclusive, strict=True):
        if value > 0:
            out.write(f"{between}[{','.join(stack)}]")
            between = ",\n"
    out.write('],\n"weights": [')
    between = ""
    for row in rows:
        out.write(f"{between}{_json(exclusive[row])}")
        between = ","
    out.write("]}")


def _write_evented(out: IO[str], measured: ThreadProfile, activities: list[Activity]) -> int:
    """Write a timeline; returns the number of activities left out because they do not nest."""
    start = activities[0].start_ns
    end = max(activity.end_ns for activity in activities)
    out.write(
        f'{{"type": "evented", {_name(measured.thread, None)}, '
        f'"unit": "nanoseconds", "startValue": 0, "endValue": {end - start},\n"events": ['
    )
    between = "\n"

    def event(kind: str, frame: int, at: int) -> None:
        nonlocal between
        out.write(f'{between}{{"type": "{kind}", "frame": {frame}, "at": {at - start}}}')
        between = ",\n"

    timer = measured.tree.timer
    opened: list[Activity] = []
    left_out = 0
    for activity in activities:
        while opened and opened[-1].end_ns <= activity.start_ns:
            done = opened.pop()
            event("C", timer[done.row], done.end_ns)
        if activity.end_ns < activity.start_ns or (opened and activity.end_ns > opened[-1].end_ns):
            left_out += 1
            continue
        event("O", timer[activity.row], activity.start_ns)
        opened.append(activity)
    while opened:
        done = opened.pop()
        event("C", timer[done.row], done.end_ns)
    out.write("]}")
    return left_out


_json: Callable[[object], str] = json.JSONEncoder(allow_nan=False).encode


def _text(text: str) -> str:
    return _json(text)


FORMAT = Format(
    name="speedscope",
    title="speedscope",
    suffixes=(".speedscope.json", ".speedscope"),
    recognises=recognises,
    read=read,
    write=write,
    holds=VALUES - {"calls"} | {"call paths", "activities"},
    folds=True,
)
