"""Tables of kernels' machine code: what `taupy static` shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from taupy.catalog.opcodes import KINDS
from taupy.escaping import visible
from taupy.model.finding import untried
from taupy.model.kernel_code import Estimate, KernelCode, by_kind
from taupy.pprof.view import Cell, Column, View
from taupy.units import several

_SHOWN = ("fp64", "fp32", "fp16", "tensor", "integer", "load", "store", "atomic", "barrier")

_COLUMNS = (
    Column("kernel", heading="Kernel", audience="people"),
    Column("name", audience="machines"),
    Column("full_name", audience="machines"),
    Column("what", audience="machines"),
    Column("chip", heading="Chip"),
    Column("registers", "int", "Regs"),
    Column("peak_live", "int", "Live"),
    Column("shared_bytes", "bytes", "Shared"),
    Column("stack_bytes", "bytes", "Stack"),
    Column("local_bytes", "bytes", audience="machines"),
    Column("spills", "int", "Spills"),
    Column("spill_bytes", "bytes", audience="machines"),
    Column("dynamic_shared_bytes", "bytes", audience="machines"),
    Column("block_asked", "int", audience="machines"),
    Column("most_threads", "int", audience="machines"),
    Column("block", "int", "Best\nblock"),
    Column("occupancy_percent", "percent", "Occ.\n%"),
    Column("limiter", heading="Limited by", spare=True),
    Column("instructions", "int", "Instr."),
    *(Column(kind, "int", kind, "all" if kind in _SHOWN else "machines") for kind in KINDS),
    Column("blocks", "int", audience="machines"),
    Column("loops", "int", "Loops"),
    Column("loop_depth", "int", audience="machines"),
    Column("branches", "int", audience="machines"),
    Column("divergent", "int", "Diverge"),
    Column("calls", "int", audience="machines"),
    Column("indirect", "int", audience="machines"),
    Column("peak_at", "int", audience="machines"),
    Column("compiler", audience="machines"),
    Column("module", audience="machines"),
    Column("file", audience="machines"),
)

Fitting = tuple[int | None, float | None, str]
"""Block size, occupancy in percent, and limiter."""


def table(rows: Iterable[tuple[KernelCode, Fitting]], notes: Sequence[str] = ()) -> View:
    """One line per kernel and chip."""
    rows = list(rows)
    cells = [_row(code, fitting) for code, fitting in rows]
    kernels = sum(code.is_kernel for code, _ in rows)
    numbers = {"kernel": kernels, "function": len(rows) - kernels}
    counted = ", ".join(several(number, what) for what, number in numbers.items() if number)
    names = [code.full_name for code, _ in rows]
    return View(f"KERNELS AT REST: {counted or 'none'}", _COLUMNS, cells, notes, kernels=names)


def _row(code: KernelCode, fitting: Fitting) -> list[Cell]:
    """The code's attributes by the names of columns, and what is computed from them."""
    counts = by_kind([code])
    computed: dict[str, Cell] = {
        "kernel": code.full_name,
        "what": "kernel" if code.is_kernel else "function",
        "dynamic_shared_bytes": code.launch.dynamic_shared,
        "block_asked": code.launch.block,
        "most_threads": code.launch.most_threads,
        **dict(zip(("block", "occupancy_percent", "limiter"), fitting, strict=True)),
        **{kind: counts.get(kind, 0) for kind in KINDS},
        "loops": len(code.loops),
        "loop_depth": max((loop.depth for loop in code.loops), default=0),
        "calls": len(code.calls),
        "indirect": int(code.indirect),
    }
    names = [column.name for column in _COLUMNS]
    return [computed[name] if name in computed else getattr(code, name) for name in names]


def details(code: KernelCode) -> Iterator[View]:
    """What the code holds: instructions, memory accesses, control flow."""
    yield mix(code)
    yield memory(code)
    yield loops(code)


def mix(code: KernelCode) -> View:
    """Instructions by kind, pipe and loop depth."""
    depths = sorted({part.depth for part in code.counts})
    sums: dict[tuple[str, str, str], dict[int, int]] = {}
    for part in code.counts:
        sums.setdefault((part.kind, part.detail, part.pipe), {})[part.depth] = part.number
    rows: list[tuple[Cell, ...]] = [
        (kind, detail, pipe, sum(by.values()), 100 * sum(by.values()) / code.instructions,
         *(by.get(depth, 0) for depth in depths))
        for (kind, detail, pipe), by in sorted(sums.items(), key=lambda row: -sum(row[1].values()))
    ]  # fmt: skip
    columns = [
        Column("kind", heading="Kind"),
        Column("detail", heading="Which"),
        Column("pipe", heading="Pipe"),
        Column("instructions", "int", "Instr."),
        Column("percent", "percent", "%"),
        *(Column(f"depth_{depth}", "int", f"in {depth}\nloops") for depth in depths),
    ]
    notes = [f"unknown to this version: {name} ({number})" for name, number in code.unknown]
    if code.indirect:
        notes.append("it jumps to computed addresses: control flow is inferred from nearby blocks")
    if code.irreducible:
        notes.append(f"{code.irreducible} jumps into loops with several entrances: not in any loop")
    title = f"INSTRUCTION MIX of {visible(code.full_name)} on {code.chip}:"
    return View(title, columns, rows, notes)


