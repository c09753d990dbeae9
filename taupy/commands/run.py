"""Run a program and keep its exact profile as a trial.

    taupy run [options] script.py args...     a script, a folder or zip with __main__
    taupy run [options] -m module args...
    taupy run [options] -c code args...
    taupy run [options] -                     the script comes from standard input
    taupy run --repeat 5 script.py            five trials, to compare with others
    taupy run --sweep batch_size=16,32,64 -- script.py {batch_size}

Options end at the script; the rest belongs to the program. taupy's own output goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import select
import stat
import sys
import time

from taupy.collectors import requested
from taupy.commands import options
from taupy.commands.messages import say
from taupy.errors import TaupyError, UsageError
from taupy.network import layers, steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODULES_MIB = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "taupy run [options] {script.py | -m module | -c code | -} [args ...]"
    where = parser.add_argument_group("where to store the trial")
    where.add_argument("--db", metavar="FILE", help="the database (default: ./taupy.db)")
    where.add_argument("--app", metavar="NAME", help="application (default: the script's name)")
    where.add_argument("--experiment", metavar="NAME", help='experiment (default: "default")')
    where.add_argument("--trial", metavar="NAME", help="trial (default: the next number)")
    where.add_argument(
        "--merge-into",
        metavar="TRIAL",
        default=None,
        help="add what --metrics counts to that trial of the same program",
    )
    where.add_argument(
        "--meta", metavar="KEY=VALUE", action="append", default=[], help="metadata for the trial"
    )
    what = parser.add_argument_group("what to measure")
    what.add_argument("--c-calls", action="store_true", help="also record C functions")
    what.add_argument(
        "--no-layers",
        action="store_true",
        help="record the calls of a network's modules as routines, not as layers",
    )
    what.add_argument(
        "--include",
        metavar="PATTERN",
        action="append",
        default=[],
        help="record only routines that match: a glob on name or file, or name:GLOB, "
        "file:GLOB, module:GLOB; may be repeated",
    )
    what.add_argument(
        "--exclude",
        metavar="PATTERN",
        action="append",
        default=[],
        help="do not record matching routines",
    )
    what.add_argument(
        "--depth", metavar="N", type=int, default=None, help="call paths of at most N routines"
    )
    what.add_argument(
        "--fold-libraries",
        action="store_true",
        help="count library code called by library code for its caller",
    )
    what.add_argument(
        "--imports",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="record what libraries do while they are imported (default: an import is one row)",
    )
    what.add_argument(
        "--throttle",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="stop recording short, frequent routines (TAU_THROTTLE's rule), and name them",
    )
    what.add_argument("--throttle-calls", metavar="N", type=int, default=None)
    what.add_argument("--throttle-usec", metavar="T", type=float, default=None)
    what.add_argument(
        "--compensate",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="also store the metric time_compensated: time minus measurement cost",
    )
    what.add_argument(
        "--autograd",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="divide the backward passes of PyTorch by layer, for which a small library is "
        "compiled once (default: if layers are recorded)",
    )
    what.add_argument(
        "--collectives",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="record the collectives of PyTorch's process groups, for which a small library is "
        "compiled once (default: if a launcher has started several ranks)",
    )
    what.add_argument(
        "--cpu-time", action="store_true", help="also store the metric cpu_time for every routine"
    )
    what.add_argument(
        "--max-callpaths",
        metavar="N",
        type=int,
        default=None,
        help="maximum number of distinct call paths",
    )
    what.add_argument(
        "--metrics",
        metavar="LIST",
        action="append",
        default=[],
        help="also count these: counters and sets, such as flop,instructions or roofline "
        "(`taupy avail` lists them; default: TAU_METRICS)",
    )
    what.add_argument(
        "--counters-at",
        choices=("auto", "calls", "regions"),
        default=None,
        help="read CPU counters at every call, or at regions and phases only "
        "(default: at every call if that is cheap)",
    )
    what.add_argument(
        "--twice",
        action="store_true",
        help="run twice, once for times and once for --metrics, and store both in one trial",
    )
    gpu = parser.add_argument_group("GPUs")
    gpu.add_argument(
        "--gpu",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="measure CUDA kernels, copies and API calls (default: if the program uses "
        "CUDA; with --gpu it is an error if nothing was measured)",
    )
    gpu.add_argument(
        "--gpu-launches",
        metavar="N",
        type=int,
        default=None,
        help="count N launches of each kernel, grid and call path (default: 3)",
    )
    gpu.add_argument(
        "--pm-sampling",
        metavar="LIST",
        action="append",
        default=[],
        help="sample counters of the whole GPU while the program runs, at low cost: `timeline`, "
        "or names such as sm_active,bytes_dram (`taupy avail --sampling` lists them)",
    )
    gpu.add_argument(
        "--pm-interval",
        metavar="TIME",
        default=None,
        help="sampling interval: 1ms (the default), 100us, ...",
    )
    gpu.add_argument(
        "--trace",
        action="store_true",
        help="record start and end times of every kernel, copy, wait and API call",
    )
    gpu.add_argument(
        "--keep-modules", metavar="FOLDER",
        help="keep the code that the program loads onto GPUs there, for `taupy static FOLDER`",
    )  # fmt: skip
    gpu.add_argument(
        "--modules-limit", type=options.count, default=MODULES_MIB, metavar="MIB",
        help=f"keep no more than so many MiB of it (default: {MODULES_MIB})",
    )  # fmt: skip
    gpu.add_argument(
        "--cupti-backend",
        choices=("native", "python"),
        default=None,
        help="how to record GPU work: taupy's native collector, or, to compare the two, NVIDIA's "
        "cupti-python, which is slower and is imported into the program "
        "(default: native)",
    )
    how = parser.add_argument_group("how")
    how.add_argument("--engine", choices=("auto", "native", "python"), default=None)
    how.add_argument(
        "--repeat", metavar="N", type=int, default=None, help="run it N times; each run is a trial"
    )
    how.add_argument(
        "--sweep",
        metavar="NAME=VALUES",
        action="append",
        default=[],
        help="run it once for each value (16,32,64 or 1..8 or 2^0..2^6), substituted "
        "for {NAME} in its arguments; env:NAME sets an environment variable; may be repeated",
    )
    how.add_argument(
        "--watch",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="see from a small process beside the program when and how each process ends "
        "(default: yes)",
    )
    how.add_argument("--quiet", "-q", action="store_true", help="print nothing")
    parser.add_argument("target", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Split at the target: argparse must not see the program's arguments."""
    values = {
        name: action.nargs is None for action in parser._actions for name in action.option_strings
    }
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word == "--":
            break
        if word == "-" or not word.startswith("-") or word[:2] in ("-m", "-c"):
            break
        name = word.split("=", 1)[0]
        if name.startswith("--") and name not in values:
            fits = [long for long in values if long.startswith(name)]
            name = fits[0] if len(fits) == 1 else name
        at += 2 if values.get(name) and "=" not in word else 1
    parsed = parser.parse_args(arguments[:at])
    rest = arguments[at:]
    parsed.target = rest[1:] if rest[:1] == ["--"] else rest
    return parsed


