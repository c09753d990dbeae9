"""A whole profile as JSON, with nothing lost: written, and read piece by piece.

    {"taupy_profile": 1, "uuid": ..., "application": ..., ...,
     "metrics": [{"name": "time", "unit": "ns"}], "timers": [...],
     "threads": [{"node": 0, ..., "tree": {"timer": [...], "parent": [...], ...}, ...}]}

Trees are columns, as in the model. A value that was not measured is null; what is no
number stands as text ("inf"). Keys may come in any order.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from taupy.formats import json_pieces, limits
from taupy.formats.json_pieces import Pieces
from taupy.formats.progress import Progress
from taupy.formats.registry import Format
from taupy.model.gpu import Activity, Device, Fact, Launch
from taupy.model.profile import (
    CallTree,
    Metric,
    Profile,
    Samples,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)

VERSION = 1
KEY = "taupy_profile"
_ENCODE: Callable[[object], str] = json.JSONEncoder(allow_nan=False).encode
_ROWS_AT_ONCE = 10_000

_INTEGERS = {"line", "node", "context", "thread", "native_id", "row", "count", "time_ns",
             "minimum_ns", "maximum_ns", "untimed", "registers", "shared_static_bytes",
             "shared_dynamic_bytes", "local_bytes", "bytes", "ordinal"}  # fmt: skip
_STAMPS = ("start_ns", "end_ns", "count")
_SAMPLED = ("mean", "minimum", "maximum")
_REALS = {"minimum", "maximum", "mean", "sum_squares", "sum_squares_ns2", "occupancy"}


def recognises(path: Path, first_bytes: bytes) -> bool:
    text = first_bytes.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text.startswith(b"{") and f'"{KEY}"'.encode() in text


# --- writing -----------------------------------------------------------------


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    progress.begin(target.name, sum(len(one.tree) for one in profile.threads))
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
    }
    yield _ENCODE(head)[:-1]
    yield from _list("timers", (asdict(timer) for timer in profile.timers))
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
    yield from _list("user_events", (_numbers(asdict(one)) for one in measured.user_events))
    yield from _list("launches", (_numbers(asdict(one)) for one in measured.launches))
    yield from _list("activities", (list(one) for one in measured.activities))
    if measured.samples:
        yield from _list("samples", map(_sampled, measured.samples))
    yield "}"


def _sampled(samples: Samples) -> dict[str, Any]:
    columns = {name: list(getattr(samples, name)) for name in _STAMPS}
    values = {name: [_number(one) for one in getattr(samples, name)] for name in _SAMPLED}
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
    found: dict[str, Any] = {}
    with json_pieces.opened(source, progress) as pieces:
        pieces.expect("start_map", "an object")
        for key in pieces.members():
            if key == "threads":
                found[key] = list(_each(pieces, _read_thread))
            elif key == "timers":
                found[key] = list(_each(pieces, _read_timer))
            elif key in _HEAD or key == KEY:
                found[key] = pieces.value()
            else:
                pieces.skip()
        yield _profile(found, pieces)


_HEAD = {"uuid", "application", "experiment", "name", "started_at", "duration_ns", "exit_code",
         "state", "source", "metadata", "node_metadata", "metrics", "devices"}  # fmt: skip


def _profile(found: dict[str, Any], pieces: Pieces) -> Profile:
    check = _Checked(pieces)
    if found.get(KEY) != VERSION:
        raise pieces.refusal(
            f"version {found.get(KEY)!r} of {KEY} is not known (we know {VERSION})"
        )
    missing = {"uuid", "application", "threads", "timers"} - found.keys()
    if missing:
        raise pieces.refusal(f"no {', '.join(sorted(missing))} in it")
    uuid = check.text("uuid", found["uuid"])
    if not 8 <= len(uuid) <= 100:
        raise pieces.refusal("the uuid is none")
    state = found.get("state", "complete")
    exit_code = found.get("exit_code")
    return Profile(
        uuid=uuid,
        application=check.text("application", found["application"]),
        experiment=check.text("experiment", found.get("experiment", "default")),
        started_at=check.real("started_at", found.get("started_at", 0.0)),
        duration_ns=check.integer("duration_ns", found.get("duration_ns", 0)),
        timers=found["timers"],
        threads=found["threads"],
        metrics=[
            check.made(Metric, one) for one in check.many("metrics", found.get("metrics", []))
        ],
        name=None if found.get("name") is None else check.text("name", found["name"]),
        exit_code=None if exit_code is None else check.integer("exit_code", exit_code),
        state="complete" if state == "complete" else "incomplete",
        source=check.text("source", found.get("source", "")),
        metadata=check.texts("metadata", found.get("metadata", {})),
        node_metadata={
            check.integer("node", node): check.texts("node_metadata", facts)
            for node, facts in check.members("node_metadata", found.get("node_metadata", {}))
        },
        devices=[_device(check, one) for one in check.many("devices", found.get("devices", []))],
    )


def _each(pieces: Pieces, read_one: Callable[[Pieces], Any]) -> Iterator[Any]:
    pieces.expect("start_array", "a list")
    while (event := pieces.next())[0] != "end_array":
        pieces.is_start(event, "start_map", "an object")
        yield read_one(pieces)


def _read_timer(pieces: Pieces) -> Timer:
    values = pieces.rest_of_map()
    check = _Checked(pieces)
    if "groups" in values:
        groups = check.many("groups", values["groups"])
        values["groups"] = tuple(check.text("groups", one) for one in groups)
    return check.made(Timer, values)  # type: ignore[no-any-return]


def _device(check: _Checked, values: Any) -> Device:
    if not isinstance(values, dict):
        raise check.refusal("a device is no object")
    facts = []
    for fact in check.many("facts", values.get("facts", [])):
        if not (
            isinstance(fact, list) and len(fact) == 3 and isinstance(fact[1], str | int | float)
        ):
            raise check.refusal("a fact of a device is no list of name, value, unit")
        facts.append(Fact(check.text("fact", fact[0]), fact[1], check.text("unit", fact[2])))
    return check.made(Device, {**values, "facts": tuple(facts)})  # type: ignore[no-any-return]


def _read_thread(pieces: Pieces) -> ThreadProfile:
    check = _Checked(pieces)
    tree = CallTree()
    place: dict[str, Any] = {}
    events: list[UserEvent] = []
    launches: list[Launch] = []
    activities: list[Activity] = []
    samples: list[Samples] = []
    for key in pieces.members():
        if key == "tree":
            tree = _read_tree(pieces)
        elif key == "user_events":
            events = [check.made(UserEvent, {**one, **_nan(one)}) for one in _objects(pieces)]
        elif key == "launches":
            for one in _objects(pieces):
                for extent in ("grid", "block"):
                    if one.get(extent) is not None:
                        one[extent] = check.extent(one[extent])
                launches.append(check.made(Launch, one))
        elif key == "activities":
            pieces.expect("start_array", "a list")
            while (event := pieces.next())[0] != "end_array":
                pieces.is_start(event, "start_array", "an activity")
                activities.append(_activity(pieces, check))
        elif key == "samples":
            samples = [_samples(check, one) for one in _objects(pieces)]
        else:
            place[key] = pieces.value()
    thread = check.made(Thread, place)
    if thread.kind not in ("host", "stream"):
        raise check.refusal(f"a thread of the kind '{thread.kind}'")
    if any(not 0 <= one.row < len(tree) for one in activities):
        raise check.refusal("an activity of a row that is not there")
    return ThreadProfile(thread, tree, events, launches, activities, samples)


def _samples(check: _Checked, values: dict[str, Any]) -> Samples:
    columns: dict[str, list[Any]] = {
        name: list(check.many(name, values.get(name))) for name in (*_STAMPS, *_SAMPLED)
    }
    if len({len(column) for column in columns.values()}) != 1:
        raise check.refusal("columns of samples differ in length")
    whole = [array("q", [check.integer(name, one) for one in columns[name]]) for name in _STAMPS]
    real = [
        array("d", [math.nan if one is None else check.real(name, one) for one in columns[name]])
        for name in _SAMPLED
    ]
    name, unit = (check.text(word, values.get(word)) for word in ("name", "unit"))
    return Samples(name, unit, whole[0], whole[1], whole[2], real[0], real[1], real[2])


def _objects(pieces: Pieces) -> Iterator[dict[str, Any]]:
    yield from _each(pieces, Pieces.rest_of_map)


def _nan(values: dict[str, Any]) -> dict[str, float]:
    """A user event's values that are null are no numbers."""
    names = ("minimum", "maximum", "mean", "sum_squares")
    return {name: math.nan for name in names if values.get(name, 0) is None}


