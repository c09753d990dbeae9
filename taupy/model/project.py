"""Settings of the current project: [tool.taupy] of the nearest pyproject.toml."""

from __future__ import annotations

import os

from taupy.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def project_settings() -> dict[str, Any]:
    """The table [tool.taupy] of the nearest pyproject.toml, in this folder or above.

    Raises:
        UsageError: that file is not valid TOML.
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


def _settings_in(file: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(file, encoding="utf-8") as text:
            values = tomllib.loads(text.read())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise UsageError(f"{file} cannot be read: {problem}") from None
    table = values.get("tool", {}).get("taupy", {})
    return table if isinstance(table, dict) else {}