def run(args: argparse.Namespace) -> int:
    target = _target(args.target)
    if args.repeat is not None or args.sweep:
        from taupy.commands import repeat

        return repeat.run(args, run, target, _rank())
    if args.twice:
        from taupy.commands import twice

        return twice.run(args, run, target, getattr(args, "rank", None) or _rank())
    from taupy.instrument import launch, runfolder

    settings = _settings(args, target)
    sampling = _sampling(args, settings)
    wants_to_join = bool(args.merge_into or getattr(args, "merge_into_uuid", ""))
    if wants_to_join and not settings.merge_into:
        say(*settings.notes)
        if args.merge_into:
            raise TaupyError("none of --metrics can be counted here; the program was not run")
        say("none of --metrics can be counted here; the program was not run again")
        return 0
    try:
        folder, refused = runfolder.make_run_folder(settings.uuid)
    except OSError as problem:
        raise TaupyError(
            f"cannot create a folder for the running profile ({problem}); "
            "set TAUPY_STATE_DIR to a writable folder"
        ) from None
    if text := settings.engine_options.get("gpu_counters"):
        (folder / "gpu.counters").write_bytes(text.encode())
    said = refused
    if sampling:
        from taupy.collectors import sampler

        number, problems = sampler.begin(folder, sampling, settings.root_pid, settings.root_start)
        settings.notes += problems
        said += sampling.said if number else []
    if not args.quiet:
        say(*settings.notes, *said, *_database_doubts(settings.database))
    try:
        if settings.gpu != "no" and requested.has_gpu():
            from taupy.collectors import nvml

            nvml.begin(folder, settings.root_pid, settings.root_start)
        _watch(args, folder, settings)
        _torch_libraries(args, settings, os.path.dirname(folder.path))
        launch.execute(folder, settings)
    except OSError as problem:
        raise TaupyError(f"{sys.executable} cannot be executed: {problem}") from None


