"""Build profiles from threads' rows, events and metadata, for all of TAU's formats."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from taupy.formats.tau import names as tau_names
from taupy.formats.tau.names import ROOT_NAMES
from taupy.formats.tau.rows import Rows
from taupy.formats.tau.text import Event
from taupy.formats.tau.tree import Places, TauTimers, call_tree
from taupy.model.profile import TIME, Metric, Profile, Thread, ThreadProfile, UserEvent

CONTEXT = " : "
_GPU_GROUPS = {"GPU_KERNEL", "GPU_COPY", "GPU_SYNC", "GPU_NO_OWNER"}

# Metadata of threads that taupy's own export writes and its reader understands.
THREAD_NAME = "taupy.thread.name"
THREAD_ID = "taupy.thread.id"
THREAD_COUNT = "taupy.thread.count"
"""Of threads that were added up, which is followed by the shortest and longest time of one [ns]."""
METRIC = "taupy.metric"
DURATION = "taupy.duration_ns"
APPLICATION = "taupy.application"
EXPERIMENT = "taupy.experiment"
_OF_TRIAL = (DURATION, APPLICATION, EXPERIMENT)

CALLPATHS = "taupy.health.callpaths"
_CUT_NOTE = (
    "the file does not have all callers (TAU_CALLPATH, TAU_CALLPATH_DEPTH): "
    f"such routines are listed under {tau_names.CUT.name}"
)

Place = tuple[int, int, int]


def thread_profile(
    place: Place,
    rows: Rows,
    events: Sequence[Event],
    metadata: dict[str, str],
    timers: TauTimers,
) -> ThreadProfile:
    """Build one thread. Removes the thread's own name, id and count from `metadata`."""
    stream = _is_stream(rows)
    tree, places = call_tree(rows, timers, stream=stream)
    native_id = _whole(metadata.pop(THREAD_ID, ""))
    several = [_whole(word) for word in metadata.pop(THREAD_COUNT, "").split()]
    thread = Thread(
        *place,
        kind="stream" if stream else "host",
        name=metadata.pop(THREAD_NAME, ""),
        native_id=native_id or 0,
    )
    if len(several) == 3 and None not in several and (several[0] or 0) > 1:
        count, least_ns, most_ns = several
        thread = replace(thread, count=count or 1, least_ns=least_ns, most_ns=most_ns)
    return ThreadProfile(thread, tree, _user_events(events, places))


def _is_stream(rows: Rows) -> bool:
    """Whether all routines of the thread, except the root, are GPU work."""
    groups = [
        set(tau_names.our_groups(flat.groups))
        for id, flat in rows.flat.items()
        if rows.names[id] not in ROOT_NAMES
    ]
    return bool(groups) and all(group & _GPU_GROUPS for group in groups)


def _user_events(events: Sequence[Event], places: Places) -> list[UserEvent]:
    """Events with their call paths: `Event : A => B` belongs to A => B if there is such a path.

    TAU also writes the event's totals over all paths. Samples beyond those with paths were taken
    without a path. If the events with paths have more samples than the total, all keep TAU's names.
    """
    together = _added_up(events)
    with_path: dict[str, list[tuple[Event, int]]] = {}
    for event in together.values():
        if (context := _context(event.name, together, places)) is not None:
            with_path.setdefault(context[0], []).append((event, context[1]))
    parts: list[tuple[Event, int | None]] = []
    linked: set[str] = set()
    for name, contexts in with_path.items():
        total = together.get(name)
        if total is not None and sum(event.count for event, _ in contexts) > total.count:
            continue
        parts += [(event._replace(name=name), row) for event, row in contexts]
        linked |= {name, *(event.name for event, _ in contexts)}
        if total is not None and (rest := _rest(total, [event for event, _ in contexts])):
            parts.append((rest, None))
    parts += [(event, None) for event in together.values() if event.name not in linked]
    return [_user_event(event, row) for event, row in parts]


def _user_event(event: Event, row: int | None) -> UserEvent:
    name, unit = tau_names.event(event.name)
    return UserEvent(
        name,
        unit,
        count=event.count,
        minimum=event.minimum,
        maximum=event.maximum,
        mean=event.mean,
        sum_squares=event.sum_squares,
        row=row,
    )


def _rest(total: Event, parts: Sequence[Event]) -> Event | None:
    """The samples of `total` that are in none of its parts; unknown minimum and maximum are NaN."""
    count = total.count - sum(part.count for part in parts)
    if not count:
        return None
    mean = (total.mean * total.count - sum(part.mean * part.count for part in parts)) / count
    squares = max(0.0, total.sum_squares - sum(part.sum_squares for part in parts))
    if count == 1:
        return Event(
            name=total.name, count=1, maximum=mean, minimum=mean, mean=mean, sum_squares=squares
        )
    above = all(part.maximum < total.maximum for part in parts)
    below = all(part.minimum > total.minimum for part in parts)
    highest = total.maximum if above else math.nan
    lowest = total.minimum if below else math.nan
    return Event(
        name=total.name,
        count=count,
        maximum=highest,
        minimum=lowest,
        mean=mean,
        sum_squares=squares,
    )


