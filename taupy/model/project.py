"""Settings of the project that one stands in: [tool.taupy] of the nearest pyproject.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taupy.errors import UsageError


def project_settings() -> dict[str, Any]:
    """The table [tool.taupy] of the nearest pyproject.toml, here or above.

    Raises:
        UsageError: that file is no TOML.
    """
    try:
        here = Path.cwd()
    except OSError:
        return {}
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if not file.is_file():
            continue
        import tomllib

        try:
            values = tomllib.loads(file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise UsageError(f"{file} cannot be read: {problem}") from None
        table = values.get("tool", {}).get("taupy", {})
        return table if isinstance(table, dict) else {}
    return {}
