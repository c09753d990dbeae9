"""The run folder, which holds a run's data from its launch until it is stored.

It contains the run's settings (`run`, a record) and a part per process. The state folder contains
all run folders. Others may be able to write next to it, so `state/folder.py` opens both.
"""

from __future__ import annotations

import os
import time

from taupy.model.masking import Masking
from taupy.model.processes import is_alive as is_alive
from taupy.model.processes import process_start as process_start
from taupy.state import values
from taupy.state.folder import BESIDE, VERSION, File, Folder, Untrusted, open_own, open_run
from taupy.state.places import state_folders as state_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, TypeVar

    T = TypeVar("T")

IMPORT = "import"
"""In place of a UUID in the name of a folder that a rescue file is unpacked into."""

NAMESPACES = "namespaces"
"""The file that says in which namespaces process ids and start times of a run are valid."""

_PREFIX = "run-"
_ROOM_BYTES = 1 << 20
_OPTIONS: dict[str, Any] = {  # options that are read after the run
    "include": list[str] | None,
    "exclude": list[str] | None,
    "counter_metrics": list[tuple[str, str]] | None,
    "gpu_counter_names": list[str] | None,
    "push_to": str | None,
    "secrets": list[str] | None,
    "keep_secrets": bool | None,
    "no_source": bool | None,
    "trust_folder": bool | None,
}


class RunSettings:
    """The settings of a run. Times as in `engine.read_clock()`.

    It is no dataclass, as those import `inspect`, which takes too long in the launcher.
    """

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
    overhead: dict[str, float]
    compensate: bool = False
    fold_libraries: bool = False
    quiet: bool = False
    rank: int = 0
    world_size: int = 1
    attempt: int = 0  # number of the job's attempt, from 1; 0: not part of a job
    launches: bool = False  # the program is a launcher, whose child processes are the ranks
    again: int = 0  # runs of the same identity that were stored before this one
    notes: list[str]
    gpu: str = "auto"  # measured if used: "auto"; required: "yes"; "no"
    merge_into: str = ""  # uuid of the trial to which this run's counters are added
    ending: int | None = None  # exit code of a program that could not note it itself
    version: int = VERSION

    def __init__(self, **given: Any) -> None:
        if unknown := given.keys() - RunSettings.__annotations__.keys():
            raise TypeError(f"a run has no settings {unknown}")
        self.__dict__.update(given)

    @property
    def trial_uuid(self) -> str:
        """The trial's UUID: the job's, unless an earlier run of the same name already has that."""
        return derived_uuid(f"{self.uuid}/again/{self.again}") if self.again else self.uuid

    @property
    def times_gpus(self) -> bool:
        """Whether GPU work is timed; counting kernels is another way to measure it."""
        return self.gpu != "no" and not self.engine_options.get("gpu_counters")

    def record(self) -> dict[str, Any]:
        """All settings by name, as they are written.

        Raises:
            AttributeError: a setting has no value.
        """
        return {name: getattr(self, name) for name in RunSettings.__annotations__}


def new_uuid() -> str:
    """A UUIDv7: its text sorts by time."""
    ms = time.time_ns() // 1_000_000
    number = int.from_bytes(os.urandom(10), "big")
    value = ms << 80 | 7 << 76 | (number >> 64 & 0xFFF) << 64 | 2 << 62 | number & (1 << 62) - 1
    return _as_uuid(f"{value:032x}")


def derived_uuid(text: str) -> str:
    """The UUID (version 8) of a text: the same text gives the same UUID everywhere."""
    import hashlib

    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return _as_uuid(f"{digest[:12]}8{digest[13:16]}8{digest[17:]}")


def _as_uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def state_of(folder: Folder) -> str:
    """The state folder for what is kept longer than a run."""
    state = os.path.dirname(folder.path)
    return next(state_folders()) if state.endswith(BESIDE) else state