def _watch(args: argparse.Namespace, folder: Any, settings: Any) -> None:
    """Start the watch, and let the trial say if there is none."""
    wanted = args.watch
    if wanted is None:
        wanted = options.project_settings().get("watch", True)
        if not isinstance(wanted, bool):
            raise UsageError(
                f"`watch` of [tool.taupy] in pyproject.toml is true or false, not {wanted!r}"
            )
    why = "it was turned off"
    if wanted:
        from taupy.instrument.launch import package_folder
        from taupy.watch import start

        why = start.begin(folder, settings.root_pid, package_folder())
    if why:
        settings.metadata["taupy.watch"] = f"none: {why}"


def _torch_libraries(args: argparse.Namespace, settings: Any, state: str) -> None:
    """Have PyTorch tell of backward passes and collectives, where it is installed and nobody
    objects."""
    by_layer = _is_wanted(args.autograd, "autograd")
    collectives = _is_wanted(args.collectives, "collectives", None)
    if settings.engine != "native" or not settings.engine_options.get("layers"):
        return
    from taupy.instrument import torch_library

    torch = torch_library.installed(sys.path)
    if torch is None:
        return
    tell = (lambda line: None) if args.quiet else say
    if by_layer:
        try:
            settings.engine_options["autograd"] = torch_library.library(
                torch_library.AUTOGRAD, torch, state, tell
            )
            settings.metadata[layers.AUTOGRAD] = f"by layer: PyTorch {torch.version}"
        except torch_library.Unusable as problem:
            settings.metadata[layers.AUTOGRAD] = f"{layers.ONE_PHASE}{problem}"
    if collectives is None:
        collectives = settings.world_size > 1 or torch_library.is_kept(
            torch_library.COLLECTIVES, torch, state
        )
    if collectives:
        try:
            library = torch_library.library(torch_library.COLLECTIVES, torch, state, tell)
            settings.engine_options["collectives"] = library
        except torch_library.Unusable as problem:
            settings.metadata["taupy.health.collectives"] = (
                f"collectives are not recorded: {problem}"
            )


def _is_wanted(asked: bool | None, name: str, otherwise: bool | None = True) -> bool | None:
    """What the option says, or else the project, or else `otherwise`."""
    wanted = options.project_settings().get(name, otherwise)
    if not isinstance(wanted, bool | None):
        raise UsageError(
            f"`{name}` of [tool.taupy] in pyproject.toml is true or false, not {wanted!r}"
        )
    return wanted if asked is None else asked


def _has_input() -> bool:
    """Can a script be read from standard input? Not if that is a terminal (without `-`), closed,
    or at its end."""
    try:
        mode = os.fstat(0).st_mode
        if stat.S_ISREG(mode):
            return os.lseek(0, 0, os.SEEK_CUR) < os.fstat(0).st_size
        if stat.S_ISCHR(mode):
            return not os.isatty(0) and not os.path.samestat(os.fstat(0), os.stat(os.devnull))
        poll = select.poll()
        poll.register(0, select.POLLIN)
        state = dict(poll.poll(0)).get(0, select.POLLIN)
    except OSError:
        return False
    return bool(state & select.POLLIN)


def _target(target: list[str]) -> list[str]:
    if not target:
        if _has_input():
            return ["-"]
        raise UsageError(
            "nothing to run: name a script, -m MODULE, -c CODE, or - for standard input; "
            "see `taupy run --help`"
        )
    if target[0] in ("-m", "-c") and len(target) < 2:
        raise UsageError(f"{target[0]} needs {'a module' if target[0] == '-m' else 'code'}")
    return target


_COUNTING = "taupy.count"
"""taupy's module that runs a script; the application is named after that script."""


