"""Read the parts that the processes of a run have left behind, wherever they are.

Every loss is reported: a part that is empty, damaged or untrusted becomes
a line of `lost`, and a trial with such a line is incomplete.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress

from taupy.dataclass import dataclass, field
from taupy.errors import FormatError
from taupy.instrument.runfolder import (
    RunSettings,
    boot_id,
    is_alive,
    is_held,
    is_of_these_namespaces,
    process_start,
)
from taupy.record import part_files
from taupy.record.children import Arrival
from taupy.record.host_part import UNKNOWN, peek_process, read_part
from taupy.record.host_profile import FileNames
from taupy.record.part_data import Part
from taupy.record.part_files import PartFile
from taupy.record.process_rows import ProcessRows
from taupy.state.folder import ELSEWHERE, SUBINTERPRETERS, File, Folder
from taupy.state.limits import RECORD_BYTES
from taupy.state.watch_files import PEAKS, THREADS
from taupy.units import several, verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.record.looks import Looks

_NAMED_AT_MOST = 8
_TRIES, _PAUSE_S = 4, 0.005
_GPU_SUFFIXES = (part_files.GPU_SUFFIX, part_files.GPU_COUNT_SUFFIX, part_files.NCCL_SUFFIX)


@dataclass(slots=True)
class Collected:
    """The parts of a run that are not stored yet.

    Attributes:
        parts: of processes that have ended, complete or not.
        files: to be removed once the parts are stored.
        running: number of processes still running.
        problems: why processes are not measured, one line each.
        lost: lost measurements, one line each.
        pids: processes that are accounted for without a part in `parts`.
        helpers: parts of multiprocessing's own processes, for the forks noted in them.
        elsewhere: programs that another run measures (`taupy run` inside the program).
        names: the files of parts that were there.
        looks: the watch's, which are added to the parts; None: it saw no thread.
        rows: of processes that are added up.
    """

    looks: Looks | None
    rows: ProcessRows

    parts: list[Part] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    running: int = 0
    problems: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    helpers: list[Part] = field(default_factory=list)
    elsewhere: list[Arrival] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def all_pids(self) -> set[int]:
        """Processes that have a part or are otherwise accounted for."""
        return self.pids | {process.pid for part in self.parts for process in part.processes}


def clock_now(settings: RunSettings) -> tuple[int, int] | None:
    """Current ticks and CLOCK_MONOTONIC; None unless the run was made here since the last boot."""
    if settings.boot_id != boot_id():
        return None
    try:
        from taupy._native import engine
    except ImportError:
        return None
    return engine.read_clock()


def collect(
    folder: Folder,
    settings: RunSettings,
    clock_now: tuple[int, int] | None,
    spilled: dict[str, File],
) -> Collected:
    """Read what a run has left behind.

    Args:
        folder: the run folder, locked by the caller.
        clock_now: as for `read_part`.
        spilled: files beside the database, by their names in the run folder.
    """
    on_gpu = {
        part_files.pid_of(name)
        for name in [*folder.names(), *spilled]
        if name.endswith(_GPU_SUFFIXES)
    }
    apart = settings.engine_options.get("threads_apart")
    rows = ProcessRows(apart, FileNames(settings), on_gpu)
    collected = Collected(_looks(folder), rows)
    if not part_files.take_folded(folder):
        collected.running += 1  # another process is delivering it, or was stopped while doing so
    whole: set[str] = set()
    for file in part_files.taken_files(folder):
        _take_folded(collected, file, whole, clock_now)
    own = {part.name: part for part in part_files.part_files(folder)}
    collected.names |= own.keys()
    for name, file in spilled.items():
        if not name.endswith(part_files.PART_SUFFIXES):
            continue
        spill = PartFile(name, file)
        if name not in own or _is_cut(own[name]):
            whole.add(name)
            _take(collected, spill, settings, clock_now)
        collected.files.append(file)
    for name, part in own.items():
        if name in whole:
            collected.files.append(part.file)
        else:
            _take(collected, part, settings, clock_now)
    collected.parts += collected.rows.parts()
    _add_problems(collected, folder)
    del collected.lost[_NAMED_AT_MOST:]
    return collected


def _looks(folder: Folder) -> Looks | None:
    if not any(part_files.has_content(folder / name) for name in (PEAKS, THREADS)):
        return None
    from taupy.record.looks import Looks

    return Looks(folder)


def has_news(folder: Folder, settings: RunSettings) -> bool:
    """Whether a part can be stored now, or nothing is left to wait for."""
    if part_files.taken_files(folder) or (folder / part_files.FOLDED).exists():
        return True
    waits = False
    for part in part_files.part_files(folder):
        try:
            if part.bytes() and peek_process(part)[3]:
                continue
            waits = True
            if not _is_running(part, settings):
                return True
        except (FormatError, OSError):
            return True
    return not waits


def goes_on(pid: int, settings: RunSettings) -> bool:
    """Whether the process with this id is still running; known only for this host's processes."""
    return settings.boot_id == boot_id() and process_start(pid) != 0


