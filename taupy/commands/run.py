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

import os
import select
import stat
import sys

from taupy.collectors import requested
from taupy.commands import options, run_gpu, run_lines, run_target
from taupy.commands.messages import say
from taupy.commands.run_arguments import add_arguments as add_arguments
from taupy.commands.run_arguments import parse as parse
from taupy.commands.run_arguments import parsed_plainly as parsed_plainly
from taupy.commands.run_counts import count
from taupy.commands.run_plan import Plan, merge_into
from taupy.errors import NOTICES, DatabaseError, TaupyError, UsageError
from taupy.instrument import launchers
from taupy.network import layers
from taupy.state import limits, rights

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from taupy.commands.run_target import Target
    from taupy.instrument.launchers import Job


def run(args: argparse.Namespace) -> int:
    target = _target(args)
    if args.repeat is not None or args.sweep:
        from taupy.commands import repeat

        return repeat.run(args, run, target, _job(args))
    if args.twice:
        from taupy.commands import twice

        return twice.run(args, run, target, _job(args))
    from taupy.instrument import launch

    program = run_target.resolve(target)
    if program.reading and not args.quiet:
        say(program.reading)
    if hindrance := _hindrance(program.options):
        if _is_wanted(args.gpu, "gpu", None):
            raise TaupyError(f"{hindrance}: --gpu cannot be fulfilled; the program was not run")
        if not args.quiet:
            say(f"{hindrance}: this run is not measured")
        launch.execute_unmeasured([*program.options, *program.words])
    settings = _settings(args, program)
    sampling = run_gpu.sampling(args, settings)
    wants_to_join = bool(args.merge_into or getattr(args, "merge_into_uuid", ""))
    if wants_to_join and not settings.merge_into:
        say(*settings.notes)
        if args.merge_into:
            raise TaupyError("none of --metrics can be counted here; the program was not run")
        say("none of --metrics can be counted here; the program was not run again")
        return 0
    wants_watch = _wants_watch(args)
    try:
        folder, refused = _run_folder(settings, _if_unwatched(wants_watch, settings))
    except OSError as problem:
        import errno

        limit = limits.file_limit() if problem.errno == errno.EFBIG else ""
        lack = "cannot create a folder for the running profile" + (
            f": {limit}, and its profile takes more"
            if limit
            else f" ({problem}); set TAUPY_STATE_DIR to a writable folder"
        )
        if wants_to_join:
            raise TaupyError(lack) from None
        say(*NOTICES, f"{lack}: this run is not measured")
        launch.execute_unmeasured([*program.options, *program.words])
    if text := settings.engine_options.get("gpu_counters"):
        if not settings.merge_into:
            text += "times\n"  # of kernels, where counters are refused
        (folder / "gpu.counters").write_bytes(text.encode())
    messages = refused
    if sampling:
        from taupy.collectors import sampler

        number, problems = sampler.begin(folder, sampling, settings.root_pid, settings.root_start)
        settings.notes += problems
        messages += sampling.announced if number else []
    args.quiet = args.quiet or settings.rank > 0  # rank 0 speaks for the job
    if not args.quiet:
        say(*NOTICES, *settings.notes, *messages, *_database_doubts(settings.database))
    try:
        if lack := _torch_libraries(args, folder, settings):
            settings.notes.append(lack)
            if not args.quiet:
                say(lack)
        if settings.times_gpus and requested.has_gpu():
            from taupy.collectors import nvml

            nvml.begin(folder, settings.root_pid, settings.root_start)
        lines = _is_wanted(None if args.lines is None else bool(args.lines), "lines")
        _watch(wants_watch, lines, folder, settings)
        launch.execute(folder, settings)
    except OSError as problem:
        raise TaupyError(f"{sys.executable} cannot be executed: {problem}") from None