def open_states(database: str | None = None) -> tuple[list[Folder], list[str]]:
    """The state folders that exist and may be used, and a line per folder that may not be."""
    usable: list[Folder] = []
    refused: list[str] = []
    for path in dict.fromkeys(state_folders(database)):
        try:
            usable.append(open_own(os.path.abspath(path)))
        except Untrusted as problem:
            refused.append(f"{problem}: it is left alone")
        except OSError:
            continue  # it does not exist
    return usable, refused


def make_run_folder(uuid: str, database: str | None = None) -> tuple[Folder, list[str]]:
    """Create a run folder in the first usable state folder; also returns a line per unusable one
    before it.

    Args:
        database: create it beside this database, unless the user has chosen a folder.

    Raises:
        OSError: no state folder is usable.
    """

    def make(state: Folder) -> Folder:
        folder = state.make_folder(f"{_PREFIX}{uuid}-{os.getpid()}")
        _take_group(folder)
        folder = _with_room(folder)
        (folder / NAMESPACES).write_bytes(_namespaces())
        return folder

    return in_state_folder(make, database)


def in_state_folder(use: Callable[[Folder], T], database: str | None = None) -> tuple[T, list[str]]:
    """What `use` returns for the first usable state folder, which is created if it is missing; also
    returns a line per unusable one before it.

    Raises:
        OSError: no state folder is usable.
    """
    problem: OSError | None = None
    refused: list[str] = []
    for path in state_folders(database):
        try:
            _make(path)
            with open_own(os.path.abspath(path)) as state:
                return use(state), refused
        except Untrusted as failed:
            refused.append(f"{failed}: another state folder is used")
            problem = problem or failed
        except OSError as failed:
            problem = problem or failed
    raise problem or FileNotFoundError("there is no folder in which it could be created")


def _make(path: str) -> None:
    """Create a state folder and its parents, if missing, for this user only."""
    if not os.path.lexists(path):
        before = os.umask(0o077)
        try:
            os.makedirs(path, exist_ok=True)
        finally:
            os.umask(before)


def _take_group(folder: Folder) -> None:
    """Give the folder this process's group, not that of the folder around it: see
    `state/rights.py`."""
    if os.fstat(folder.descriptor).st_gid != os.getegid():
        from contextlib import suppress

        with suppress(OSError):
            os.fchown(folder.descriptor, -1, os.getegid())


def _with_room(folder: Folder) -> Folder:
    """Return the folder if there is room for a run in it. Also creates the lock file, so that
    delivery needs no space for it.

    Raises:
        OSError: the disk is full; the folder is removed again.
    """
    try:
        os.close((folder / "lock").lock_descriptor())
        probe = folder / "room"
        descriptor = probe.create()
        try:
            os.posix_fallocate(descriptor, 0, _ROOM_BYTES)
        finally:
            os.close(descriptor)
            probe.unlink()
    except BaseException:
        folder.remove()
        folder.close()
        raise
    return folder


def _namespaces() -> bytes:
    """The namespaces of process ids and of time of this process; empty if /proc does not say."""
    try:
        return " ".join(os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "time")).encode()
    except OSError:
        return b""


def is_of_these_namespaces(folder: Folder) -> bool:
    """Whether process ids and start times of a run are valid for this process."""
    try:
        return (folder / NAMESPACES).read_record() == _namespaces() != b""
    except FileNotFoundError:
        return True  # of an earlier taupy, or imported
    except OSError:
        return False


def is_held(file: File) -> bool:
    """Whether the process that wrote a part is still running: its mapping holds a lock, which the
    kernel lets go, whatever namespaces it is in. False says nothing where there are no locks."""
    import fcntl

    try:
        descriptor = file.descriptor()
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def has_run_folders(database: str | None = None) -> bool:
    """Whether `run_folders` would find anything; a quick check."""
    return any(os.path.lexists(path) and _may_hold_runs(path) for path in state_folders(database))


