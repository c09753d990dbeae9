"""Settings of the current project: [tool.taupy] of the nearest pyproject.toml."""

from __future__ import annotations

import os

from taupy.errors import note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


NAMES = (
    "app", "autograd", "c_calls", "cluster", "collectives", "compensate", "counters_at", "cpu_time",
    "cupti_backend", "db", "depth", "derived", "engine", "exclude", "experiment",
    "fold_libraries", "gpu", "gpu_end_ms", "gpu_flush_ms", "imports", "include", "keep_secrets",
    "match", "max_callpaths", "metrics", "pm_interval", "pm_sampling", "secrets", "sets", "source",
    "throttle", "throttle_calls", "throttle_usec", "trace", "trace_spans", "trust_files",
    "watch",
    "lines",
)  # fmt: skip
"""All settings."""

_LARGEST = 1 << 20


def project_settings() -> dict[str, Any]:
    """The table [tool.taupy] of the nearest pyproject.toml, in this folder or above.

    A file that cannot be read counts as empty, so that a program runs all the same; this, and
    names that are no settings, become notices.
    """
    file = project_file()
    return _settings_in(file) if file else {}


def project_file() -> str:
    """The nearest pyproject.toml, in this folder or above; "" if there is none."""
    try:
        above = os.getcwd()
    except OSError:
        return ""
    folder = ""
    while folder != above:
        folder, above = above, os.path.dirname(above)
        file = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(file):
            return file
    return ""


def read_toml(file: str) -> dict[str, Any]:
    """The table in a file.

    Raises:
        ValueError: it cannot be read; the message says why.
    """
    import tomllib

    from taupy.state.folder import open_named

    try:
        with open_named(file) as stream:
            data = stream.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST} bytes")
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except OSError as problem:
        raise ValueError(problem.strerror or str(problem)) from None


def _settings_in(file: str) -> dict[str, Any]:
    try:
        table = read_toml(file).get("tool", {})
    except ValueError as problem:
        note(f"{file} cannot be read, so it sets nothing: {problem}")
        return {}
    table = table.get("taupy", {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        note(f"`taupy` of [tool] in {file} is not a table, so it sets nothing")
        return {}
    unknown = [name for name in table if name not in NAMES]
    if unknown:
        import difflib

        near = {name: difflib.get_close_matches(name, NAMES, 1) for name in unknown}
        names = [f"{name} (did you mean {near[name][0]}?)" if near[name] else name for name in near]
        note(f"[tool.taupy] of {file} has no such setting: {', '.join(names)}")
    return table