def _hindrance(options: list[str]) -> str:
    """Why the program cannot be measured; "" if it can.

    Args:
        options: the interpreter's, of the program alone.
    """
    from taupy.instrument import launch

    if rights.are_raised():
        return (
            "the interpreter has rights that its user lacks (set-user-ID, set-group-ID or file "
            "capabilities)"
        )
    flags = sys.flags
    is_hook_hindered = flags.isolated or flags.no_site or flags.ignore_environment or options
    if is_hook_hindered and not launch.is_boot_installed([*launch.interpreter_options(), *options]):
        return "the interpreter's options disable taupy's start-up hook"
    return ""


def _wants_watch(args: argparse.Namespace) -> bool:
    wanted = args.watch
    if wanted is None:
        wanted = options.project_settings().get("watch", True)
        if not isinstance(wanted, bool):
            raise UsageError(
                f"`watch` of [tool.taupy] in pyproject.toml must be true or false, not {wanted!r}"
            )
    return bool(wanted)


def _run_folder(settings: Any, database: str | None) -> tuple[Any, list[str]]:
    """As `make_run_folder`; beside the database where no other place can be had."""
    from taupy.instrument import runfolder

    try:
        return runfolder.make_run_folder(settings.uuid, database)
    except OSError as problem:
        if database or os.environ.get("TAUPY_STATE_DIR"):  # which the user has chosen
            raise
        folder, refused = runfolder.make_run_folder(settings.uuid, str(settings.database))
        return folder, [f"{problem}: the run is kept beside the database", *refused]


def _if_unwatched(wants_watch: bool, settings: Any) -> str | None:
    """The database, if no watch will store a run whose program is killed: then the run folder
    should lie where the next command will look, whatever its HOME."""
    from taupy.watch import start

    pid = settings.root_pid
    if not wants_watch or start.hindrance(pid) or start.may_end_with(pid):
        return str(settings.database)
    return None


def _watch(wanted: bool, lines: bool | None, folder: Any, settings: Any) -> None:
    """Start the watch, which also looks at lines; if it does not, the trial's metadata says why."""
    why = "it was turned off"
    is_native, is_inside = settings.engine == "native", "lines_inside" in settings.engine_options
    of_watch = lines and is_native and not is_inside
    if wanted:
        from taupy.watch import start

        options = settings.engine_options if of_watch else None
        why = start.begin(folder, settings.root_pid, options)
    if not lines:
        settings.metadata["taupy.lines"] = "none: they were turned off"
    elif why and of_watch:
        settings.metadata["taupy.lines"] = (
            "none: there is no watch: --lines=inside has them, with a thread in the program"
        )
    if why:
        settings.metadata["taupy.watch"] = f"none: {why}"


def _import_paths(settings: Any) -> list[str]:
    """Where the program looks for modules; the order may differ in our own path (`__main__.py`)."""
    first = [] if sys.flags.safe_path else [settings.program_folder]
    python_path = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    return [*first, *(path for path in python_path.split(os.pathsep) if path), *sys.path]


def _torch_libraries(args: argparse.Namespace, folder: Any, settings: Any) -> str:
    """Have PyTorch report layers, backward passes, operators and collectives, where it is
    installed, the libraries for it were built, and the user has not turned that off.

    Returns:
        Why operators are not recorded although `--operators` asks for them; else "".
    """
    by_layer = _is_wanted(args.autograd, "autograd")
    operators = _operators(args)
    collectives = _is_wanted(args.collectives, "collectives", None)
    if settings.engine == "native":
        settings.engine_options["mpi"] = int(collectives is not False)
    if settings.engine == "native" and settings.times_gpus and collectives is not False:
        settings.engine_options["nccl"] = int(bool(collectives) or requested.has_gpu())
    why = ""
    if settings.engine != "native":
        why = "that needs the compiled engine"
    elif operators or settings.engine_options.get("layers"):
        why = _take_torch_libraries(folder, settings, by_layer, operators, collectives is not False)
    if not operators:
        return ""
    if why:
        settings.metadata[layers.OPERATOR_CALLS] = layers.NOT_RECORDED + why
    return why and f"--operators: operators are not recorded: {why}"


