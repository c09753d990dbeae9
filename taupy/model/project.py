"""Settings of the current project: [tool.taupy] of the nearest pyproject.toml.

A file that another user owns, or in a folder of another user, is not obeyed. What makes taupy talk
to a server, or keep secrets, is taken from a project only where the user has trusted its folder
once: a project that was cloned belongs to the user, and is from elsewhere.
"""

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
    "threads", "throttle", "throttle_calls", "throttle_usec", "trace", "trace_spans", "trust_files",
    "watch",
    "lines",
)  # fmt: skip
"""All settings."""

_LARGEST = 1 << 20
TRUST = "`taupy trials --trust-folder` there trusts this folder from now on"


def project_settings() -> dict[str, Any]:
    """The table [tool.taupy] of the nearest pyproject.toml, in this folder or above.

    A file that cannot be read counts as empty, so that a program runs all the same; this, and
    names that are no settings, become notices.
    """
    from taupy.state import places

    file = project_file()
    if not file:
        return {}
    folder = os.path.dirname(file)
    if (why := places.owner_above(file)) and not places.is_trusted(folder):
        note(f"{file} is ignored, since {why}; {TRUST}")
        return {}
    table = _settings_in(file)
    guarded = [name for name in table if _reaches_out(name, table[name])]
    if guarded and not places.is_trusted(folder):
        table = {name: value for name, value in table.items() if name not in guarded}
        names = ", ".join(f"`{name}`" for name in guarded)
        note(f"{names} of [tool.taupy] in {file} is not used: {TRUST}")
    return table


def trust_project() -> None:
    """Trust the project's folder and the current one from now on."""
    from contextlib import suppress

    from taupy.state import places

    file = project_file()
    with suppress(OSError):
        for folder in dict.fromkeys((os.path.dirname(file) or ".", os.getcwd())):
            places.trust(folder)


def _reaches_out(name: str, value: object) -> bool:
    """Whether a setting sends data away, talks to a server, or keeps secrets."""
    if name == "db":
        return isinstance(value, str) and "://" in value
    if name == "keep_secrets":
        return value is True
    return name in ("cluster", "trust_files") and bool(value)


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
        from taupy.units import nearest

        near = {name: nearest(name, NAMES, 1) for name in unknown}
        names = [f"{name} (did you mean {near[name][0]}?)" if near[name] else name for name in near]
        note(f"[tool.taupy] of {file} has no such setting: {', '.join(names)}")
    return table
