"""What each rank, worker process or further thread did: a bar each, on screens and pages.

Their times overlap with those of the main thread, so that each group has a heading of its
own. Of ranks whose collectives were matched, `taupy ranks` knows what each computed and for how
long it waited for others; of all others the time is divided by kind, as the main thread's strip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from taupy.analysis import places
from taupy.analysis.trees import Seen, Tree
from taupy.answers.own_code import KINDS, kinds, waits, words
from taupy.answers.places import GroupPlaces
from taupy.dataclass import NamedTuple
from taupy.model.job import rank_of
from taupy.model.rows import ThreadRow
from taupy.model.thread_groups import MAIN, Group, groups_of
from taupy.pprof.view import View
from taupy.report.strip import Band

RANKS = "Ranks"
_TITLES: Mapping[Group, str] = {
    "other ranks": RANKS,
    "worker processes": "Worker processes",
    "other threads": "Other threads",
}
_MUCH = 0.1
"""Share of the work of all threads from which on those that run libraries only are of interest."""
_OF_RANKS: Mapping[str, tuple[str, str]] = {
    "compute_ns": ("own", "computes"),
    "data_ns": ("data", "fetches data"),
    "compile_ns": ("layer", "compiles"),
    "wait_ns": ("wait", "waits for other ranks"),
    "transfer_ns": ("lib", "transfers"),
    "rest_ns": ("rest", "rest of collectives"),
}
"""Columns of `taupy ranks` -> kind, by its colour, and what it is called."""


class Lane(NamedTuple):
    """One rank, process or thread.

    Attributes:
        bands: what it did, without what takes no time.
        thread: None: of a rank.
    """

    name: str
    bands: Sequence[Band]
    thread: ThreadRow | None = None

    @property
    def threads(self) -> int:
        return 1 if self.thread is None else self.thread.threads

    @property
    def work_ns(self) -> tuple[float, float]:
        """The least and the most that one of its threads did besides waiting."""
        whole = self.ns - self.waits_ns
        if self.thread is None or self.threads == 1:
            return whole, whole
        return max(0.0, self.thread.least_ns - self.waits_ns), min(self.thread.most_ns, whole)

    @property
    def ns(self) -> float:
        return sum(band.ns for band in self.bands)

    @property
    def waits_ns(self) -> float:
        return sum(band.ns for band in self.bands if band.kind == "wait")


class Lanes(NamedTuple):
    """A group of them, in the order of their numbers.

    Attributes:
        title: such as "Ranks".
        group: of the threads; that of the other ranks for all ranks.
    """

    title: str
    group: Group
    lanes: Sequence[Lane]


def lanes(
    tree: Tree,
    facts: Mapping[int, Mapping[str, str]],
    paths: Mapping[str, str | None],
    of_ranks: View | None,
    seen: Seen | None = None,
    *,
    with_c: bool,
) -> list[Lanes]:
    """Those of all groups beside the main thread that run code of the program, or much of what is
    run at all, as where they were handed C functions.

    Args:
        facts: the metadata of each node.
        paths: a timer's full name -> its source file as the interpreter knew it.
        of_ranks: what `taupy ranks` shows of the job; None for no job of several ranks.
        seen: what samples and CPU times say of the tree: what is beyond both the CPU time of a
            thread and its time in a queue for a processor waits; without them, that is not known,
            and what is not known to wait counts as work.
        with_c: whether C functions were recorded. Otherwise they are in the program's own time.
    """
    groups = groups_of(tree.threads, facts)
    if {*groups} <= {MAIN, "collectives"}:
        return []
    is_job = "other ranks" in groups
    names = [str(at) for at in range(len(tree.threads))]
    seen = seen or Seen()
    tally = places.tally(tree, names, paths, seen)
    of_thread = tally.places()
    names_of = words(asleep=any(mine.asleep for mine in of_thread.values()), with_c=with_c)
    bars_of: dict[Group, list[Lane]] = {group: [] for group in _TITLES}
    work_ns: dict[Group, float] = dict.fromkeys(groups, 0.0)
    of_interest: set[Group] = set()
    for at in sorted(range(len(names)), key=lambda at: tree.threads[at]):
        thread, group = tree.threads[at], groups[at]
        shown: Group = "other ranks" if group == MAIN and is_job else group
        mine = of_thread[names[at]]
        waiting = sum(place.ns for place in mine.apart if place.kind == "waiting")
        work_ns[group] += seen.cpu_ns.get(at, sum(mine.ns) - waiting)
        if shown not in bars_of or not mine:
            continue
        if mine.own:
            of_interest.add(group)
        of_kinds = kinds([GroupPlaces(MAIN, 1, mine, tally.packages(names[at]))])
        if at in seen.cpu_ns:
            at_most = sum(ns for kind, ns in of_kinds.items() if kind != "wait")
            waits(of_kinds, at_most - seen.ready_ns(at))
        bands = [Band(kind, names_of[kind], of_kinds[kind]) for kind in KINDS if of_kinds.get(kind)]
        bars_of[shown].append(Lane(_name(thread, shown, facts), bands, thread))
    least = _MUCH * sum(work_ns.values())
    of_interest |= {group for group, ns in work_ns.items() if ns >= least}
    ranks = _ranks(of_ranks)
    if ranks and "other ranks" in of_interest:
        bars_of["other ranks"] = ranks
    for group, bars in bars_of.items():
        apart = with_numbers([lane.name for lane in bars], [lane.thread for lane in bars])
        bars_of[group] = [lane._replace(name=name) for lane, name in zip(bars, apart, strict=True)]
    return [
        Lanes(title, group, bars_of[group])
        for group, title in _TITLES.items()
        if bars_of[group] and group in of_interest
    ]


def _name(thread: ThreadRow, group: Group, facts: Mapping[int, Mapping[str, str]]) -> str:
    if group == "other ranks":
        rank, attempt = rank_of(thread.node, facts.get(thread.node, {}))
        return f"rank {rank}" + (f", attempt {attempt}" if attempt > 1 else "")
    if group == "worker processes":
        return f"process {thread.node}"
    process = f" of process {thread.node}" if thread.node else ""
    return f"{thread.name or f'thread {thread.thread}'}{process}"


def with_numbers(names: Sequence[str], threads: Sequence[ThreadRow | None]) -> list[str]:
    """The names of threads; those that are alike with the threads' numbers."""
    times = Counter(names)
    return [
        name if thread is None or times[name] == 1 else f"{name} ({thread.thread})"
        for name, thread in zip(names, threads, strict=True)
    ]


def _ranks(view: View | None) -> list[Lane]:
    """The bars of ranks whose steps and collectives are known."""
    if view is None:
        return []
    names = [column.name for column in view.columns]
    bars: list[Lane] = []
    for row in view.rows:
        cells = dict(zip(names, row, strict=True))
        rank = cells["rank"]
        assert isinstance(rank, int)
        if cells.get("compute_ns") is None:
            return []
        bands = [
            Band(kind, word, float(ns))
            for name, (kind, word) in _OF_RANKS.items()
            if isinstance(ns := cells[name], int | float) and ns > 0
        ]
        bars.append(Lane(f"rank {rank}", bands))
    return bars
