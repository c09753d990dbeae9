"""How a run is measured: the engine, its options, and what is counted.

A `Plan` starts with the user's arguments, and each step adds to it. Nothing here may import modules
that a launch does not need.
"""

from __future__ import annotations

import os
import sys

from taupy.commands import options
from taupy.errors import TaupyError, UsageError
from taupy.network import layers, steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_SPANS = 1_000_000
"""Records of single layers and phases in each process: 24 MB of its part."""


class Plan:
    """The settings of a run as far as they are known; see `RunSettings`.

    Not a dataclass, because dataclasses import `inspect`.

    Attributes:
        args: arguments of the command line; `project`: settings of pyproject.toml.
        engine: "native" or "python"; `early`: a first reading of its clock.
        options: options of the engine.
        metadata: metadata of the trial; `notes`: messages for the user and the trial.
        traces: where single activities are recorded, "host" and "gpu".
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.project = options.project_settings()
        self.notes: list[str] = []
        self.metadata = _metadata(args.meta)
        engine_name = args.engine or self.project.get("engine") or "auto"
        self.engine, self.early = _engine(engine_name, self.notes)
        self.options = _engine_options(args, self.project) | options.secrets(args)
        if args.steps:
            self._take_window(args.steps)
        self.traces = _traces(args.trace, self.project.get("trace"))
        if "host" in self.traces:
            self._take_spans()
        threads = options.threads(args.threads, self.project.get("threads"))
        if threads is not None and not self.traces:
            self.options["threads_apart"] = threads

    def _take_window(self, window: str) -> None:
        if not self.is_native:
            raise UsageError("--steps needs the compiled engine: the plain one records no steps")
        self.options |= steps.window_options(window)
        self.metadata[steps.WINDOW] = window

    def _take_spans(self) -> None:
        if not self.is_native:
            self.notes.append("--trace=host needs the compiled engine: no times of single layers")
            return
        spans = number("trace_spans", None, None, self.project)
        if spans is not None and spans < 1:
            raise UsageError(f"`trace_spans` of [tool.taupy] must be at least 1, got {spans}")
        self.options["spans"] = _SPANS if spans is None else int(spans)

    @property
    def is_native(self) -> bool:
        return self.engine == "native"


def _traces(given: list[list[str]], project: Any) -> set[str]:
    """Where single activities are recorded, by `--trace` or else by `trace` of pyproject.toml."""
    if not given and isinstance(project, str):
        from argparse import ArgumentTypeError

        try:
            given = [options.traced(project)]
        except ArgumentTypeError as problem:
            raise UsageError(f"`trace` of [tool.taupy] in pyproject.toml: {problem}") from None
    elif not given and project:
        given = [["gpu"]]
    return {kind for kinds in given for kind in kinds}


def _metadata(given: list[str]) -> dict[str, str]:
    metadata = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--meta takes KEY=VALUE, got {item!r}")
        metadata[name] = value
    return metadata


def _engine(engine_name: str, notes: list[str]) -> tuple[str, tuple[int, int]]:
    """The engine to use, and a first reading of its clock."""
    if engine_name not in ("auto", "native", "python"):
        raise UsageError(f"unknown engine {engine_name!r}: use auto, native or python")
    from taupy.instrument import launch

    if launch.is_free_threaded():
        raise TaupyError(
            "this Python is a free-threaded build, which taupy cannot measure: without the GIL, "
            "threads would miscount each other's calls; run the program with "
            f"python{sys.version_info.major}.{sys.version_info.minor}, the build with the GIL"
        )
    if engine_name == "python":
        return "python", (0, 0)
    try:
        from taupy._native import engine
    except ImportError as problem:
        if engine_name == "native":
            raise TaupyError(
                f"the compiled engine is missing ({problem}); see `taupy doctor`"
            ) from None
        notes.append(
            "the compiled engine is missing: the one in plain Python is slower and measures less "
            "(see `taupy doctor`)"
        )
        return "python", (0, 0)
    return "native", engine.read_clock()


def _engine_options(args: argparse.Namespace, project: dict[str, Any]) -> dict[str, Any]:
    depth = number("depth", args.depth, "TAU_DEPTH_LIMIT", project)
    if depth is not None and depth < 1:
        raise UsageError(f"--depth must be at least 1, got {depth}")
    throttle = args.throttle
    if throttle is None:
        throttle = os.environ.get("TAU_THROTTLE", "") in ("1", "on") or bool(
            project.get("throttle")
        )
    calls = number("throttle_calls", args.throttle_calls, "TAU_THROTTLE_NUMCALLS", project)
    usec = number("throttle_usec", args.throttle_usec, "TAU_THROTTLE_PERCALL", project)
    limit = number("max_callpaths", args.max_callpaths, None, project)
    if limit is not None and limit < 1:
        raise UsageError(f"--max-callpaths must be at least 1, got {limit}")
    chosen: dict[str, Any] = {
        "c_calls": args.c_calls or bool(project.get("c_calls")),
        "metrics": ["cpu_time"] if args.cpu_time or project.get("cpu_time") else [],
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


def number(name: str, given: Any, environment: str | None, project: dict[str, Any]) -> Any:
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


def merge_into(plan: Plan) -> str:
    """The uuid of the trial to add the counters to; "" for none."""
    args = plan.args
    text = args.merge_into
    uuid = getattr(args, "merge_into_uuid", "")
    if text and not args.metrics:
        raise UsageError("--merge-into adds counters to a trial: name them with --metrics")
    if text:
        uuid = options.trial_to_grow(args, text)[1]
    counts = ("counters", "blas", "gpu_counters")
    return uuid if any(plan.options.get(name) for name in counts) else ""
