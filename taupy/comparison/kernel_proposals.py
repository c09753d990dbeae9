"""Advice from the stored code of a trial's kernels, with the time that each could save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taupy.analysis import kernel_advice
from taupy.analysis.kernel_advice import Advice
from taupy.comparison.kernel_beside import codes_of, extent
from taupy.dataclass import NamedTuple
from taupy.errors import TaupyError, UsageError
from taupy.model.finding import amdahl, untried
from taupy.model.gpu_rows import SiteRow
from taupy.model.kernel_code import KernelCode
from taupy.pprof.selection import name_test
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import gpu_query, kernel_codes
from taupy.profiledb.database import ProfileDB

STORE_FIRST = "`taupy static FILE --store` keeps the code of a cubin, library or cache folder"


class Proposal(NamedTuple):
    """Advice for one kernel of a trial.

    Attributes:
        time_ns: of all its launches. `saved_ns`: upper bound on the saving; None if unbounded.
        doubt: why other code may have run; "" if it is known to be this code.
    """

    timer: str
    short_name: str
    time_ns: int
    advice: Advice
    saved_ns: float | None
    doubt: str


def proposals(db: ProfileDB, trial_id: int) -> list[Proposal]:
    """Proposals for every kernel with stored code, sorted by the time that could be saved.

    Raises:
        TaupyError: nothing in the trial ran on a GPU.
    """
    sites: dict[str, list[SiteRow]] = {}
    for site in gpu_query.sites(gpu_query.launched(db, trial_id)):
        if "GPU_KERNEL" in site.groups.split("|"):
            sites.setdefault(site.timer, []).append(site)
    rows = []
    for timer, own in sites.items():
        codes, doubt = codes_of(db, trial_id, timer)
        longest = max(own, key=lambda site: site.time_ns)
        time = sum(site.time_ns for site in own)
        proposed = {advice for code in codes for advice in _of(code, longest)}
        for advice in proposed:
            saved = None if advice.saved is None else advice.saved * time
            rows.append(Proposal(timer, longest.short_name, time, advice, saved, doubt))
    return sorted(rows, key=lambda row: (-(row.saved_ns or 0), -row.time_ns, row.advice))


def _of(code: KernelCode, site: SiteRow) -> list[Advice]:
    return kernel_advice.advice(code, extent(site.block), site.shared_dynamic_bytes or 0)


def by_kernel(db: ProfileDB, trial_id: int) -> dict[str, list[Advice]]:
    """Kernel -> advice from its stored code; empty if no code is stored."""
    if not kernel_codes.has_any(db):
        return {}
    try:
        rows = proposals(db, trial_id)
    except TaupyError:  # nothing of it ran on a GPU
        return {}
    advice_of: dict[str, list[Advice]] = {}
    for row in rows:
        advice_of.setdefault(row.timer, []).append(row.advice)
    return advice_of


def remarks(db: ProfileDB, trial_id: int) -> Mapping[str, list[str]]:
    """Kernel -> the first advice from its code."""
    return {
        timer: [f"code: {first.finding}; {first.change}"]
        for timer, (first, *_) in by_kernel(db, trial_id).items()
    }


def view(db: ProfileDB, trial_id: int, wall_ns: float, limit: int | None) -> View:
    """The proposals of a trial as candidates.

    Raises:
        TaupyError: no code of the trial's kernels is stored; the message says how to store it.
    """
    rows = proposals(db, trial_id)
    if not rows and not kernel_codes.has_any(db):
        raise TaupyError(f"no code of kernels is stored: {STORE_FIRST}")
    columns = (
        Column("rank", "int", "#"),
        Column("kernel", heading="Kernel", audience="people"),
        Column("timer", audience="machines"),
        Column("time_ns", "time_ns", "Time"),
        Column("rule", heading="Rule"),
        Column("finding", heading="The code has", sentence=True),
        Column("change", heading="What to change", sentence=True),
        Column("saved_ns", "time_ns", "Saved\nat most"),
        Column("speedup", "tau_count", "Speedup\nat most"),
    )
    cells: list[tuple[Cell, ...]] = []
    for rank, row in enumerate(rows[:limit], 1):
        speedup = amdahl(row.saved_ns, wall_ns)[1]
        advice = row.advice
        cells.append((rank, row.timer, row.timer, row.time_ns, advice.rule, advice.finding,
                      advice.change, row.saved_ns, speedup))  # fmt: skip
    notes = [
        "bounds hold where the kernel waits for nothing else; no bound: code cannot tell",
        *untried(row.advice.rule for row in rows[:limit]),
    ]
    notes += sorted({row.doubt for row in rows if row.doubt})
    if limit is not None and len(rows) > limit:
        notes.append(f"{len(rows) - limit} more; --limit N shows them")
    title = f"TUNING CANDIDATES of trial {trial_id} by their code:"
    return View(title, columns, cells, notes, kernels=[row.timer for row in rows])


# --- block sizes -------------------------------------------------------------


def blocks_view(
    db: ProfileDB, blocks: Sequence[int], name: str | None, trials: Sequence[int]
) -> View:
    """Block sizes of each stored kernel, ranked by the occupancy that they allow, with the mean
    time of launches of that size in these trials.

    Raises:
        UsageError: no stored kernel has that name.
    """
    test = name_test(name) if name is not None else lambda full, short: True
    codes = [code for code in kernel_codes.stored(db, lambda full, chip: True)
             if code.is_kernel and test(code.full_name, code.short_name)]  # fmt: skip
    if not codes:
        condition = f"matches '{name}'" if name else "is there"
        raise UsageError(f"no stored code of a kernel {condition}: {STORE_FIRST}")
    measured = _measured(db, trials)
    rows: list[tuple[Cell, ...]] = []
    for code in codes:
        for rank, fit in enumerate(kernel_advice.ranked(code, blocks), 1):
            share = fit.occupancy.share if fit.occupancy else None
            rows.append((
                code.full_name, code.full_name, code.chip, rank, fit.block,
                None if share is None else 100 * share,
                fit.occupancy.limiter if fit.occupancy else "does not fit",
                measured.get((code.short_name, fit.block)),
            ))  # fmt: skip
    columns = (
        Column("kernel", heading="Kernel", audience="people"),
        Column("timer", audience="machines"),
        Column("chip", heading="Chip"),
        Column("rank", "int", "#"),
        Column("block", "int", "Block"),
        Column("occupancy_percent", "percent", "Occ.\n%"),
        Column("limiter", heading="Limited by"),
        Column("mean_ns", "time_ns", "Mean time\nmeasured"),
    )
    notes = ["ranked by the occupancy that the code allows: a model, not a measurement"]
    if not measured:
        sizes = ",".join(map(str, blocks))
        notes.append(f"to measure: taupy run --sweep block={sizes} -- SCRIPT {{block}}")
    return View("BLOCK SIZES:", columns, rows, notes)


def _measured(db: ProfileDB, trials: Sequence[int]) -> dict[tuple[str, int], float]:
    """Kernel and block size -> mean time of its launches."""
    sums: dict[tuple[str, int], tuple[int, int]] = {}
    for trial in trials:
        try:
            sites = gpu_query.sites(gpu_query.launched(db, trial))
        except TaupyError:  # nothing of it ran on a GPU
            continue
        for site in sites:
            if threads := extent(site.block):
                time, calls = sums.get((site.short_name, threads), (0, 0))
                timed = site.calls - site.untimed
                sums[site.short_name, threads] = time + site.time_ns, calls + timed
    return {key: time / calls for key, (time, calls) in sums.items() if calls}
