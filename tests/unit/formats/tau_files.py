"""TAU profiles made for tests, written here without the code under test."""

from __future__ import annotations

from pathlib import Path

HEADING = "# Name Calls Subrs Excl Incl ProfileCalls #"
EVENTS = "# eventname numevents max min mean sumsqr"


def row(name, calls=1, subroutines=0, exclusive=0, inclusive=0, groups="TAU_USER"):
    """As TAU writes it, with a blank at its end."""
    return f'"{name}" {calls} {subroutines} {exclusive} {inclusive} 0 GROUP="{groups}" '


def path(name, calls=1, subroutines=0, exclusive=0, inclusive=0, groups="TAU_USER"):
    return row(name, calls, subroutines, exclusive, inclusive, f"TAU_CALLPATH|{groups}")


def metadata(**facts):
    attributes = "".join(
        f"<attribute><name>{name.replace('_', ' ')}</name><value>{value}</value></attribute>"
        for name, value in facts.items()
    )
    return f"{HEADING} <metadata>{attributes}</metadata>"


def text(rows, events=(), metric="TIME", heading=None, version=None):
    version = f"templated_functions_MULTI_{metric}" if version is None else version
    lines = [f"{len(rows)} {version}", heading or metadata(Metric_Name=metric), *rows]
    lines.append("0 aggregates")
    if events:
        lines += [f"{len(events)} userevents", EVENTS, *events]
    return "\n".join(lines) + "\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    """Files by name below a folder: {"profile.0.0.0": text, "MULTI__A/profile.0.0.0": text}."""
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def profile(folder: Path, rows, **more) -> Path:
    """A folder with one thread."""
    return write(folder, {"profile.0.0.0": text(rows, **more)})