def _activity(pieces: Pieces, check: _Checked) -> Activity:
    values: list[Any] = []
    while (event := pieces.next())[0] != "end_array":
        values.append(event[1])
    if len(values) != len(Activity._fields):
        raise check.refusal(f"an activity has {len(values)} values")
    for name, value in zip(Activity._fields, values, strict=True):
        if name == "kind":
            check.text("kind", value)
        elif value is not None or name in ("row", "start_ns", "end_ns"):
            check.integer(name, value)
    return Activity(*values)


def _read_tree(pieces: Pieces) -> CallTree:
    tree = CallTree()
    pieces.expect("start_map", "an object")
    for key in pieces.members():
        if key in ("timer", "parent", "calls", "subroutines"):
            column = _read_column(pieces)
            if column.typecode != "q":
                raise pieces.refusal(f"{key} holds something that is no whole number")
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
    """Numbers; null is one that was not measured."""
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


class _Checked:
    """Values of the types they must have."""

    def __init__(self, pieces: Pieces) -> None:
        self.refusal = pieces.refusal

    def text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self.refusal(f"{name} is no text")
        return value

    def integer(self, name: str, value: Any) -> int:
        if isinstance(value, str):
            value = int(value) if value.lstrip("-").isdecimal() and len(value) < 19 else None
        if type(value) is not int or abs(value) > limits.INTEGER:
            raise self.refusal(f"{name} is no whole number of 64 bits")
        return value

    def real(self, name: str, value: Any) -> float:
        if value in ("inf", "-inf"):
            return float(value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.refusal(f"{name} is no number")
        return value

    def many(self, name: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.refusal(f"{name} is no list")
        return value

    def members(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise self.refusal(f"{name} is no object")
        return value.items()

    def texts(self, name: str, value: Any) -> dict[str, str]:
        return {key: self.text(name, text) for key, text in self.members(name, value)}

    def extent(self, value: Any) -> tuple[int, int, int]:
        found = self.many("an extent", value)
        if len(found) != 3:
            raise self.refusal("an extent has three numbers")
        return tuple(self.integer("an extent", one) for one in found)  # type: ignore[return-value]

    def made(self, kind: Any, values: Any) -> Any:
        """One of the model's records, its fields by name; what is not known is left out."""
        known = {field.name for field in fields(kind)}
        found = {}
        for name, value in self.members(kind.__name__, values):
            if name not in known:
                continue
            if value is not None:
                if name in _INTEGERS:
                    self.integer(name, value)
                elif name in _REALS:
                    value = self.real(name, value)
                elif name not in ("groups", "facts", "grid", "block"):
                    self.text(name, value)
            found[name] = value
        try:
            made = kind(**found)
        except TypeError:
            raise self.refusal(f"a {kind.__name__} without all that belongs to it") from None
        nothing = {f.name for f in fields(kind) if getattr(made, f.name) is None}
        if lacking := nothing - _MAY_LACK:
            raise self.refusal(f"a {kind.__name__} without {', '.join(sorted(lacking))}")
        return made


_MAY_LACK = {"file", "line", "path", "short", "row", "grid", "block", "registers", "limiter",
             "shared_static_bytes", "shared_dynamic_bytes", "local_bytes", "occupancy",
             "bytes"}  # fmt: skip

FORMAT = Format(
    name="json",
    title="taupy's JSON, a whole profile",
    suffixes=(".taupy.json",),
    recognises=recognises,
    read=read,
    write=write,
    keeps_source=True,
)