def memory(code: KernelCode) -> View:
    """Loads, stores and atomics by space, bytes per thread and pattern."""
    rows = [
        (part.what, part.space, part.bytes, part.pattern, part.stride, part.depth, int(part.spill),
         part.number, part.number * part.bytes)
        for part in code.accesses
    ]  # fmt: skip
    columns = (
        Column("what", heading="What"),
        Column("space", heading="Memory"),
        Column("bytes", "int", "Bytes of\na thread"),
        Column("pattern", heading="Threads\nreach"),
        Column("stride_bytes", "int", "Stride\nbytes"),
        Column("depth", "int", "In\nloops"),
        Column("spill", "int", "Spill"),
        Column("instructions", "int", "Instr."),
        Column("total_bytes", "int", "Bytes\nin all"),
    )
    banks = ", ".join(f"bank {bank}: {size} B" for bank, size in code.constants)
    return View("MEMORY:", columns, rows, [f"constants: {banks}"] if banks else [])


def loops(code: KernelCode) -> View:
    """The loops, in the order of the code."""
    columns = (
        Column("start", heading="Start"),
        Column("depth", "int", "Depth"),
        Column("instructions", "int", "Instr."),
        Column("barriers", "int", "Barriers"),
        Column("line", heading="Line"),
    )
    rows = [
        (f"0x{part.start:x}", part.depth, part.instructions, part.barriers, part.line)
        for part in code.loops
    ]
    divergence = "not followed" if code.divergent is None else f"{code.divergent} may split a warp"
    blocks = several(code.blocks, "basic block")
    branches = "branch" if code.branches == 1 else "branches"
    notes = [f"{blocks}, {code.branches} conditional {branches} ({divergence})"]
    if code.calls:
        notes.append("calls: " + ", ".join(dict.fromkeys(code.calls)))
    if code.peak_live is not None:
        notes.append(f"{code.peak_live} registers live at 0x{code.peak_at or 0:x}")
    return View("CONTROL FLOW:", columns, rows, notes)


def occupancies(
    fits: Mapping[int, Mapping[str, tuple[float, str] | None]], code: KernelCode
) -> View:
    """Occupancy by block size, one column per chip."""
    own, launch = code.chip, code.launch
    chips = list(next(iter(fits.values()), {}))
    rows = [
        (block, *(None if row[chip] is None else 100 * row[chip][0] for chip in chips),  # type: ignore[index]
         (row.get(own) or (0, "does not fit"))[1])
        for block, row in fits.items()
    ]  # fmt: skip
    columns = [
        Column("block", "int", "Block"),
        *(Column(f"occupancy_{chip}", "percent", f"{chip}\n%") for chip in chips),
        Column("limiter", heading=f"Limited on {own} by"),
    ]
    notes = (
        ["on other chips than its own: with the same number of registers"] if len(chips) > 1 else []
    )
    if launch.block:
        notes.append(f"the code requires blocks of {launch.block} threads")
    if launch.most_threads:
        notes.append(f"blocks of more than {launch.most_threads} threads fail (__launch_bounds__)")
    if launch.dynamic_shared is not None:
        notes.append(
            f"with {launch.dynamic_shared} B of dynamic shared memory, as recorded by Triton"
        )
    return View("OCCUPANCY:", columns, rows, notes)


def estimate(bound: Estimate, threads: int, trips: Sequence[float]) -> View:
    """The minimum time of each pipe and memory."""
    columns = (Column("what", heading="Bound by"), Column("time_ns", "time_ns", "At least"))
    runs = ", ".join(f"{times:g}" for times in trips) or "1"
    notes = [
        f"an estimate from the code, not a measurement: {threads} threads, loops run {runs} "
        "times by depth, every branch both ways, nothing waits"
    ]
    notes += [f"no known peak for {pipe}" for pipe in bound.left_out]
    return View(f"ESTIMATED TIME BOUND on {bound.gpu}:", columns, list(bound.by), notes)


def advice(rows: Sequence[tuple[str, str, str, float | None]]) -> View:
    """Rule, finding, change, and an upper bound on the share of the kernel's time saved."""
    columns = (
        Column("rule", heading="Rule"),
        Column("finding", heading="The code has", sentence=True),
        Column("change", heading="What to change", sentence=True),
        Column("saved_percent", "percent", "Saved at\nmost %"),
    )
    cells = [(*row[:3], None if row[3] is None else 100 * row[3]) for row in rows]
    notes = untried(row[0] for row in rows)
    if not rows:
        notes = ["nothing stands out; --block THREADS adds occupancy"]
    return View("WHAT TO TUNE:", columns, cells, notes)


def lines(code: KernelCode) -> View:
    """Instructions by source line."""
    columns = (
        Column("line", heading="Line"),
        Column("depth", "int", "In\nloops"),
        Column("instructions", "int", "Instr."),
        Column("accesses", "int", "Memory"),
        Column("spills", "int", "Spills"),
    )
    notes = [] if code.lines else ["the code has no line information: compile with -lineinfo"]
    return View("SOURCE LINES:", columns, list(code.lines), notes)
