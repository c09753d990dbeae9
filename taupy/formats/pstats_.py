"""cProfile's and profile's files (`Profile.dump_stats`, `python -m cProfile -o`), both ways.

Such a file holds each routine's totals, and for each direct caller the part that came from it.
The call tree cannot be reconstructed from that. Therefore a routine is stored under each of its
callers, one level deep, like TAU's call paths of depth 2: totals, callers and callees are those of
the file, and no deeper paths are invented.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from taupy.formats import limits, reading
from taupy.formats.marshal_ import Damaged, Reader
from taupy.formats.reading import refusal
from taupy.formats.registry import IMPORT_NOTES, Format
from taupy.formats.stacks import nothing_to_write, profile_of
from taupy.formats.tau.names import CUT
from taupy.formats.tau.rows import Rows
from taupy.formats.tau.tree import TauTimers, call_tree
from taupy.model.forest import outermost
from taupy.model.profile import TIME, CallTree, Profile, Thread, ThreadProfile, Timer
from taupy.model.progress import Progress

Key = tuple[str, int, str]
_C_FILE = "~"
_PLACE = re.compile(r"(.*) \[\{(.*)\}\{([0-9]{1,9})\}\]", re.DOTALL)

_NOTE = (
    "cProfile keeps the direct callers of a routine, not call paths: paths of two routines are "
    "stored; the number of primitive calls is omitted"
)


_COUNTED = (
    "the module profile keeps numbers of calls by caller but no times: no callers are "
    "stored; the number of primitive calls is omitted"
)


class Stat(NamedTuple):
    """Primitive and all calls, own and cumulative seconds."""

    primitive: int
    calls: int
    own: float
    cumulative: float


def recognises(path: Path, first_bytes: bytes) -> bool:
    """A marshalled dictionary whose first key is a tuple of three."""
    if first_bytes[:1] not in (b"{", b"\xfb"):
        return False
    if first_bytes[1:6] == b"(\x03\0\0\0":  # Python 2
        return True
    return first_bytes[1:2] in (b")", b"\xa9") and first_bytes[2:3] == b"\x03"


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    data = reading.whole(source, progress, limits.PSTATS_BYTES, "a profile of cProfile")
    try:
        stats = Reader(data).value()
    except Damaged as problem:
        raise refusal(source, f"byte {problem.place}", f"not a pstats file: {problem}") from None
    except RecursionError:
        raise refusal(source, "", "not a pstats file: nested too deeply") from None
    if not isinstance(stats, dict) or not stats:
        raise refusal(source, "", "not a pstats file: contains no routines")
    rows = Rows([TIME])
    rows.rounded = True
    entered: dict[Key, int] = {}
    keys: set[Key] = set()  # callers' keys that have been checked
    counted_only = False
    checked: list[tuple[Key, Stat, dict[Key, Stat]]] = []
    for number, (key, value) in enumerate(stats.items()):
        where = f"routine {number + 1}"
        routine = _key(source, where, key)
        if not isinstance(value, tuple) or len(value) != 5 or not isinstance(value[4], dict):
            raise refusal(source, where, "not (calls, calls, time, time, callers)")
        callers: dict[Key, Stat] = {}
        for key_of_caller, part in value[4].items():
            caller = key_of_caller
            if caller not in keys:
                caller = _key(source, where, caller)
                keys.add(caller)
            if type(part) is int and 0 <= part < 1 << 62:
                counted_only = True
                calls = part
            else:
                of_caller = _stat(source, where, part)
                # In callers' tuples, unlike elsewhere, the number of all calls comes first.
                primitive, calls, own, cumulative = of_caller
                primitive, calls = calls, primitive
                callers[caller] = Stat(primitive, calls, own, cumulative)
            entered[caller] = entered.get(caller, 0) + calls
        checked.append((routine, _stat(source, where, value[:4]), callers))
    names = {key: _name(key) for key in keys}
    for routine, stat, callers in checked:
        name = _name(routine)
        whole = (0, stat.calls, entered.get(routine, 0), _ns(stat.own), _ns(stat.cumulative))
        rows.add_flat(name, _group(routine), whole)
        for caller, part in callers.items():
            values = (0, part.calls, 0, _ns(part.own), _ns(part.cumulative))
            rows.add_path([names[caller], name], values)
    timers = TauTimers()
    tree, _ = call_tree(rows, timers)
    profile = profile_of(
        source, timers.timers, [ThreadProfile(Thread(0, 0, 0), tree)], [TIME],
        application=_application(source, checked),
        duration_ns=max((_ns(stat.cumulative) for _, stat, _ in checked), default=0),
    )  # fmt: skip
    profile.metadata[IMPORT_NOTES] = _COUNTED if counted_only else _NOTE
    yield profile


def _key(path: Path, where: str, key: Any) -> Key:
    if isinstance(key, tuple) and any(
        isinstance(part_of_key, bytes) for part_of_key in key
    ):  # Python 2
        key = tuple(
            part_of_key.decode("utf-8", "backslashreplace")
            if isinstance(part_of_key, bytes)
            else part_of_key
            for part_of_key in key
        )
    if not (
        isinstance(key, tuple)
        and len(key) == 3
        and isinstance(key[0], str)
        and type(key[1]) is int
        and isinstance(key[2], str)
    ):
        raise refusal(path, where, "not (file, line, name)")
    return key


def _stat(path: Path, where: str, part: Any) -> Stat:
    if isinstance(part, tuple) and len(part) == 4:
        calls, primitive, own, cumulative = part
        # Written out for speed: a dump of routines that all call each other has a million of these.
        if (
            type(calls) is int
            and type(primitive) is int
            and type(own) in (int, float)
            and type(cumulative) in (int, float)
            and abs(calls) <= limits.SUM
            and abs(primitive) <= limits.SUM
            and -limits.PSTATS_SECONDS < own < limits.PSTATS_SECONDS
            and -limits.PSTATS_SECONDS < cumulative < limits.PSTATS_SECONDS
        ):
            return Stat(calls, primitive, own, cumulative)
    raise refusal(path, where, "calls and times are not valid numbers")


def _name(key: Key) -> str:
    file, line, name = key
    return name if file == _C_FILE else f"{name} [{{{file}}}{{{line}}}]"


def _group(key: Key) -> str:
    return "TAU_PYTHON_C" if key[0] == _C_FILE else "TAU_PYTHON"


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _application(source: Path, stats: list[tuple[Key, Stat, dict[Key, Stat]]]) -> str:
    """The name of the module with the largest cumulative time; empty if there is none."""
    modules = [
        (stat.cumulative, key[0])
        for key, stat, _ in stats
        if key[2] == "<module>" and not key[0].startswith("<")
    ]
    return Path(max(modules)[1]).name.removesuffix(".py") if modules else ""


# --- writing -----------------------------------------------------------------


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    """Write the sums of all host threads: the format has no threads."""
    progress.begin(target.name, sum(len(thread.tree) for thread in profile.threads))
    totals: dict[Key, _Totals] = {}
    host = [thread for thread in profile.threads if thread.thread.kind == "host"]
    keys = [_our_key(timer) for timer in profile.timers]
    cut = {n for n, timer in enumerate(profile.timers) if timer == CUT}
    for measured in host:
        _add_thread(totals, measured.tree, keys, cut)
        progress.advance(len(measured.tree))
    if not totals:
        raise nothing_to_write("pstats holds times of routines on host threads", profile)
    stats = {}
    for key, sums in totals.items():
        callers = {
            caller: (part.calls, part.primitive, part.own_ns / 1e9, part.whole_ns / 1e9)
            for caller, part in sums.by_caller.items()
        }
        times = sums.own_ns / 1e9, sums.whole_ns / 1e9
        stats[key] = (sums.primitive, sums.calls, *times, callers)
    with open(target, "wb") as out:
        marshal.dump(stats, out)
    return []


@dataclass(slots=True)
class _Sums:
    """Of some calls; `primitive`: those that were not made by a call of the same routine."""

    primitive: int = 0
    calls: int = 0
    own_ns: float = 0
    whole_ns: float = 0

    def add(self, other: _Sums) -> None:
        self.primitive += other.primitive
        self.calls += other.calls
        self.own_ns += other.own_ns
        self.whole_ns += other.whole_ns


@dataclass(slots=True)
class _Totals(_Sums):
    by_caller: dict[Key, _Sums] = field(default_factory=dict)


def _add_thread(totals: dict[Key, _Totals], tree: CallTree, keys: list[Key], cut: set[int]) -> None:
    inclusive, exclusive = tree.inclusive.get(TIME.name), tree.exclusive.get(TIME.name)
    if inclusive is None or exclusive is None:
        return
    ids: dict[Key, int] = {}
    routine = [ids.setdefault(keys[timer], len(ids)) for timer in tree.timer]
    top = set(outermost(tree.parent, routine))
    for row, timer in enumerate(tree.timer):
        if timer in cut:
            continue
        own = exclusive[row] if exclusive[row] == exclusive[row] else 0
        whole = inclusive[row] if row in top and inclusive[row] == inclusive[row] else 0
        primitive = tree.calls[row] if row in top else 0
        calls = tree.calls[row]
        if not (primitive or calls or own or whole):
            continue
        part = _Sums(primitive, calls, own, whole)
        sums = totals.setdefault(keys[timer], _Totals())
        sums.add(part)
        above = tree.parent[row]
        if above >= 0 and tree.timer[above] not in cut:
            sums.by_caller.setdefault(keys[tree.timer[above]], _Sums()).add(part)


def _our_key(timer: Timer) -> Key:
    if timer.file is None:
        if match := _PLACE.fullmatch(timer.name):
            return (match[2], int(match[3]), match[1])
        return (_C_FILE, 0, timer.name)
    return (timer.path or timer.file, timer.line or 0, timer.name)


FORMAT = Format(
    name="pstats",
    title="pstats (cProfile)",
    suffixes=(".pstats", ".prof"),
    recognises=recognises,
    read=read,
    write=write,
    holds=frozenset(("routines", "calls")),
)
