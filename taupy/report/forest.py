"""The call paths of trials at a few bytes each, for a page that draws them.

Rows are in depth-first order, thread by thread, the largest siblings first
(`static/forest.js` reads this).
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from taupy.analysis.match import Key
from taupy.answers.own_code import kind_of
from taupy.escaping import visible
from taupy.model import callpaths
from taupy.model.collectives import THREAD_NAME
from taupy.model.forest import parents_in
from taupy.model.kernel_names import is_kernel, told_apart
from taupy.model.kinds import Named
from taupy.model.metric import ROOT_TIMER
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Amount, Table
from taupy.pprof.fold import is_library_code
from taupy.report import planes
from taupy.report.lanes import with_numbers

COLUMNS = ("depth", "timer", "calls", "own", "rest", "verdict")
"""Calls are stored plus one, 0 for calls that were not counted; `own` is exclusive time [ns];
`rest` is inclusive time [ns] minus own time and the children's: 0 except in files of other tools;
`verdict` is one of `VERDICTS`."""

VERDICTS = {"": 0, "same": 1, "unclear": 1, "more": 2, "less": 2}
"""0: not tested; 1: within noise; 2: a change."""

KINDS = {False: 0, True: 1, None: 2}
"""Code of the user, of a library, and code that belongs to its caller (`fold.is_library_code`)."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """What a comparison knows about one of its sides.

    Attributes:
        side: 0, or 1 for the second trial.
        key_of: the timers' keys in the comparison; timers with equal keys are merged.
        verdict_of: call path -> a value of `VERDICTS`, on its inclusive time.
        own: the program's own files, as displayed; None: what is no library's.
    """

    side: int = 0
    key_of: Mapping[TimerRow, Key] = field(default_factory=dict)
    verdict_of: Mapping[int, int] = field(default_factory=dict)
    own: Collection[str] | None = None


ALONE = Aligned()
"""The value for a trial that is not compared."""


@dataclass(slots=True)
class Forest:
    """Trees of one or two trials.

    Attributes:
        columns: by the names of `COLUMNS`, one number per row.
        names: each timer once: name, place, kind (a key of `KINDS`), color, groups, and what is
            known of its lines; in a comparison, matching timers are merged, with the verdict on
            their own time.
        threads: name, kind, node, side (0, or 1 for the second trial), start (first row).
        unmeasured: number of rows without a time, which counts as 0.
        judged: whether changes were tested; if so, rows without a verdict were too small to test.
    """

    columns: dict[str, array[int]] = field(
        default_factory=lambda: {name: array("q") for name in COLUMNS}
    )
    names: list[dict[str, Any]] = field(default_factory=list)
    threads: list[dict[str, Any]] = field(default_factory=list)
    unmeasured: int = 0
    judged: bool = False
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _kernels: dict[int, str] = field(default_factory=dict)

    def add(
        self, table: Table, path_of: Mapping[str, str | None], aligned: Aligned = ALONE
    ) -> None:
        """Add the trees of one trial.

        Args:
            table: the answer to `taupy.analysis.findings.calls.trees`.
            path_of: a timer's full name -> its source file as the interpreter knows it.
        """
        inclusive = [value or 0 for value in table.column("inclusive", "time")]
        above = array("q", callpaths.parents(table))
        order = callpaths.in_order(table, inclusive, above)
        table, parent = table.taken(order), parents_in(order, above)
        self._add_threads(table, aligned.side)
        own = _rounded(table.column("exclusive", "time"))
        whole = _rounded(table.column("inclusive", "time"))
        self.unmeasured += list(table.column("exclusive", "time")).count(None)
        timers = [self._number(timer, path_of, aligned) for timer in table.labels["timer"]]
        new = {
            "depth": callpaths.depths(parent),
            "timer": map(timers.__getitem__, table.codes["timer"]),
            "calls": (0 if count is None else int(count) + 1 for count in table.column("calls")),
            "own": own,
            "rest": _rest(whole, own, parent),
            "verdict": map(aligned.verdict_of.get, table.row_labels("callpath"), repeat(0)),
        }
        for name, values in new.items():
            self.columns[name].extend(values)

    def _add_threads(self, table: Table, side: int) -> None:
        before = len(self.columns["depth"])
        threads: Sequence[ThreadRow] = table.labels["thread"]
        hosts = [thread for thread in threads if thread.kind == "host"]
        main = min((thread for thread in hosts if thread.name != THREAD_NAME), default=None)
        names = lane_names(threads)
        last = None
        for row, code in enumerate(table.codes["thread"]):
            if code != last:
                last = code
                thread = threads[code]
                self.threads.append(
                    {
                        "name": visible(names[code]),
                        "kind": thread.kind,
                        "node": thread.node,
                        "side": side,
                        "start": before + row,
                        "isMain": thread == main,
                    }
                )

    def _number(self, timer: TimerRow, path_of: Mapping[str, str | None], aligned: Aligned) -> int:
        key = aligned.key_of.get(timer)
        number = self._numbers.setdefault(key.identity if key else timer, len(self.names))
        if number == len(self.names):
            kind = KINDS[is_library_code(timer, path_of.get(timer.timer))]
            is_own = kind == KINDS[False] if aligned.own is None else timer.file in aligned.own
            if is_own:
                kind = KINDS[False]
            self.names.append(_name(key or timer, kind, color(timer, is_own)))
            if is_kernel(timer.groups):
                self._kernels[number] = (key or timer).timer
        return number

    def add_lines(self, lines_of: Mapping[TimerRow, Sequence[str]]) -> None:
        """Add words about the lines of routines."""
        for timer, lines in lines_of.items():
            if (number := self._numbers.get(timer)) is not None:
                self.names[number]["lines"] = list(lines)

    def judge(self, verdict_of: Mapping[Hashable, int]) -> None:
        """Record verdicts on own times, by the timers' keys in the comparison."""
        for identity, verdict in verdict_of.items():
            number = self._numbers.get(identity)
            if number is not None:
                entry = self.names[number]
                entry["verdict"] = max(verdict, entry.get("verdict", 0))

    def layout(self, widths: Mapping[str, int]) -> dict[str, Any]:
        """The description needed to read `packed`."""
        short = told_apart(self._kernels.values())
        return {
            "rows": len(self.columns["depth"]),
            "widths": widths,
            "names": [
                {**name, "name": visible(short[self._kernels[number]])}
                if number in self._kernels
                else name
                for number, name in enumerate(self.names)
            ],
            "threads": self.threads,
            "compares": any(thread["side"] for thread in self.threads),
            "judged": self.judged,
        }

    def packed(self) -> tuple[bytes, dict[str, int]]:
        """As `planes.packed`."""
        return planes.packed(self.columns)


