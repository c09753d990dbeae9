"""Read what a running program has measured so far, from outside and without changing anything.

The engine keeps its counts in files mapped into the program, so they can be read at any moment. A
file that changes while being read may be inconsistent; it is then read again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from taupy.errors import FormatError
from taupy.instrument.runfolder import RunSettings, is_alive, masking_of
from taupy.model.profile import Profile
from taupy.record.children import take_notes
from taupy.record.collected import clock_now, read_changing
from taupy.record.endings import add_endings, count_until
from taupy.record.host_health import HEALTH
from taupy.record.host_part import peek_process
from taupy.record.host_profile import HostPlaces, assign_nodes, profile_of
from taupy.record.lines import add_lines
from taupy.record.looks import Looks, add_series
from taupy.record.part_data import Ending, Part
from taupy.record.part_files import GPU_SUFFIX, PartFile, parts_so_far
from taupy.state.folder import Folder, open_run


@dataclass(frozen=True, slots=True)
class SoFar:
    """What a run has measured so far.

    Attributes:
        parts: by node; open routines count up to now.
        profile: of all processes.
    """

    parts: dict[int, Part]
    profile: Profile


def so_far(path: str, settings: RunSettings) -> SoFar | None:
    """What a run has measured so far; None before its first routine, or if it has ended.

    Args:
        path: of its run folder.
    """
    try:
        with open_run(path) as folder:
            parts, lost = _parts(folder, settings)
            if not parts:
                return None
            has_gpus = bool(folder.files(GPU_SUFFIX))
            looks = Looks(folder)
            for part in parts:
                looks.add(part)
            take_notes(parts)
            nodes = assign_nodes(settings, parts, {})
            places: dict[int, HostPlaces] = {}
            profile = profile_of(settings, nodes, finished=False, places=places)
            add_series(folder, profile, nodes)
            add_lines(folder, profile, places, settings)
            masking_of(folder, settings).mask(profile)
    except FileNotFoundError:
        return None
    profile.name = profile.name or "running"
    profile.metadata[f"{HEALTH}running"] = (
        "the program is still running: this is its profile so far"
    )
    if lost:
        profile.metadata[f"{HEALTH}lost"] = "\n".join(lost)
    if has_gpus:
        profile.metadata[f"{HEALTH}gpu_later"] = "GPU work is added when the program has ended"
    return SoFar(nodes, profile)


def _parts(folder: Folder, settings: RunSettings) -> tuple[list[Part], list[str]]:
    """The parts as they are now, and what could not be read, one line each."""
    parts, lost = [], []
    try:
        for file in parts_so_far(folder):
            try:
                part = _read(file, settings)
            except (FormatError, OSError) as problem:
                lost.append(f"not shown: {problem}")
                continue
            if part is not None:
                parts.append(part)
    except (FormatError, OSError) as problem:
        lost.append(f"not shown: {problem}")
    add_endings(folder, settings, [part for part in parts if not part.runs])
    return parts, lost


def _read(file: PartFile, settings: RunSettings) -> Part | None:
    """The part of a process that may still be running; None if it is empty or a helper's."""
    if not file.bytes() or peek_process(file)[3]:
        return None
    part = read_changing(file, clock_now(settings))
    if part is not None and not part.complete and is_alive(part.pid, part.process_start):
        part.ending = Ending("running")
        count_until(part, time.monotonic_ns())
    return part
