"""Write Hatchet's own JSON, for `hatchet.GraphFrame.from_json(open(file).read())`.
`hatchet_read.py` reads it.

Each thread is a separate graph, each call path a node. The data frame has the columns calls,
subroutines, thread and, for each metric M, `M` (exclusive) and `M (inc)`. Hatchet has no units:
values are in the metric's unit, so `time` is in nanoseconds; taupy's own key, which Hatchet
ignores, has the units and the names of threads for reading the file back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from taupy.formats.capabilities import VALUES
from taupy.formats.hatchet_read import read, recognises
from taupy.formats.registry import Format
from taupy.model.absent import none_if_nan
from taupy.model.profile import CallTree, Profile, Thread, Timer
from taupy.model.progress import Progress

_ENCODE: Callable[[object], str] = json.JSONEncoder(allow_nan=False).encode


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    progress.begin(target.name, 2 * sum(len(thread.tree) for thread in profile.threads))
    with open(target, "w", encoding="ascii", newline="\n") as out:
        out.writelines(_document(profile, progress))
    units = ", ".join(f"{metric.name} in {metric.unit or 'counts'}" for metric in profile.metrics)
    return [f"units (Hatchet has none); values are: {units}"] if units else []


def _document(profile: Profile, progress: Progress) -> Iterator[str]:
    frames = [_ENCODE(_frame(timer)) for timer in profile.timers]
    yield '{"graph": [\n'
    first = 0
    between = ""
    for measured in profile.threads:
        tree = measured.tree
        for nodes in _graph(tree, frames, first):
            yield between + nodes
            between = ""
        if len(tree):
            between = ",\n"
        first += len(tree)
        progress.advance(len(tree))
    metrics = sorted({name for thread in profile.threads for name in thread.tree.inclusive})
    yield '],\n"dataframe": [\n'
    between = ""
    first = 0
    names = [timer.full_name for timer in profile.timers]
    for measured in profile.threads:
        tree = measured.tree
        place = _place(measured.thread)
        for row, timer in enumerate(tree.timer):
            values: dict[str, object] = {
                "node": first + row,
                "name": names[timer],
                "thread": place,
                "calls": tree.calls[row],
                "subroutines": tree.subroutines[row],
            }
            for metric in metrics:
                for suffix, columns in (("", tree.exclusive), (" (inc)", tree.inclusive)):
                    value = columns[metric][row] if metric in columns else None
                    values[metric + suffix] = none_if_nan(value)
            yield between + _ENCODE(values)
            between = ",\n"
        first += len(tree)
        progress.advance(len(tree))
    yield f'],\n"dataframe_indices": ["node"],\n"exclusive_metrics": {_ENCODE(metrics)},\n'
    yield f'"inclusive_metrics": {_ENCODE([f"{metric} (inc)" for metric in metrics])},\n'
    units = {metric.name: metric.unit for metric in profile.metrics}
    threads = {_place(measured.thread): measured.thread.name for measured in profile.threads}
    ours = {"units": {name: units.get(name, "") for name in metrics}, "threads": threads}
    yield f'"taupy": {_ENCODE(ours)}}}\n'


def _place(thread: Thread) -> str:
    return f"{thread.node}.{thread.context}.{thread.thread}"


def _graph(tree: CallTree, frames: list[str], first: int) -> Iterator[str]:
    if not len(tree):
        return
    children: list[list[int]] = [[] for _ in range(len(tree))]
    for row, above in enumerate(tree.parent):
        if above >= 0:
            children[above].append(first + row)
    yield "{"
    for row, timer in enumerate(tree.timer):
        between = ",\n" if row else ""
        yield f'{between}"{first + row}": {{"data": {frames[timer]}, "children": {children[row]}}}'
    yield "}"


def _frame(timer: Timer) -> dict[str, object]:
    frame: dict[str, object] = {"name": timer.full_name, "type": "function"}
    if timer.file is not None:
        frame |= {"file": timer.file, "line": timer.line}
    return frame


FORMAT = Format(
    name="hatchet",
    title="Hatchet's JSON",
    suffixes=(".hatchet.json",),
    recognises=recognises,
    read=read,
    write=write,
    holds=VALUES | {"call paths"},
    folds=True,
)