def _take_folded(
    collected: Collected, file: File, whole: set[str], clock_now: tuple[int, int] | None
) -> None:
    """Add the parts of children that have ended. Other files of the same names are left over from
    children that were killed between folding their parts and removing them."""
    try:
        for part in part_files.folded_parts(file):
            if part.name not in whole:
                whole.add(part.name)
                _read(collected, part, clock_now)
    except (FormatError, OSError) as problem:
        collected.lost.append(str(problem))
    collected.files.append(file)


def _take(
    collected: Collected, part: PartFile, settings: RunSettings, clock_now: tuple[int, int] | None
) -> None:
    try:
        is_empty = part.bytes() == 0
        is_helper = not is_empty and peek_process(part)[3]
        is_waited_for = not is_helper and _is_running(part, settings)
    except (FormatError, OSError):
        is_empty = is_helper = is_waited_for = False  # `_read` reports what is wrong
    if is_helper or is_waited_for:
        collected.running += is_waited_for
        collected.pids.add(part.pid)
        if is_helper:
            _take_helper(collected, part, clock_now)
        return
    if is_empty:
        collected.lost.append(
            f"the part of process {part.pid} is empty: everything it measured is lost (the state "
            "folder was full, or the process was killed at once)"
        )
        collected.pids.add(part.pid)
    elif not _read(collected, part, clock_now):
        return
    collected.files.append(part.file)


def _take_helper(collected: Collected, part: PartFile, clock_now: tuple[int, int] | None) -> None:
    try:
        read = read_changing(part, clock_now)
    except (FormatError, OSError) as problem:
        collected.lost.append(f"it is not known which processes a helper forked: {problem}")
    else:
        collected.helpers += [read] if read is not None else []


def read_changing(part: PartFile, clock_now: tuple[int, int] | None) -> Part | None:
    """A part of a process that may still be running. It is read again if it is inconsistent, or if
    routines of new call paths lie beyond what was read."""
    for _ in range(_TRIES):
        with suppress(FormatError):
            read = read_part(part, clock_now, is_changing=True)
            if read is None or all(routine.name != UNKNOWN for routine in read.routines):
                return read
        time.sleep(_PAUSE_S)
    return read_part(part, clock_now, is_changing=True)


def _read(collected: Collected, part: PartFile, clock_now: tuple[int, int] | None) -> bool:
    """Read a part. False if its file must stay where it is."""
    try:
        read = read_part(part, clock_now)
    except FormatError as problem:
        collected.lost.append(f"{problem}: its contents are lost")
        collected.pids.add(part.pid)
        return True
    except OSError as problem:
        collected.lost.append(f"a part was left alone: {problem}")
        return False
    if read is not None:
        if collected.looks is not None:
            collected.looks.add(read)
        if not collected.rows.take(read):
            collected.parts.append(read)
    return True


def _is_running(part: PartFile, settings: RunSettings) -> bool:
    if not part.bytes():  # its content, if any, is in that process's memory
        return goes_on(part.pid, settings) and part.pid != os.getppid()
    pid, start, closed, _ = peek_process(part)
    if closed or pid == os.getppid() == settings.root_pid:
        return False
    if settings.boot_id == boot_id() and start and is_of_these_namespaces(part.file.folder):
        return is_alive(pid, start)
    return part.size < 0 and is_held(part.file)


def _is_cut(part: PartFile) -> bool:
    """Whether the part lacks content of its spilled copy, which is written when a process ends."""
    try:
        read = read_part(part)
    except (FormatError, OSError):
        return True
    return read is None or not read.complete or read.lost_bytes > 0


def _add_problems(collected: Collected, folder: Folder) -> None:
    """Add the reasons why processes could not be measured, without repetitions."""
    files = folder.files(".problem")
    collected.pids |= _numbers(files)
    collected.elsewhere = list(map(_arrival, folder.files(ELSEWHERE)))
    collected.pids |= {arrival.pid for arrival in collected.elsewhere}
    for text, count in sorted(Counter(map(_text, files)).items()):
        where = "one process" if count == 1 else f"{count} processes"
        collected.problems.append(f"not measured in {where}: {text}")
    unmeasured = sum(len(_text(file)) for file in folder.files(SUBINTERPRETERS))
    if unmeasured:
        collected.problems.append(
            f"{several(unmeasured, 'subinterpreter')} {verb(unmeasured, 'were')} not measured; the "
            "process is"
        )


def _numbers(files: list[File]) -> set[int]:
    """The process ids that files are named for."""
    return {int(file.stem) for file in files if file.stem.isdigit() and len(file.stem) < 20}


def _arrival(file: File) -> Arrival:
    numbers = [int(word) for word in _text(file).split() if word.isdigit() and len(word) < 20]
    (pid,) = _numbers([file]) or {0}
    return Arrival(pid, numbers[0] if numbers else 0, frozenset(numbers[1:]))


def _text(file: File) -> str:
    try:
        return file.read_bytes(RECORD_BYTES, first=4096).decode("utf-8", "replace")
    except OSError as problem:
        return str(problem)
