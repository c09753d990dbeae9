"""Measure this machine's peak rates: arithmetic by precision, bandwidth by level, launches.

    taupy ceilings                    measure the CPU and every GPU, and store the ceilings
    taupy ceilings --cpu              measure the CPU only
    taupy ceilings --gpu 0            measure that GPU only
    taupy ceilings --driver pycuda    check the GPUs' rates through PyCUDA; nothing is stored
    taupy ceilings list [PROCESSOR]   list the ceilings in the database
    taupy ceilings datasheet H100     show the manufacturer's figures; --keep stores them

Takes several seconds. A ceiling is the best rate of many short windows; its spread is printed
with it. `taupy roofline` draws programs under these ceilings.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from taupy import units
from taupy.collectors import host
from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.errors import DatabaseError, TaupyError, UsageError
from taupy.ert.cpu import Subject
from taupy.instrument.runfolder import new_uuid
from taupy.model.machine import Ceiling
from taupy.pprof import terminal
from taupy.pprof.view import Column, View

if TYPE_CHECKING:
    from taupy.cuda.driver import Gpu

_COLUMNS = (
    Column("machine", audience="machines"),
    Column("processor", heading="Processor"),
    Column("device_uuid", audience="machines"),
    Column("kind", heading="Kind"),
    Column("name", heading="Ceiling"),
    Column("pattern", heading="Reached by"),
    Column("threads", "int", "Threads"),
    Column("best", heading="Best", audience="people"),
    Column("value", "float", audience="machines"),
    Column("unit", audience="machines"),
    Column("median_text", heading="Median", audience="people"),
    Column("median", "float", audience="machines"),
    Column("spread_percent", "percent", "Spread\n%"),
    Column("samples", "int", "Windows"),
    Column("clock_ghz", "float", "Clock\nGHz"),
    Column("bytes", "bytes", "Working set"),
    Column("source", heading="Source"),
    Column("reference", audience="machines"),
    Column("measured_at", audience="machines"),
    Column("characterization", audience="machines"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("list", "datasheet"), help="see above")
    parser.add_argument("processor", nargs="?", help="a CPU or GPU, or part of its name")
    parser.add_argument("--cpu", action="store_true", help="measure the CPU only")
    parser.add_argument(
        "--gpu",
        type=int,
        action="append",
        metavar="N",
        help="measure only the GPU with that ordinal; may be repeated",
    )
    parser.add_argument(
        "--driver",
        choices=("taupy", "pycuda"),
        default="taupy",
        help="pycuda: measure a GPU's arithmetic and bandwidth by taupy's own calls of the CUDA "
        "driver and by PyCUDA's, and show the difference",
    )
    parser.add_argument(
        "--keep", action="store_true", help="store the `datasheet` figures in the database"
    )
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from taupy.profiledb.ceilings import ordered

    if args.action and (args.cpu or args.gpu):
        raise UsageError(f"--cpu and --gpu measure; `taupy ceilings {args.action}` does not")
    if args.driver == "pycuda":
        if args.action or args.cpu:
            raise UsageError("--driver pycuda measures GPUs: leave out --cpu, list and datasheet")
        return _compare_ways(args)
    if args.action == "list":
        shown = _listed(args)
    elif args.action == "datasheet":
        shown = _papers(args)
    else:
        shown = _measured(args)
    keeps = not args.action or (args.action == "datasheet" and args.keep)
    code = _keep(args, shown) if keeps else 0
    _show(ordered(shown), args.form)
    return code


def _listed(args: argparse.Namespace) -> list[Ceiling]:
    from taupy.profiledb.ceilings import ceilings

    with options.opened(args) as db, bar.shown("reading the ceilings"):
        stored = ceilings(db)
    if not stored:
        raise TaupyError(
            f"{options.database_or_store(args)} has no ceilings; `taupy ceilings` measures them"
        )
    if not args.processor:
        return stored
    matches = [ceiling for ceiling in stored if args.processor.lower() in ceiling.processor.lower()]
    if not matches:
        processors = ", ".join(sorted({ceiling.processor for ceiling in stored}))
        raise TaupyError(f"no ceilings for '{args.processor}'; available: {processors}")
    return matches


def _papers(args: argparse.Namespace) -> list[Ceiling]:
    from taupy.catalog import datasheets

    gpus_with_sheet = ", ".join(sheet.gpu for sheet in datasheets.DATASHEETS)
    if not args.processor:
        raise UsageError(f"name a GPU: taupy ceilings datasheet GPU; known: {gpus_with_sheet}")
    sheets = datasheets.candidates(args.processor)
    published = [ceiling for sheet in sheets for ceiling in datasheets.ceilings(sheet)]
    if not published:
        raise TaupyError(f"no datasheet for '{args.processor}'; known: {gpus_with_sheet}")
    return published


def _measured(args: argparse.Namespace) -> list[Ceiling]:
    from taupy.profiledb.database import ProfileDB

    path, _ = options.file_and_store(args)
    with ProfileDB.open(path, create=True, readonly=False):
        pass  # what cannot be stored is not measured
    measured: list[Ceiling] = []
    problems: list[str] = []
    with bar.shown() as progress:
        for what, characterize in _processors(args):

            def tell(text: str, what: str = what) -> None:
                progress.begin(f"{what}: {text}")

            try:
                measured += characterize(tell)
            except TaupyError as problem:
                problems.append(f"{what}: {problem}")
    say(*problems)
    if not measured:
        raise TaupyError("nothing could be measured")
    return measured


_WAYS = (
    Column("processor", heading="Processor"),
    Column("kind", heading="Kind"),
    Column("name", heading="Ceiling"),
    Column("pattern", heading="Reached by"),
    Column("taupy_text", heading="taupy", audience="people"),
    Column("taupy", "float", audience="machines"),
    Column("pycuda_text", heading="PyCUDA", audience="people"),
    Column("pycuda", "float", audience="machines"),
    Column("unit", audience="machines"),
    Column("difference_percent", "percent", "Difference\n%"),
)


def _compare_ways(args: argparse.Namespace) -> int:
    from taupy.cuda import by_pycuda
    from taupy.ert import gpu

    rows: list[tuple[str | float, ...]] = []
    with bar.shown() as progress:
        for device in _gpus(args):

            def tell(text: str, name: str = device.name) -> None:
                progress.begin(f"{name}: {text}")

            subject = _subject(device.name, device.uuid)
            for ours, other in gpu.by_two_ways(subject, device, tell, by_pycuda.context(device)):
                rows.append(
                    (
                        *(ours.processor, ours.kind, ours.name, ours.pattern),
                        *(units.prefixed(ours.value, ours.unit), ours.value),
                        *(units.prefixed(other.value, other.unit), other.value),
                        *(ours.unit, 100 * (other.value / ours.value - 1)),
                    )
                )
    if not rows:
        raise TaupyError("this machine has no GPU usable by CUDA")
    terminal.show(View("", _WAYS, rows), form=args.form)
    return 0


Characterize = Callable[[Callable[[str], None]], Iterator[Ceiling]]


def _processors(args: argparse.Namespace) -> Iterator[tuple[str, Characterize]]:
    """The processors to measure: name, and the function that measures it.

    Raises:
        UsageError: this machine has no GPU with that ordinal.
    """
    from taupy.ert import cpu, gpu

    gpus = _gpus(args)
    if args.cpu or not args.gpu:
        name = host.host_metadata().get("CPU Type", "CPU")
        subject = _subject(name)
        yield name, partial(cpu.characterize, subject)
    for device in gpus:
        subject = _subject(device.name, device.uuid)
        yield device.name, partial(gpu.characterize, subject, device)


def _gpus(args: argparse.Namespace) -> list[Gpu]:
    """Those with the ordinals that were given; without any, all, or with --cpu none.

    Raises:
        UsageError: this machine has no GPU with that ordinal.
    """
    from taupy.cuda import driver

    count = 0 if args.cpu and not args.gpu else driver.device_count()
    chosen = sorted(set(args.gpu)) if args.gpu else range(count)
    for ordinal in chosen:
        if not 0 <= ordinal < count:
            gpus = f"GPUs 0 to {count - 1}" if count else "no GPU usable by CUDA"
            raise UsageError(f"no GPU {ordinal}: this machine has {gpus}")
    return [driver.Gpu(ordinal) for ordinal in chosen]


def _subject(processor: str, device_uuid: str = "") -> Subject:
    return Subject(
        characterization=new_uuid(),
        machine=host.hostname(),
        processor=processor,
        measured_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        device_uuid=device_uuid,
    )


def _keep(args: argparse.Namespace, listed: Sequence[Ceiling]) -> int:
    """Store the ceilings. A failure is said, makes the exit code 1, and they are shown anyway."""
    from taupy.profiledb.ceilings import add_ceilings
    from taupy.profiledb.database import ProfileDB

    path, store = options.file_and_store(args)
    try:
        with ProfileDB.open(path, create=True, readonly=False) as db:
            add_ceilings(db, listed)
    except DatabaseError as problem:
        say(f"the ceilings were not stored: {problem}")
        return 1
    if store:
        from taupy.commands import pushing

        try:
            say(pushing.kept(path, store, "the ceilings are"))
        except DatabaseError as problem:
            say(str(problem))  # they are in the file
    return 0


def _show(listed: Sequence[Ceiling], form: terminal.Form) -> None:
    rows = [
        (
            ceiling.machine,
            ceiling.processor,
            ceiling.device_uuid,
            ceiling.kind,
            ceiling.name,
            ceiling.pattern,
            ceiling.threads or None,
            units.prefixed(ceiling.value, ceiling.unit),
            ceiling.value,
            ceiling.unit,
            None if ceiling.median is None else units.prefixed(ceiling.median, ceiling.unit),
            ceiling.median,
            None if ceiling.spread is None else 100 * ceiling.spread,
            ceiling.samples,
            None if ceiling.clock_hz is None else round(ceiling.clock_hz / 1e9, 3),
            ceiling.bytes,
            ceiling.source,
            ceiling.reference,
            ceiling.measured_at,
            ceiling.characterization,
        )
        for ceiling in listed
    ]
    terminal.show(View("", _COLUMNS, rows), form=form)