def _names(target: list[str]) -> tuple[str, str]:
    """(application, folder of the program) for a target."""
    first = target[0]
    cwd = _cwd()
    if first.startswith("-m"):
        module, *rest = [first[2:], *target[1:]] if first[2:] else target[1:]
        if module == _COUNTING and rest and not rest[0].startswith("-"):
            return _names(rest)[0], cwd
        return module, cwd
    if first.startswith("-c"):
        return "-c", cwd
    if first == "-":
        return "stdin", cwd
    path = os.path.abspath(first)
    if os.path.isdir(path):
        return os.path.basename(path.rstrip("/")) or path, path
    stem = os.path.basename(path)
    return (stem.rsplit(".", 1)[0] if "." in stem[1:] else stem), os.path.dirname(path)


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _settings(args: argparse.Namespace, target: list[str]) -> Any:
    from taupy.instrument import launch, runfolder

    project = options.project_settings()
    notes: list[str] = []
    metadata = {}
    for item in args.meta:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--meta takes KEY=VALUE, got {item!r}")
        metadata[name] = value
    engine, early = _engine(args.engine or project.get("engine") or "auto", notes)
    engine_options = _engine_options(args, project)
    _count(args, project, engine, engine_options, notes, metadata)
    application, program_folder = _names(target)
    compensate = args.compensate
    if compensate is None:
        compensate = os.environ.get("TAU_COMPENSATE", "") in ("1", "on") or bool(
            project.get("compensate")
        )
    overhead: dict[str, float] = {}
    if engine == "native":
        from taupy.instrument.calibrate import calibrate

        overhead = calibrate(early, engine_options)
    elif compensate:
        notes.append("--compensate needs the compiled engine: no compensated times are stored")
    interpreter = [sys.orig_argv[0] or sys.executable, *launch.interpreter_options()]
    if not launch.is_boot_installed(interpreter[1:]):
        letters = "".join(part[1:] for part in interpreter[1:] if not part.startswith("--"))
        if any(letter in letters for letter in "ISE"):
            notes.append(
                "the interpreter's options disable taupy's start-up hook: this run is not measured"
            )
    gpu = _gpu(args, project, engine, engine_options, notes)
    _cupti_backend(args, project, gpu, engine_options, notes, metadata)
    _keep_modules(args, gpu, engine_options, metadata)
    if engine_options.get("gpu_counters"):
        gpu = "no"  # this run counts kernels instead of timing them
    rank, world_size, job = getattr(args, "rank", None) or _rank()
    return runfolder.RunSettings(
        uuid=job or runfolder.new_uuid(),
        database=options.database_path(args),
        application=args.app or project.get("app") or application,
        experiment=args.experiment or project.get("experiment") or "default",
        trial=args.trial,
        engine=engine,
        engine_options=engine_options,
        metadata=metadata,
        arguments=target,
        interpreter=interpreter,
        cwd=_cwd(),
        module_path=[path for path in sys.path if path and os.path.abspath(path) != _cwd()]
        + [launch.package_folder()],
        library_folders=launch.library_folders(),
        program_folder=program_folder,
        launched_at=time.time(),
        root_pid=os.getpid(),
        root_start=runfolder.process_start(os.getpid()),
        boot_id=runfolder.boot_id(),
        host=os.uname().nodename,
        early=early,
        overhead=overhead,
        compensate=compensate,
        fold_libraries=args.fold_libraries or bool(project.get("fold_libraries")),
        quiet=args.quiet,
        rank=rank,
        world_size=world_size,
        notes=notes,
        gpu=gpu,
        merge_into=_merge_into(args, engine_options),
    )


def _merge_into(args: argparse.Namespace, engine_options: dict[str, Any]) -> str:
    """The uuid of the trial to add the counters to; "" for none."""
    text = args.merge_into
    uuid = getattr(args, "merge_into_uuid", "")
    if text and not args.metrics:
        raise UsageError("--merge-into adds counters to a trial: name them with --metrics")
    if text:
        from pathlib import Path

        from taupy.profiledb import selector
        from taupy.profiledb.database import ProfileDB

        with ProfileDB.open(Path(options.database_path(args)), create=False) as db:
            uuid = selector.trial(db, text).uuid
    counts = ("counters", "blas", "gpu_counters")
    return uuid if any(engine_options.get(name) for name in counts) else ""