def _name(timer: Named, kind: int, color: str) -> dict[str, Any]:
    name, groups = visible(shown_name(timer.short_name)), visible(timer.groups)
    place = visible(source_of(timer))
    return {"name": name, "place": place, "kind": kind, "color": color, "groups": groups}


def color(timer: TimerRow, is_own: bool) -> str:
    """What a routine's time is, by the names of the colours in `static/page.css`."""
    groups = timer.groups.split("|")
    if is_kernel(timer.groups) or any(group.startswith("GPU") for group in groups):
        return "gpu"
    if timer.timer == ROOT_TIMER:
        return "rest"
    if is_own and not any(group in ("LAYER", "AUTOGRAD") or "PHASE_" in group for group in groups):
        return "own"
    return kind_of(timer)


def shown_name(name: str) -> str:
    """A routine's name as people read it: without the functions around it."""
    return "whole program" if name == ROOT_TIMER else name.rpartition("<locals>.")[2]


def lane_names(threads: Sequence[ThreadRow]) -> list[str]:
    """What each thread is called; those of one name are told apart."""
    return with_numbers([lane_name(thread) for thread in threads], threads)


def lane_name(thread: ThreadRow) -> str:
    """What a thread is called: with its process only where there are several."""
    if thread.kind != "host":
        return f"GPU {thread.context - 1}, {thread.name or f'stream {thread.thread}'}"
    name = thread.name or f"thread {thread.thread}"
    name = "main thread" if name == "MainThread" else name
    is_alone = not thread.node or name == f"rank {thread.node}"
    return name if is_alone else f"process {thread.node}, {name}"


def source_of(timer: Named) -> str:
    """`file:line`, as far as known."""
    return "" if timer.file is None else f"{timer.file}:{timer.line or ''}".rstrip(":")


def _rounded(values: Sequence[Amount]) -> Sequence[int]:
    return values if isinstance(values, array) else [round(value or 0) for value in values]


def _rest(whole: Sequence[int], own: Sequence[int], parent: Sequence[int]) -> list[int]:
    rest = [total - mine for total, mine in zip(whole, own, strict=True)]
    for row, above in enumerate(parent):
        if above >= 0:
            rest[above] -= whole[row]
    return rest
