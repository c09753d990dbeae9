"""Write a whole profile as JSON, without loss, and read it piece by piece.

    {"taupy_profile": 1, "uuid": ..., "application": ..., ...,
     "metrics": [{"name": "time", "unit": "ns"}], "timers": [...],
     "threads": [{"node": 0, ..., "tree": {"timer": [...], "parent": [...], ...}, ...}]}

Trees are columns, as in the model. A value that was not measured is null; infinite numbers are
strings ("inf"). Keys may come in any order.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from taupy.formats import json_collectives, json_pieces, limits
from taupy.formats.json_pieces import Pieces
from taupy.formats.progress import Progress
from taupy.formats.registry import Format
from taupy.model.collectives import Collectives, Stretches
from taupy.model.gpu import Activity, Device, Launch, Module
from taupy.model.identifier import is_uuid
from taupy.model.profile import (
    CallTree,
    LayerFacts,
    Metric,
    Profile,
    Samples,
    StepKind,
    Steps,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)

VERSION = 1
KEY = "taupy_profile"
_ENCODE: Callable[[object], str] = json.JSONEncoder(allow_nan=False).encode
_ROWS_AT_ONCE = 10_000
Checked = TypeVar("Checked")
Infinite = Literal["inf", "-inf"]

_STAMPS = ("start_ns", "end_ns", "count")
_SAMPLED = ("mean", "minimum", "maximum")
_OF_STEPS = ("number", "count", "start_ns", "time_ns", "longest_ns", "samples")


def recognises(path: Path, first_bytes: bytes) -> bool:
    text = first_bytes.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text.startswith(b"{") and f'"{KEY}"'.encode() in text


# --- writing -----------------------------------------------------------------


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    progress.begin(target.name, sum(len(thread.tree) for thread in profile.threads))
    with open(target, "w", encoding="ascii", newline="\n") as out:
        out.writelines(_document(profile, progress))
    return []


def _document(profile: Profile, progress: Progress) -> Iterator[str]:
    head = {
        KEY: VERSION,
        "uuid": profile.uuid,
        "application": profile.application,
        "experiment": profile.experiment,
        "name": profile.name,
        "started_at": profile.started_at,
        "duration_ns": profile.duration_ns,
        "exit_code": profile.exit_code,
        "state": profile.state,
        "source": profile.source,
        "metadata": profile.metadata,
        "node_metadata": {str(node): facts for node, facts in profile.node_metadata.items()},
        "metrics": [asdict(metric) for metric in profile.metrics],
        "devices": [
            {**asdict(device), "facts": [list(fact) for fact in device.facts]}
            for device in profile.devices
        ],
        **({"layers": [*map(asdict, profile.layers)]} if profile.layers else {}),
        **({"modules": [*map(asdict, profile.modules)]} if profile.modules else {}),
    }
    yield _ENCODE(head)[:-1]
    yield from _list("timers", (timer._asdict() for timer in profile.timers))
    yield ',\n"threads": ['
    for number, measured in enumerate(profile.threads):
        yield ",\n" if number else "\n"
        yield from _thread(measured)
        progress.advance(len(measured.tree))
    yield "]}\n"


def _thread(measured: ThreadProfile) -> Iterator[str]:
    tree = measured.tree
    yield _ENCODE(asdict(measured.thread))[:-1]
    yield ',\n"tree": {'
    for name in ("timer", "parent", "calls", "subroutines"):
        yield f'"{name}": '
        yield from _column(getattr(tree, name))
        yield ",\n"
    for name, columns in (("inclusive", tree.inclusive), ("exclusive", tree.exclusive)):
        yield f'"{name}": {{'
        for number, (metric, column) in enumerate(columns.items()):
            yield (",\n" if number else "") + _ENCODE(metric) + ": "
            yield from _column(column)
        yield "},\n" if name == "inclusive" else "}}"
    yield from _list("user_events", (_numbers(asdict(event)) for event in measured.user_events))
    yield from _list("launches", (_numbers(asdict(launch)) for launch in measured.launches))
    yield from _list("activities", (list(activity) for activity in measured.activities))
    if measured.samples:
        yield from _list("samples", map(_sampled, measured.samples))
    if measured.steps:
        yield from _list("steps", map(_stepped, measured.steps))
    if measured.collectives:
        yield from _list("collectives", map(json_collectives.written, measured.collectives))
    if measured.stretches is not None:
        yield from _list("stretches", [json_collectives.written(measured.stretches)])
    yield "}"


def _stepped(steps: Steps) -> dict[str, Any]:
    return {
        "kind": steps.kind,
        **{name: list(getattr(steps, name)) for name in _OF_STEPS},
        "phases": {name: list(column) for name, column in steps.phases.items()},
        "values": {name: [*map(_number, column)] for name, column in steps.values.items()},
        "metrics": {name: [*map(_number, column)] for name, column in steps.metrics.items()},
    }


def _sampled(samples: Samples) -> dict[str, Any]:
    columns = {name: list(getattr(samples, name)) for name in _STAMPS}
    values = {name: [_number(number) for number in getattr(samples, name)] for name in _SAMPLED}
    return {"name": samples.name, "unit": samples.unit, **columns, **values}


def _list(name: str, values: Iterable[object]) -> Iterator[str]:
    yield f',\n"{name}": ['
    for number, value in enumerate(values):
        yield (",\n" if number else "\n") + _ENCODE(value)
    yield "]"


def _column(column: array[int]) -> Iterator[str]:
    yield "["
    for start in range(0, len(column), _ROWS_AT_ONCE):
        values: list[object] = [
            _number(value) if column.typecode == "d" else value
            for value in column[start : start + _ROWS_AT_ONCE]
        ]
        yield ("," if start else "") + _ENCODE(values)[1:-1]
    yield "]"


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _number(value) if isinstance(value, float) else value
        for name, value in values.items()
    }


def _number(value: float) -> float | str | None:
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


# --- reading -----------------------------------------------------------------


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    document: dict[str, Any] = {}
    with json_pieces.opened(source, progress) as pieces:
        pieces.expect("start_map", "an object")
        for key in pieces.members():
            if key == "threads":
                document[key] = list(_items(pieces, _read_thread))
            elif key == "timers":
                document[key] = list(_items(pieces, _read_timer))
            elif key in _HEAD:
                document[key] = pieces.value()
            else:
                pieces.skip()
        yield _profile(document, pieces)


@dataclass
class _Head:
    """All of a file but its timers and threads."""

    uuid: str
    application: str
    experiment: str = "default"
    started_at: float = 0.0
    duration_ns: int = 0
    metrics: list[Metric] = field(default_factory=list)
    name: str | None = None
    exit_code: int | None = None
    state: Literal["complete", "incomplete"] = "complete"
    source: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    node_metadata: dict[int, dict[str, str]] = field(default_factory=dict)
    devices: list[Device] = field(default_factory=list)
    layers: list[LayerFacts] = field(default_factory=list)
    modules: list[Module] = field(default_factory=list)


_HEAD = {KEY, *(field.name for field in fields(_Head))}


def _profile(document: dict[str, Any], pieces: Pieces) -> Profile:
    if document.get(KEY) != VERSION:
        raise pieces.refusal(
            f"version {document.get(KEY)!r} of {KEY} is not known (known: {VERSION})"
        )
    missing = {"uuid", "application", "threads", "timers"} - document.keys()
    if missing:
        raise pieces.refusal(f"no {', '.join(sorted(missing))} in it")
    timers, threads = document.pop("timers"), document.pop("threads")
    head = _checked(_Head, document, pieces)
    if not is_uuid(head.uuid):
        raise pieces.refusal("the uuid is invalid")
    if any(abs(node) > limits.INTEGER for node in head.node_metadata):
        raise pieces.refusal("the number of a node has more than 64 bits")
    if any(not 0 <= layer.timer < len(timers) for layer in head.layers):
        raise pieces.refusal("a layer of a missing timer")
    # msgspec does not set fields that the file lacks, so vars() would miss their defaults.
    facts = {field.name: getattr(head, field.name) for field in fields(_Head)}
    return Profile(timers=timers, threads=threads, **facts)


def _checked(kind: type[Checked], value: object, pieces: Pieces) -> Checked:
    """A value of this type; unknown members are ignored.

    Raises:
        FormatError: something in it is missing or has another type.
    """
    import msgspec

    try:
        checked: Checked = msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as problem:
        name = kind.__name__.lstrip("_").lower()
        raise pieces.refusal(f"{name}: {problem}") from None
    return checked


def _items(pieces: Pieces, read_item: Callable[[Pieces], Any]) -> Iterator[Any]:
    pieces.expect("start_array", "a list")
    while (event := pieces.next())[0] != "end_array":
        pieces.is_start(event, "start_map", "an object")
        yield read_item(pieces)


@dataclass
class _Timer:
    """A timer as in the file."""

    name: str
    file: str | None = None
    line: int | None = None
    groups: tuple[str, ...] = ("PYTHON",)
    path: str | None = None
    short: str | None = None


def _read_timer(pieces: Pieces) -> Timer:
    return Timer(**vars(_checked(_Timer, pieces.rest_of_map(), pieces)))


def _read_thread(pieces: Pieces) -> ThreadProfile:
    tree = CallTree()
    place: dict[str, Any] = {}
    events: list[UserEvent] = []
    launches: list[Launch] = []
    activities: list[Activity] = []
    samples: list[Samples] = []
    steps: list[Steps] = []
    collectives: list[Collectives] = []
    stretches: list[Stretches] = []
    for key in pieces.members():
        if key == "tree":
            tree = _read_tree(pieces)
        elif key == "user_events":
            events = [
                _checked(UserEvent, _reals(event, *_SAMPLED, "sum_squares"), pieces)
                for event in _objects(pieces)
            ]
        elif key == "launches":
            launches = [
                _checked(Launch, _reals(launch, "sum_squares_ns2"), pieces)
                for launch in _objects(pieces)
            ]
        elif key == "activities":
            pieces.expect("start_array", "a list")
            while (event := pieces.next())[0] != "end_array":
                pieces.is_start(event, "start_array", "an activity")
                activities.append(_activity(pieces))
        elif key == "samples":
            samples = [
                _samples(_checked(_Samples, samples, pieces), pieces)
                for samples in _objects(pieces)
            ]
        elif key == "steps":
            steps = [_steps(_checked(_Steps, item, pieces), pieces) for item in _objects(pieces)]
        elif key == "collectives":
            collectives = [
                json_collectives.collectives(
                    _checked(json_collectives.ReadCollectives, item, pieces), pieces
                )
                for item in _objects(pieces)
            ]
        elif key == "stretches":
            stretches = [
                json_collectives.stretches(
                    _checked(json_collectives.ReadStretches, item, pieces), pieces
                )
                for item in _objects(pieces)
            ]
        else:
            place[key] = pieces.value()
    thread = _checked(Thread, place, pieces)
    if any(not 0 <= activity.row < len(tree) for activity in activities):
        raise pieces.refusal("an activity of a missing row")
    rows = [item.row for item in collectives] + [item.row for item in stretches]
    if any(not 0 <= row < len(tree) for of_item in rows for row in of_item):
        raise pieces.refusal("a collective of a missing row")
    lists = (events, launches, activities, samples, steps, collectives)
    return ThreadProfile(thread, tree, *lists, stretches[0] if stretches else None)


@dataclass
class _Samples:
    """Samples as in the file."""

    name: str
    unit: str
    start_ns: list[int]
    end_ns: list[int]
    count: list[int]
    mean: list[float | Infinite | None]
    minimum: list[float | Infinite | None]
    maximum: list[float | Infinite | None]


def _samples(read: _Samples, pieces: Pieces) -> Samples:
    columns = vars(read)
    if len({len(columns[name]) for name in (*_STAMPS, *_SAMPLED)}) != 1:
        raise pieces.refusal("columns of samples differ in length")
    whole = (array("q", columns[name]) for name in _STAMPS)
    real = (array("d", map(_real, columns[name])) for name in _SAMPLED)
    return Samples(read.name, read.unit, *whole, *real)


@dataclass
class _Steps:
    """Steps as in the file."""

    kind: StepKind
    number: list[int]
    count: list[int]
    start_ns: list[int]
    time_ns: list[int]
    longest_ns: list[int]
    samples: list[int]
    phases: dict[str, list[int]]
    values: dict[str, list[float | Infinite | None]]
    metrics: dict[str, list[float | None]] = field(default_factory=dict)


def _steps(read: _Steps, pieces: Pieces) -> Steps:
    of_steps = (getattr(read, name) for name in _OF_STEPS)
    columns = [*of_steps, *read.phases.values(), *read.values.values(),
               *read.metrics.values()]  # fmt: skip
    if len(set(map(len, columns))) != 1:
        raise pieces.refusal("columns of steps differ in length")
    if any(count < 1 for count in read.count):
        raise pieces.refusal("a row that covers no steps")
    return Steps(
        read.kind,
        **{name: array("q", getattr(read, name)) for name in _OF_STEPS},
        phases={name: array("q", column) for name, column in read.phases.items()},
        values={name: array("d", map(_real, column)) for name, column in read.values.items()},
        metrics={name: array("d", map(_real, column)) for name, column in read.metrics.items()},
    )


def _objects(pieces: Pieces) -> Iterator[dict[str, Any]]:
    yield from _items(pieces, Pieces.rest_of_map)


def _real(value: Any) -> Any:
    """A number that JSON cannot hold: null stands for NaN, "inf" for infinity."""
    if value is None:
        return math.nan
    return float(value) if value in ("inf", "-inf") else value


def _reals(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**values, **{name: _real(values[name]) for name in names if name in values}}


def _activity(pieces: Pieces) -> Activity:
    values: list[Any] = []
    while (event := pieces.next())[0] != "end_array":
        values.append(event[1])
    return _checked(Activity, values, pieces)


def _read_tree(pieces: Pieces) -> CallTree:
    tree = CallTree()
    pieces.expect("start_map", "an object")
    for key in pieces.members():
        if key in ("timer", "parent", "calls", "subroutines"):
            column = _read_column(pieces)
            if column.typecode != "q":
                raise pieces.refusal(f"{key} contains something other than a whole number")
            setattr(tree, key, column)
        elif key in ("inclusive", "exclusive"):
            pieces.expect("start_map", "an object")
            columns = getattr(tree, key)
            for metric in pieces.members():
                columns[metric] = _read_column(pieces)
        else:
            pieces.skip()
    return tree


def _read_column(pieces: Pieces) -> array[int]:
    """A column of numbers, doubles if one is not a whole number; null was not measured."""
    column: array[Any] = array("q")
    pieces.expect("start_array", "a list of numbers")
    while True:
        kind, value = pieces.next()
        if kind == "number" and type(value) is int and column.typecode == "q":
            column.append(value)
            continue
        if kind == "end_array":
            return column
        if column.typecode == "q":
            column = array("d", column)
        if kind == "number":
            column.append(value)
        elif kind == "null":
            column.append(math.nan)
        elif kind == "string" and value in ("inf", "-inf"):
            column.append(float(value))
        else:
            raise pieces.refusal("a number is expected in a column")


FORMAT = Format(
    name="json",
    title="taupy's JSON, a whole profile",
    suffixes=(".taupy.json",),
    recognises=recognises,
    read=read,
    write=write,
    keeps_source=True,
)