def _count(
    args: argparse.Namespace,
    project: dict[str, Any],
    engine: str,
    engine_options: dict[str, Any],
    notes: list[str],
    metadata: dict[str, str],
) -> None:
    """Find out how to count the metrics of `--metrics`, and put that into the settings."""
    names, source = requested.listed(args.metrics, project)
    if not names:
        return
    wanted = requested.metrics(names, source, project, requested.has_gpu())
    notes += wanted.notes
    metadata["taupy.option.metrics"] = ", ".join(names)
    if wanted.cpu_time:
        engine_options["cpu_time"] = True
    if wanted.gpu:
        _count_on_gpus(args, wanted.gpu, engine, engine_options, notes)
    if wanted.cpu and engine != "native":
        notes.append(f"{', '.join(wanted.cpu)}: counters need the compiled engine")
    elif wanted.cpu:
        from taupy.collectors import perf_events

        room = perf_events.METRICS_AT_MOST - bool(engine_options["cpu_time"])
        at: Any = args.counters_at or project.get("counters_at") or "auto"
        if at not in ("auto", "calls", "regions"):
            raise UsageError(
                "`counters_at` of [tool.taupy] in pyproject.toml is auto, calls or regions, "
                f"not {at!r}"
            )
        prepared = perf_events.prepare(wanted.cpu, at, room=room)
        notes += prepared.notes
        metadata.update(prepared.facts)
        engine_options.update(prepared.engine_options())
        if wanted.analytic == "fallback" and "flop" in dict(prepared.metrics):
            return
    if wanted.analytic and args.target[:2] != ["-m", "taupy.count"]:  # which counts on its own
        _tell_operations(engine, engine_options, notes, metadata)


def _count_on_gpus(
    args: argparse.Namespace,
    names: list[str],
    engine: str,
    engine_options: dict[str, Any],
    notes: list[str],
) -> None:
    """Settings for counting kernels: a separate mode, in which they are not timed."""
    launches = 3 if args.gpu_launches is None else args.gpu_launches
    if launches < 1:
        raise UsageError(f"--gpu-launches must be at least 1, got {launches}")
    if engine != "native":
        notes.append(f"{', '.join(names)}: counted with the compiled engine only")
        return
    from taupy.collectors import cupti_counters

    prepared = cupti_counters.prepare(names, launches, regions=args.counters_at == "regions")
    notes += prepared.notes
    if prepared.text:
        engine_options["gpu_counters"] = prepared.text
        engine_options["gpu_counter_names"] = names


def _sampling(args: argparse.Namespace, settings: Any) -> Any:
    """The sampler's settings for `--pm-sampling`; None if nothing is sampled."""
    project = options.project_settings()
    names, optional = requested.sampled(args.pm_sampling, project)
    if not names:
        if args.pm_interval is not None:
            raise UsageError("--pm-interval needs --pm-sampling NAMES")
        return None
    if settings.engine_options.get("gpu_counters"):
        if args.pm_sampling:
            raise UsageError(
                "--pm-sampling and --metrics need separate runs, since --metrics serializes "
                "kernels: use --twice, or run once for each"
            )
        return None
    interval_ns = requested.interval_ns(args.pm_interval or project.get("pm_interval") or "1ms")
    if not requested.has_gpu():
        settings.notes.append("--pm-sampling: this machine has no NVIDIA GPU; nothing is sampled")
        return None
    if requested.local_rank():
        return None  # one rank per machine samples all its GPUs
    from taupy.collectors import sampler

    prepared = sampler.prepare(names, interval_ns, optional)
    settings.notes += prepared.notes
    settings.metadata["taupy.option.pm_sampling"] = ", ".join(names)
    return prepared if prepared.settings else None


def _tell_operations(
    engine: str, engine_options: dict[str, Any], notes: list[str], metadata: dict[str, str]
) -> None:
    """Settings for operations and bytes of BLAS calls, derived from their shapes."""
    library = requested.blas_library() if engine == "native" else None
    if library is None:
        notes.append(
            "analytic: counting BLAS calls needs taupy's compiled library, which is missing"
        )
        return
    engine_options["blas"] = library
    metadata["taupy.option.analytic"] = "BLAS"
    notes.append(
        "analytic: flop and bytes are derived from the shapes of BLAS calls (matrix products, "
        "dot products); element-wise operations and convolutions are not counted"
    )


