"""What a run measures on GPUs: times, counters, samples, and the modules that it loads."""

from __future__ import annotations

import os
import sys

from taupy.collectors import requested
from taupy.commands import options
from taupy.commands.run_plan import Plan, number
from taupy.errors import TaupyError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def measured(plan: Plan) -> str:
    """Whether to measure GPUs: "auto", "yes" (required) or "no".

    Raises:
        UsageError: it is required, and the engine cannot.
    """
    args, project = plan.args, plan.project
    wanted = args.gpu if args.gpu is not None else project.get("gpu")
    if wanted is False:
        return "no"
    if not plan.is_native:
        if wanted:
            raise UsageError(
                "--gpu needs the compiled engine; the program was not run (without --gpu, or with "
                "--no-gpu, it runs and its GPU work is not measured)"
            )
        if "gpu" in plan.traces:
            plan.notes.append(
                "measuring GPUs needs the compiled engine: this run does not measure them"
            )
        return "no"
    from taupy.collectors.cupti_paths import libraries

    folders = [path for path in sys.path if path]
    plan.options["gpu"] = 1
    plan.options["gpu_libraries"] = [os.fsencode(path) for path in libraries(folders)]
    plan.options["gpu_trace"] = "gpu" in plan.traces
    if save := os.environ.get("TAUPY_GPU_SAVE"):  # fixtures for tests: see tests/gpu/record.py
        plan.options["gpu_save"] = os.fsencode(os.path.abspath(save))
    for name in ("gpu_flush_ms", "gpu_end_ms"):
        if (value := number(name, None, None, project)) is not None:
            plan.options[name] = int(value)
    return "yes" if wanted else "auto"


def count(plan: Plan, names: list[str]) -> None:
    """Settings for counting kernels: a separate mode, in which they are not timed."""
    given = plan.args.gpu_launches
    launches = 3 if given is None else given
    if launches < 1:
        raise UsageError(f"--gpu-launches must be at least 1, got {launches}")
    if not plan.is_native:
        plan.notes.append(f"{', '.join(names)}: counted with the compiled engine only")
        return
    from taupy.collectors import cupti_counters

    prepared = cupti_counters.prepare(names, launches, regions=plan.args.counters_at == "regions")
    plan.notes += prepared.notes
    if prepared.text:
        plan.options["gpu_counters"] = prepared.text
        plan.options["gpu_counter_names"] = names


def sampling(args: argparse.Namespace, settings: Any) -> Any:
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
    from taupy.collectors import sampling_plan

    prepared = sampling_plan.prepare(names, interval_ns, optional)
    settings.notes += prepared.notes
    settings.metadata["taupy.option.pm_sampling"] = ", ".join(names)
    return prepared if prepared.settings else None


def keep_modules(plan: Plan, gpu: str) -> None:
    """Settings for keeping the modules that the program loads.

    Raises:
        UsageError: GPUs are not measured natively, or the folder cannot be created.
    """
    args = plan.args
    if args.keep_modules is None:
        return
    if gpu == "no" or plan.options.get("cupti_backend"):
        raise UsageError("--keep-modules needs the native measurement of GPUs, which is off here")
    folder = os.path.abspath(args.keep_modules)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as problem:
        raise UsageError(
            f"--keep-modules: {folder} cannot be created: {problem.strerror}"
        ) from None
    plan.options["gpu_modules"] = os.fsencode(folder)
    plan.options["gpu_modules_bytes"] = args.modules_limit << 20
    plan.metadata["GPU Modules"] = folder


def cupti_backend(plan: Plan, gpu: str) -> None:
    """Whether cupti-python records GPU work instead of the native collector.

    Raises:
        TaupyError: it was requested and is not installed.
    """
    backend = plan.args.cupti_backend or plan.project.get("cupti_backend") or "native"
    if backend not in ("native", "python"):
        raise UsageError(f"unknown CUPTI backend {backend!r}: use native or python")
    if backend == "native" or gpu == "no":
        return
    if plan.options.get("gpu_counters"):
        plan.notes.append("--cupti-backend python: it times kernels and cannot count them")
        return
    from taupy.collectors import cupti_python_check

    if problem := cupti_python_check.problem():
        raise TaupyError(f"--cupti-backend python: {problem}")
    plan.options["cupti_backend"] = backend
    plan.metadata["taupy.option.cupti_backend"] = f"{backend} ({cupti_python_check.installed()})"