def _take_torch_libraries(
    folder: Any, settings: Any, by_layer: Any, operators: int, collectives: bool
) -> str:
    """Take the libraries that were built for PyTorch; returns why there is none for operators."""
    from taupy._native import engine
    from taupy.instrument import torch_library
    from taupy.instrument.runfolder import state_of

    torch = torch_library.installed(_import_paths(settings))
    if torch is None:
        return f"PyTorch is not installed for {sys.executable}"
    has_layers, why = bool(settings.engine_options.get("layers")), ""
    wanted = {
        torch_library.AUTOGRAD: by_layer and (has_layers or operators),
        torch_library.OPERATORS: (by_layer and has_layers) or operators,
        torch_library.COLLECTIVES: collectives and has_layers,
    }
    for kind in (kind for kind, is_wanted in wanted.items() if is_wanted):
        try:
            path, content = torch_library.kept(kind, torch, state_of(folder))
            checked = f"{engine.digest(content)} {path}"  # the engine compares, see library.h
            settings.engine_options[kind.name] = os.fsencode(checked)
            fact = f"{kind.done}PyTorch {torch.version}"
        except torch_library.Unusable as problem:
            fact = f"{kind.undone}{problem}"
            why = str(problem) if kind is torch_library.OPERATORS else why
        settings.metadata[kind.fact] = fact
    if operators and not why:
        settings.engine_options["operator_calls"] = operators
        settings.metadata[layers.OPERATOR_CALLS] = f"{layers.RECORDED}PyTorch {torch.version}"
    return why


def _operators(args: argparse.Namespace) -> int:
    """1: operators are wanted; 2: with the sizes and types of their inputs."""
    if args.operators is False and args.signatures:
        raise UsageError("--signatures are those of operators, which --no-operators excludes")
    if args.operators is not False and _is_wanted(args.signatures, "signatures", False):
        return 2
    return int(bool(_is_wanted(args.operators, "operators", False)))


def _is_wanted(option: bool | None, name: str, otherwise: bool | None = True) -> bool | None:
    """The option's value, or else the project's, or else `otherwise`."""
    wanted = options.project_settings().get(name, otherwise)
    if not isinstance(wanted, bool | None):
        raise UsageError(
            f"`{name}` of [tool.taupy] in pyproject.toml must be true or false, not {wanted!r}"
        )
    return wanted if option is None else option


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


def _target(args: argparse.Namespace) -> list[str]:
    target: list[str] = args.target
    if not target:
        if _has_input():
            return ["-"]
        for value in vars(args).values():
            for word in value if isinstance(value, list) else [value]:
                if str(word).endswith(".py") and os.path.isfile(word):
                    raise UsageError(
                        f"nothing to run: an option has taken {word} for its value, which it lacks"
                    )
        raise UsageError(
            "nothing to run: name a script, -m MODULE, -c CODE, or - for standard input; "
            "see `taupy run --help`"
        )
    return target


_COUNTING = "taupy.count"
"""taupy's module that runs a script; the application is named after that script."""


_LAUNCHERS = (
    *("torch.distributed.run", "torch.distributed.launch", "torchrun", "deepspeed", "horovodrun"),
    *("accelerate", "accelerate.commands.launch", "accelerate.commands.accelerate_cli"),
    *("deepspeed.launcher.runner", "horovod.runner.launch", "lightning", "fabric", "composer"),
)
"""Modules and scripts that start a script on several ranks; the application is that script."""


def _launched(words: list[str]) -> list[str]:
    """The script or module among the words after a launcher; none if it is not clear."""
    for at, word in enumerate(words):
        if word.endswith(".py") and not word.startswith("-"):
            return words[at:]
        if word in ("-m", "--module") and at + 1 < len(words):
            return ["-m", *words[at + 1 :]]
    return []


def _launches(target: list[str]) -> bool:
    """Whether a target starts a script on several ranks."""
    if target[0].startswith("-m"):
        return (target[0][2:] or target[1]) in _LAUNCHERS
    return not target[0].startswith("-") and os.path.basename(target[0]) in _LAUNCHERS