def _engine(asked: str, notes: list[str]) -> tuple[str, tuple[int, int]]:
    """The engine to use, and a first reading of its clock."""
    if asked not in ("auto", "native", "python"):
        raise UsageError(f"unknown engine {asked!r}: use auto, native or python")
    from taupy.instrument import launch

    if launch.is_free_threaded():
        raise TaupyError(
            "this Python is a free-threaded build, which taupy cannot measure: without the GIL, "
            "threads would miscount each other's calls; run the program with "
            f"python{sys.version_info.major}.{sys.version_info.minor}, the build with the GIL"
        )
    if asked == "python":
        return "python", (0, 0)
    try:
        from taupy._native import engine
    except ImportError as problem:
        if asked == "native":
            raise TaupyError(
                f"the compiled engine is missing ({problem}); see `taupy doctor`"
            ) from None
        notes.append(
            "the compiled engine is missing: measuring with the slower one in plain Python "
            "(see `taupy doctor`)"
        )
        return "python", (0, 0)
    return "native", engine.read_clock()


def _gpu(
    args: argparse.Namespace,
    project: dict[str, Any],
    engine: str,
    engine_options: dict[str, Any],
    notes: list[str],
) -> str:
    """Whether to measure GPUs: "auto", "yes" (requested) or "no"."""
    asked = args.gpu if args.gpu is not None else project.get("gpu")
    if asked is False:
        return "no"
    if engine != "native":
        if asked or args.trace:
            notes.append("measuring GPUs needs the compiled engine: this run does not")
        return "no"
    from taupy.collectors.cupti_paths import libraries

    folders = [path for path in sys.path if path]
    engine_options["gpu"] = 1
    engine_options["gpu_libraries"] = [os.fsencode(path) for path in libraries(folders)]
    engine_options["gpu_trace"] = args.trace or bool(project.get("trace"))
    if save := os.environ.get("TAUPY_GPU_SAVE"):  # fixtures for tests: see tests/gpu/record.py
        engine_options["gpu_save"] = os.fsencode(os.path.abspath(save))
    for name in ("gpu_flush_ms", "gpu_end_ms"):
        if (value := _number(name, None, None, project)) is not None:
            engine_options[name] = int(value)
    return "yes" if asked else "auto"


def _keep_modules(
    args: argparse.Namespace,
    gpu: str,
    engine_options: dict[str, Any],
    metadata: dict[str, str],
) -> None:
    """Where modules that the program loads are kept.

    Raises:
        UsageError: nothing of GPUs is measured, or the folder cannot be torch_library.
    """
    if args.keep_modules is None:
        return
    if gpu == "no" or engine_options.get("cupti_backend"):
        raise UsageError("--keep-modules needs the native measurement of GPUs, which is off here")
    folder = os.path.abspath(args.keep_modules)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"--keep-modules: {folder} cannot be made: {problem.strerror}") from None
    engine_options["gpu_modules"] = os.fsencode(folder)
    engine_options["gpu_modules_bytes"] = args.modules_limit << 20
    metadata["GPU Modules"] = folder


def _cupti_backend(
    args: argparse.Namespace,
    project: dict[str, Any],
    gpu: str,
    engine_options: dict[str, Any],
    notes: list[str],
    metadata: dict[str, str],
) -> None:
    """Whether cupti-python records GPU work instead of the native collector.

    Raises:
        TaupyError: it was requested and is not installed.
    """
    backend = args.cupti_backend or project.get("cupti_backend") or "native"
    if backend not in ("native", "python"):
        raise UsageError(f"unknown CUPTI backend {backend!r}: use native or python")
    if backend == "native" or gpu == "no":
        return
    if engine_options.get("gpu_counters"):
        notes.append("--cupti-backend python: it times kernels and cannot count them")
        return
    from taupy.collectors import cupti_python_check

    if problem := cupti_python_check.problem():
        raise TaupyError(f"--cupti-backend python: {problem}")
    engine_options["cupti_backend"] = backend
    metadata["taupy.option.cupti_backend"] = f"{backend} ({cupti_python_check.installed()})"