def _may_hold_runs(path: str) -> bool:
    try:
        return any(name.startswith(_PREFIX) for name in os.listdir(path))
    except OSError:
        return True  # no folder, or another user's, which is to be reported


def run_folders(database: str | None = None) -> tuple[list[Path], list[str]]:
    """Run folders of this user, whatever their contents; and a line for each untrusted one.

    Args:
        database: also those beside this database.
    """
    from pathlib import Path

    states, refused = open_states(database)
    folders = []
    for state in states:
        with state:
            for name in state.names():
                if not name.startswith(_PREFIX):
                    continue
                try:
                    state.folder(name).close()
                    folders.append(Path(state.path, name))
                except Untrusted as problem:
                    refused.append(f"{problem}: it is left alone")
                except OSError:
                    continue  # stored meanwhile
    return folders, refused


def is_import(path: Path) -> bool:
    """Whether this run folder is that of a `taupy import`."""
    return path.name.startswith(f"{_PREFIX}{IMPORT}-")


def masking_of(folder: Folder, settings: RunSettings) -> Masking:
    """How secrets in the command lines of a run are masked."""
    options = settings.engine_options
    return Masking(
        os.path.dirname(folder.path),
        options.get("secrets") or (),
        keeps=bool(options.get("keep_secrets")),
    )


def spill_prefix(settings: RunSettings) -> str:
    """How the paths of parts begin that did not fit into the run folder and lie beside the
    database."""
    return f"{settings.database}-{settings.uuid}."


def write_settings(folder: Folder, settings: RunSettings) -> None:
    """Write or replace the settings in one step."""
    (folder / "run").write_bytes(values.dumps(settings.record()))


def note_ending(root_pid: int, exit_code: int) -> None:
    """Note in a run folder, if it still exists, how the run's program ended, as seen by its
    parent."""
    from contextlib import suppress

    for path in reversed(run_folders()[0]):  # the newest first
        if not path.name.endswith(f"-{root_pid}"):
            continue
        with suppress(OSError, values.Damaged), open_run(os.fspath(path)) as folder:
            settings = read_settings(folder)
            if not is_alive(root_pid, settings.root_start):
                settings.ending = exit_code
                write_settings(folder, settings)
        return


def read_settings(folder: Folder) -> RunSettings:
    """The settings of a run folder.

    Raises:
        FileNotFoundError: it has none: it is not a run folder, or is being made or removed.
        Untrusted: they are not ours.
        Damaged: this version of taupy cannot read them.
    """
    return settings_of(values.loads((folder / "run").read_record()))


_HINTS: dict[str, Any] = {}


def _hints() -> dict[str, Any]:
    """The type of each setting: a storer reads settings twice."""
    if not _HINTS:
        texts = RunSettings.__annotations__
        types = {text: eval(text, {"Any": object}) for text in {*texts.values()}}
        _HINTS.update((name, types[text]) for name, text in texts.items())
    return _HINTS


def settings_of(record: Any) -> RunSettings:
    """Check and return the settings in a record.

    Raises:
        Damaged: a setting is missing or has the wrong type, or the version is another.
    """
    from taupy.model.identifier import is_uuid
    from taupy.state.shape import fits

    hints = _hints()
    if not isinstance(record, dict) or record.get("version") != VERSION:
        raise values.Damaged("it is a run of another version of taupy")
    wrong = sorted(hints.keys() ^ record.keys()) or [
        name for name, hint in hints.items() if not fits(record[name], hint)
    ]
    options = record.get("engine_options")
    if not wrong and isinstance(options, dict):
        wrong = [name for name, hint in _OPTIONS.items() if not fits(options.get(name), hint)]
    if not wrong and not is_uuid(record["uuid"]):  # it becomes a part of files' names
        wrong = ["uuid"]
    if wrong:
        raise values.Damaged(f"a setting of the run is invalid: {wrong[0][:80]}")
    return RunSettings(**record)


def boot_id() -> str:
    """Identity of this boot of this host, "" if the kernel does not report it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
