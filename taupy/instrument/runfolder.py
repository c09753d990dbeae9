"""The run folder: where a run lives between its launch and its storing.

It holds the run's settings (`run`, marshalled: the program's interpreter reads it with
built-in modules only) and one part a process. The state folder holds all run folders.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from taupy.model.processes import is_alive as is_alive
from taupy.model.processes import process_start as process_start

VERSION = 1


@dataclass(slots=True)
class RunSettings:
    """What was asked for, and where from. Times as in `engine.read_clock()`."""

    uuid: str
    database: str
    application: str
    experiment: str
    trial: str | None
    engine: str  # "native" or "python"
    engine_options: dict[str, Any]
    metadata: dict[str, str]
    arguments: list[str]  # the target as the interpreter gets it
    interpreter: list[str]  # the interpreter and its own options
    cwd: str
    module_path: list[str]  # sys.path of the launcher
    library_folders: list[str]  # site-packages and the like, then the standard library
    program_folder: str
    launched_at: float
    root_pid: int
    root_start: int
    boot_id: str
    host: str
    early: tuple[int, int] = (0, 0)
    overhead: dict[str, float] = field(default_factory=dict)
    compensate: bool = False
    fold_libraries: bool = False
    quiet: bool = False
    rank: int = 0
    world_size: int = 1
    notes: list[str] = field(default_factory=list)
    gpu: str = "auto"  # "auto", "yes" (asked for) or "no"
    merge_into: str = ""  # uuid of the trial that this run's counters are to join
    ending: int | None = None  # exit code of a program that could not note it itself
    version: int = VERSION


def new_uuid() -> str:
    """A UUIDv7: its text sorts by time."""
    ms = time.time_ns() // 1_000_000
    number = int.from_bytes(os.urandom(10), "big")
    value = ms << 80 | 7 << 76 | (number >> 64 & 0xFFF) << 64 | 2 << 62 | number & (1 << 62) - 1
    return _as_uuid(f"{value:032x}")


def derived_uuid(text: str) -> str:
    """The UUID (version 8) of a text: the same text has the same one everywhere."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return _as_uuid(f"{digest[:12]}8{digest[13:16]}8{digest[17:]}")


def _as_uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def state_folders() -> list[Path]:
    """Where run folders may lie, the preferred one first."""
    folders = []
    if chosen := os.environ.get("TAUPY_STATE_DIR"):
        folders.append(Path(chosen))
    if base := os.environ.get("XDG_STATE_HOME"):
        folders.append(Path(base, "taupy"))
    home = os.environ.get("HOME")
    if home and os.path.isabs(home):
        folders.append(Path(home, ".local", "state", "taupy"))
    folders.append(Path(tempfile.gettempdir(), f"taupy-{os.getuid()}"))
    return folders


def make_run_folder(uuid: str) -> Path:
    """A new run folder in the first state folder that takes it.

    Raises:
        OSError: none does.
    """
    problem: OSError | None = None
    for state in state_folders():
        try:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = state.stat()
            if status.st_uid != os.getuid() and os.getuid() != 0:
                continue  # somebody else's folder in a shared /tmp
            folder = state.absolute() / f"run-{uuid}-{os.getpid()}"
            folder.mkdir(mode=0o700)
            return folder
        except OSError as failed:
            problem = problem or failed
    assert problem is not None
    raise problem


def write_settings(folder: Path, settings: RunSettings) -> None:
    """Write or replace the settings in one step."""
    new = folder / "run.new"
    new.write_bytes(marshal.dumps(asdict(settings)))
    new.replace(folder / "run")


def note_ending(root_pid: int, exit_code: int) -> None:
    """A parent that saw a run's program die says so in its run folder, if that is still there."""
    for state in state_folders():
        for folder in sorted(state.glob(f"run-*-{root_pid}"), reverse=True)[:1]:  # the newest
            settings = read_settings(folder)
            if settings is not None and not is_alive(root_pid, settings.root_start):
                settings.ending = exit_code
                with suppress(OSError):
                    write_settings(folder, settings)


def read_settings(folder: Path) -> RunSettings | None:
    """The settings of a run folder; None if it has none that this version can read."""
    try:
        values = marshal.loads((folder / "run").read_bytes())
        if not isinstance(values, dict) or values.get("version") != VERSION:
            return None
        values["early"] = tuple(values["early"])
        return RunSettings(**values)
    except (OSError, EOFError, ValueError, TypeError, KeyError):
        return None


def boot_id() -> str:
    """Identity of this boot of this host, "" where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