def _number(name: str, given: Any, environment: str | None, project: dict[str, Any]) -> Any:
    """An option's number, from the command line, the environment or project settings."""
    if given is not None:
        return given
    if environment and (text := os.environ.get(environment)):
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{environment} is not a number: {text!r}") from None
    value = project.get(name)
    if value is not None and not isinstance(value, int | float):
        raise UsageError(f"`{name}` of [tool.taupy] in pyproject.toml is not a number: {value!r}")
    return value


def _patterns(name: str, given: list[str], project: dict[str, Any]) -> list[str]:
    value = given or project.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"`{name}` of [tool.taupy] in pyproject.toml is not a list of strings")
    return value


def _engine_options(args: argparse.Namespace, project: dict[str, Any]) -> dict[str, Any]:
    depth = _number("depth", args.depth, "TAU_DEPTH_LIMIT", project)
    if depth is not None and depth < 1:
        raise UsageError(f"--depth must be at least 1, got {depth}")
    throttle = args.throttle
    if throttle is None:
        throttle = os.environ.get("TAU_THROTTLE", "") in ("1", "on") or bool(
            project.get("throttle")
        )
    calls = _number("throttle_calls", args.throttle_calls, "TAU_THROTTLE_NUMCALLS", project)
    usec = _number("throttle_usec", args.throttle_usec, "TAU_THROTTLE_PERCALL", project)
    limit = _number("max_callpaths", args.max_callpaths, None, project)
    if limit is not None and limit < 1:
        raise UsageError(f"--max-callpaths must be at least 1, got {limit}")
    chosen: dict[str, Any] = {
        "c_calls": args.c_calls or bool(project.get("c_calls")),
        "cpu_time": args.cpu_time or bool(project.get("cpu_time")),
        "imports": bool(project.get("imports") if args.imports is None else args.imports),
        "depth": int(depth or 0),
        "include": _patterns("include", args.include, project),
        "exclude": _patterns("exclude", args.exclude, project),
        "throttle": throttle,
        "throttle_calls": int(calls if calls is not None else 100_000),
        "throttle_ns_per_call": int((usec if usec is not None else 10) * 1000),
        "sample_ms": 10,
    }
    if not args.no_layers:
        chosen |= layers.engine_options()
    chosen |= steps.engine_options()
    if limit is not None:
        chosen["max_callpaths"] = int(limit)
    return chosen


def _rank() -> tuple[int, int, str | None]:
    """Rank, number of ranks and identity of the job under torchrun, mpirun or srun.

    All ranks of a job carry the same identity, so that they become one trial.
    """
    for rank_name, size_name, job_names in (
        ("RANK", "WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")),
        (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            ("PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"),
        ),
        ("PMI_RANK", "PMI_SIZE", ("PMI_JOBID", "HYDI_CONTROL_FD")),
        ("SLURM_PROCID", "SLURM_NTASKS", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
    ):
        try:
            rank, size = int(os.environ[rank_name]), int(os.environ[size_name])
        except (KeyError, ValueError):
            continue
        if size <= 1 or not 0 <= rank < size:
            continue
        from taupy.instrument.runfolder import boot_id, derived_uuid, process_start

        text = [os.environ.get(name, "") for name in job_names]
        if int(os.environ.get("LOCAL_WORLD_SIZE", "0") or 0) == size:
            # All ranks of a job share one parent process; use it to identify the job.
            parent = os.getppid()
            text += [str(parent), str(process_start(parent)), boot_id()]
        return rank, size, derived_uuid("\0".join([rank_name, *text]))
    return 0, 1, None


def _database_doubts(database: str) -> list[str]:
    """Warnings about a database that cannot take the trial, as far as visible now."""
    folder = os.path.dirname(database)
    if os.path.isdir(database):
        return [f"{database} is a directory: the profile will be saved beside it"]
    if not os.path.isdir(folder):
        return [f"no directory {folder} for the database: create it, or use --db"]
    if os.path.exists(database) and not os.path.isfile(database):
        return [f"{database} is not a regular file: the profile will be saved beside it"]
    if os.path.exists(database) and not os.access(database, os.W_OK):
        return [f"{database} cannot be written: the profile will be saved beside it"]
    return []
