"""Show what the machine code of GPU kernels says; needs no GPU.

    taupy static kernels.cubin                 one line per kernel and chip
    taupy static libnccl.so.2 --chip sm_90 --csv
    taupy static ~/.triton/cache --kernel '*matmul*'
    taupy static kernels.cubin --kernel saxpy  mix, memory, control flow, occupancy
    taupy static kernels.cubin --kernel saxpy --gpu H100 --threads 1000000 --trips 100
    taupy static kernels.cubin --store         keep it for `taupy kernel` and `taupy candidates`

FILE is a .cubin, a .fatbin, a library or program with embedded code, PTX, or a folder of such
files (the caches of Triton and of Inductor). NVIDIA's nvdisasm and cuobjdump read them, and msgspec
what they print: pip install 'taupy-profiler[static]'. Counts are of instructions in the code, not
of executions.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence

from taupy.analysis import kernel_advice, kernel_bound, kernel_occupancy
from taupy.analysis.kernel_occupancy import fitting
from taupy.catalog import datasheets
from taupy.catalog.architectures import chip as chip_of
from taupy.catalog.datasheets import Datasheet
from taupy.catalog.occupancy import LIMITS
from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.errors import UsageError
from taupy.model.kernel_code import KernelCode
from taupy.model.kernel_names import demangled, short_name
from taupy.model.progress import SILENT, Progress
from taupy.pprof import code as code_views
from taupy.pprof import selection, terminal
from taupy.pprof.view import View

OTHER_CHIPS = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="files or folders with GPU code")
    parser.add_argument(
        "--kernel", metavar="NAME",
        help="only these, with all tables: a part of the name, a pattern with * and ?, or "
        "/REGEX/",
    )  # fmt: skip
    parser.add_argument(
        "--chip", action="append", default=[], metavar="CHIP",
        help="only code for this chip (sm_90, 9.0, H100); may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--block", type=options.count, metavar="THREADS",
        help="occupancy for this block size (default: the code's own, else the best one)",
    )  # fmt: skip
    parser.add_argument(
        "--dynamic-shared", type=options.count, metavar="BYTES",
        help="shared memory that the launch adds to the code's own (default: from Triton's cache, "
        "else 0)",
    )  # fmt: skip
    parser.add_argument(
        "--gpu",
        metavar="MODEL",
        help="estimate a lower bound of the time on this GPU; needs --threads",
    )
    parser.add_argument(
        "--threads", type=options.count, metavar="N", help="threads of the whole grid, for --gpu"
    )
    parser.add_argument(
        "--trips", type=_trips, default=(), metavar="N[,N...]",
        help="for --gpu: how often loops run, by depth, outermost first (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--functions", action="store_true",
        help="also functions that kernels call by address, such as most of NCCL's code",
    )  # fmt: skip
    parser.add_argument(
        "--source", action="store_true", help="instructions by source line, with --kernel"
    )
    parser.add_argument(
        "--store", action="store_true", help="keep the records in the database, all or none"
    )
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def _trips(text: str) -> tuple[float, ...]:
    try:
        trips = tuple(float(part) for part in text.split(","))
    except ValueError:
        trips = ()
    if not trips or min(trips) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 100,8")
    return trips


def run(args: argparse.Namespace) -> int:
    sheet = _sheet(args)
    with bar.shown() as progress:
        codes, remarks = read(
            args.files, args.chip, args.kernel, args.source or args.store, args.functions, progress
        )
        if args.store:
            codes = _stored(args, codes)
        if args.kernel is None:
            rows = ((code, fitting(code, args.block, args.dynamic_shared)) for code in codes)
            views = [code_views.table(rows, remarks)]
        else:
            views = [view for code in codes for view in _views(code, args, sheet)]
    for remark in remarks if args.kernel is not None or terminal.holds_rows_only(args.form) else ():
        say(remark)
    terminal.show_all(views, args.form)
    return 0


def read(
    files: Sequence[str],
    chips: Sequence[str] = (),
    name: str | None = None,
    sources: bool = False,
    functions: bool = False,
    progress: Progress = SILENT,
) -> tuple[Iterable[KernelCode], list[str]]:
    """The kernels of files, and remarks, which are complete once all kernels have been read.

    Raises:
        FormatError: a file cannot be read.
        UsageError: a chip is unknown.
    """
    try:
        from taupy.static import reading
    except ImportError as problem:
        raise UsageError(
            f"listings of machine code are read by msgspec ({problem}): "
            "pip install 'taupy-profiler[static]'"
        ) from None
    progress.begin("reading kernels", reading.size(files), "B")
    request = reading.Request(
        chips=[capability(chip) for chip in chips],
        names=None if name is None else _meant(name),
        sources=sources,
        functions=functions,
        advance=progress.advance,
    )
    return reading.kernels(files, request), request.remarks


def capability(text: str) -> str:
    """The compute capability of a chip: "9.0" for sm_90a."""
    if match := re.fullmatch(r"(?:sm_?)?(\d+)(\d)[af]?|(\d+\.\d)", text):
        return match[3] or f"{match[1]}.{match[2]}"
    return chip_of(text).compute_capability


def _meant(pattern: str):  # type: ignore[no-untyped-def]
    test = selection.name_test(pattern)

    def meant(name: str) -> bool:
        full = demangled(name)
        return test(name, name) or test(full, short_name(full))

    return meant


def _sheet(args: argparse.Namespace) -> Datasheet | None:
    """The GPU for which to estimate; None without --gpu.

    Raises:
        UsageError: the GPU is unknown, or --kernel or --threads is missing.
    """
    if args.gpu is None:
        return None
    if not args.threads or args.kernel is None:
        raise UsageError("--gpu needs --kernel NAME and --threads N, the threads of a whole launch")
    sheets = datasheets.candidates(args.gpu)
    if not sheets:
        models = ", ".join(sheet.gpu for sheet in datasheets.DATASHEETS)
        raise UsageError(f"there is no datasheet for '{args.gpu}' (known: {models})")
    return sheets[0]


def _views(
    code: KernelCode, args: argparse.Namespace, sheet: Datasheet | None
) -> Iterator[View]:  # fmt: skip
    yield code_views.table([(code, fitting(code, args.block, args.dynamic_shared))])
    yield from code_views.details(code)
    if code.is_kernel:
        yield code_views.occupancies(_occupancies(code, args), code)
    yield code_views.advice(kernel_advice.advice(code, args.block, args.dynamic_shared))
    if sheet is not None:
        bound = kernel_bound.estimate(code, sheet, args.threads, args.trips)
        if bound is None:
            say(f"no rates are known for {sheet.gpu} ({sheet.compute_capability}): no estimate")
        else:
            yield code_views.estimate(bound, args.threads, args.trips)
    if args.source:
        yield code_views.lines(code)


def _occupancies(
    code: KernelCode, args: argparse.Namespace
) -> dict[int, dict[str, tuple[float, str] | None]]:
    chips = [capability(chip) for chip in args.chip] or [
        code.chip, *(chip for chip in OTHER_CHIPS if chip != code.chip and chip in LIMITS)
    ]  # fmt: skip
    block = args.block or code.launch.block
    blocks = (block,) if block else kernel_occupancy.SHOWN_BLOCKS
    by_block: dict[int, dict[str, tuple[float, str] | None]] = {}
    for fit in kernel_occupancy.fits(code, chips, blocks, args.dynamic_shared):
        share_and_limiter = (
            None if fit.occupancy is None else (fit.occupancy.share, fit.occupancy.limiter)
        )
        by_block.setdefault(fit.block, {})[fit.chip] = share_and_limiter
    return by_block


def _stored(args: argparse.Namespace, codes: Iterable[KernelCode]) -> Iterator[KernelCode]:
    """The same kernels, each stored when it is read; after an error, none is stored."""
    from taupy.profiledb import kernel_codes
    from taupy.profiledb.database import ProfileDB

    file, store = options.file_and_store(args)
    modules = set()
    with ProfileDB.open(file, create=True) as db:
        for code in kernel_codes.storing(db, codes):
            modules.add(code.module)
            yield code
    if store:
        from taupy.commands import pushing

        say(pushing.kept(file, store, "the kernels are", modules))