def _context(name: str, events: dict[str, Event], places: Places) -> tuple[str, int] | None:
    """The name of a context event without its path, and the path's tree row; None for others."""
    without_total = None
    for colon in re.finditer(CONTEXT, name):
        event, path = name[: colon.start()], name[colon.end() :]
        if event in events or without_total is None:
            row = places.find(path)
            if row is not None and event in events:
                return event, row
            if row is not None:
                without_total = event, row
    return without_total


def _added_up(events: Iterable[Event]) -> dict[str, Event]:
    """Events by name; duplicates add up, as in ParaProf."""
    sums: dict[str, Event] = {}
    for event in events:
        other = sums.get(event.name)
        if other is not None:
            count = event.count + other.count
            mean = event.mean * event.count + other.mean * other.count
            event = Event(
                name=event.name,
                count=count,
                maximum=max(event.maximum, other.maximum),
                minimum=min(event.minimum, other.minimum),
                mean=mean / count if count else 0.0,
                sum_squares=event.sum_squares + other.sum_squares,
            )
        sums[event.name] = event
    return sums


def profile(
    source: Path,
    metrics: Iterable[Metric],
    timers: TauTimers,
    threads: list[ThreadProfile],
    metadata: dict[str, str],
    node_metadata: dict[int, dict[str, str]],
) -> Profile:
    """The profile of some nodes; application and times come from the metadata."""
    facts = {**next(iter(node_metadata.values()), {}), **metadata}
    duration = _whole(facts.get(DURATION, ""))
    largest = [
        max(thread.tree.inclusive[TIME.name], default=0)
        for thread in threads
        if TIME.name in thread.tree.inclusive
    ]
    longest = max((int(value) for value in largest if value == value), default=0)
    return Profile(
        uuid="",
        application=application(facts, source),
        experiment=facts.get(EXPERIMENT) or "default",
        started_at=_started_at(facts, source),
        duration_ns=longest if duration is None else duration,
        timers=timers.timers,
        threads=threads,
        metrics=sorted(set(metrics), key=lambda metric: metric.name),
        metadata={
            **{name: value for name, value in metadata.items() if name not in _OF_TRIAL},
            **({CALLPATHS: _CUT_NOTE} if tau_names.CUT in timers.timers else {}),
        },
        node_metadata=node_metadata,
    )


def application(facts: dict[str, str], source: Path) -> str:
    """The program's name: the script's if Python ran it, else the executable's, else the file's."""
    if facts.get(APPLICATION):
        return facts[APPLICATION]
    command = facts.get("Command Line", "").split()
    for marker in ("tau_python_wrapper", "tau.python_wrapper"):
        if marker in command[:-1]:
            script = command[command.index(marker) + 1]
            return Path(script).name.removesuffix(".py") or script
    if facts.get("Executable", "").strip():
        return Path(facts["Executable"].strip()).name
    name = source.absolute().name
    for suffix in (".ppk", ".db", ".gz"):
        name = name.removesuffix(suffix)
    return name or "tau"


def _started_at(facts: dict[str, str], source: Path) -> float:
    """Start in seconds since the epoch: from the metadata, else the file's modification time."""
    stamp = _whole(facts.get("Starting Timestamp", ""))
    if stamp is not None:
        return stamp / 1e6
    for name in ("UTC Time", "Local Time"):
        try:
            return datetime.fromisoformat(facts.get(name, "")).timestamp()
        except (ValueError, OverflowError):
            pass
    return source.stat().st_mtime


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def separated(
    headers: dict[Place, dict[str, str]],
) -> tuple[dict[str, str], dict[int, dict[str, str]]]:
    """Threads' metadata, separated into that of the whole trial and that of its nodes.

    Entries that are equal on all threads are the trial's. A node has those of its first thread; a
    different value of another thread is named after its place: `NAME [0.0.1]`.
    """
    common: dict[str, str] | None = None
    for facts in headers.values():
        if common is None:
            common = {k: v for k, v in facts.items() if k not in (THREAD_NAME, THREAD_ID)}
        else:
            common = {name: value for name, value in common.items() if facts.get(name) == value}
    common = common or {}
    nodes: dict[int, dict[str, str]] = {}
    for place in sorted(headers):
        node = nodes.setdefault(place[0], {})
        for name, value in headers[place].items():
            if name in common or name in (THREAD_NAME, THREAD_ID):
                continue
            if node.setdefault(name, value) != value:
                node["{} [{}.{}.{}]".format(name, *place)] = value
    return common, nodes