def _names(target: list[str]) -> tuple[str, str]:
    """(application, folder of the program) for a target."""
    first = target[0]
    cwd = _cwd()
    if first.startswith("-m"):
        module, *rest = [first[2:], *target[1:]] if first[2:] else target[1:]
        if module == _COUNTING and rest and not rest[0].startswith("-"):
            return _names(rest)[0], cwd
        if _launches(target) and (launched := _launched(rest)):
            return _names(launched)
        return module, cwd
    if first.startswith("-c"):
        return "-c", cwd
    if first == "-":
        return "stdin", cwd
    if _launches(target) and (launched := _launched(target[1:])):
        return _names(launched)
    path = os.path.abspath(first)
    if os.path.isdir(path):
        return os.path.basename(path.rstrip("/")) or path, path
    stem, folder = os.path.basename(path), os.path.dirname(path)
    if folder == os.path.dirname(os.path.abspath(sys.executable)):
        folder = cwd  # an installed command, such as pytest: what it runs for the user is here
    return (stem.rsplit(".", 1)[0] if "." in stem[1:] else stem), folder


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _settings(args: argparse.Namespace, program: Target) -> Any:
    from taupy.instrument import launch, runfolder

    target = program.words
    plan = Plan(args)
    if plan.is_native and is_measured():
        raise TaupyError(
            "this process is measured by another run already; start `taupy run` as a process of "
            "its own"
        )
    count(plan)
    application, program_folder = _names(target)
    compensate = args.compensate
    if compensate is None:
        compensate = os.environ.get("TAU_COMPENSATE", "") in ("1", "on") or bool(
            plan.project.get("compensate")
        )
    overhead: dict[str, float] = {}
    if plan.is_native:
        from taupy.instrument.calibrate import calibrate

        overhead = calibrate(plan.early, plan.options)
    elif compensate:
        plan.notes.append("--compensate needs the compiled engine: no compensated times are stored")
    gpu = run_gpu.measured(plan)
    run_gpu.cupti_backend(plan, gpu)
    run_gpu.keep_modules(plan, gpu)
    database, store = options.file_and_store(args)
    name = args.app or plan.project.get("app") or application
    run_lines.choose(plan, args.lines, name, database)
    if store:
        plan.options["push_to"] = store
    if args.trust_folder:
        plan.options["trust_folder"] = True
    if not _is_wanted(args.source, "source"):
        plan.options["no_source"] = True
    job = _job(args)
    if job.attempt and job.uuid is None:
        plan.notes.append(
            "nothing in the environment names the job: each of its ranks becomes a separate "
            "trial; with the same --run-id on all ranks they become one"
        )
    return launch.settings_here(
        program_folder,
        _cwd(),
        uuid=job.uuid or runfolder.new_uuid(),
        database=database,
        application=name,
        experiment=args.experiment or plan.project.get("experiment") or "default",
        trial=args.trial,
        engine=plan.engine,
        engine_options=plan.options,
        metadata=plan.metadata,
        arguments=target,
        interpreter=[*launch.interpreter_command(), *program.options],
        early=plan.early,
        overhead=overhead,
        compensate=compensate,
        fold_libraries=args.fold_libraries or bool(plan.project.get("fold_libraries")),
        quiet=args.quiet,
        rank=job.rank,
        world_size=job.size,
        attempt=job.attempt,
        launches=not job.attempt and _launches(target),
        notes=plan.notes,
        gpu=gpu,
        merge_into=merge_into(plan),
    )


def is_measured() -> bool:
    """Whether the engine records this very process."""
    from taupy._native import engine

    return bool(engine.active())


def _job(args: argparse.Namespace) -> Job:
    """The job of which this process is a rank; set by a sweep or by `--twice` for its runs."""
    return getattr(args, "job", None) or launchers.job(os.environ, args.run_id)


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
    if any(os.path.lexists(f"{database}{suffix}") for suffix in ("-journal", "-wal", "-shm")):
        from taupy.state.sqlite import Busy, look_beside

        try:
            look_beside(os.path.realpath(database), writes=True, patience_s=0)
        except Busy:
            return []
        except DatabaseError as problem:
            return [f"{problem}; until then, the profile will be saved beside the database"]
    return []
