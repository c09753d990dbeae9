"""A folder with a file for each rank: torch.profiler's traces, or exports of Nsight Systems.

Files are read one after the other, each into a part of one trial, so that memory does not grow with
their number.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from taupy.errors import FormatError
from taupy.formats import registry
from taupy.formats.chrome import trace
from taupy.formats.nsight import nsys
from taupy.formats.reading import refusal
from taupy.formats.registry import IMPORT_NOTES, Format
from taupy.model import job
from taupy.model.profile import Profile
from taupy.model.progress import SILENT, Progress
from taupy.units import listing, several

_KINDS: Final = (trace.FORMAT, nsys.FORMAT)
_SUFFIXES: Final = (".json", ".json.gz", ".sqlite", ".trace", ".trace.gz")
_MOST_NOTES: Final = 20
_MOST_NAMED: Final = 8
_OF_A_FILE: Final = re.compile(r"^the file(?= is truncated)")
_NUMBER: Final = re.compile(r"\d+")
_MANY: Final = re.compile(r"s\b")  # of words whose number may differ
_RANK: Final = re.compile(r"rank[^0-9a-z]{0,2}(\d{1,7})", re.IGNORECASE)


def recognises(path: Path, first: bytes) -> bool:
    return not first and path.is_dir() and any(kind for _, kind in _files(path))


def read(path: Path, progress: Progress) -> Iterator[Profile]:
    """One part of the trial for each rank.

    Raises:
        FormatError: no file of the folder is in a supported format, or one is damaged.
    """
    kinds = {file: kind for file, kind in _files(path) if kind}
    files = sorted(kinds, key=_natural)
    if not files:
        raise refusal(path, "", "no trace of torch.profiler and no export of Nsight Systems in it")
    numbers = [_rank_in(file) for file in files]
    named_by_rank = None not in numbers and len({*numbers}) == len(numbers)
    progress.begin(path.name, len(files), "files")
    taken: dict[int, str] = {}
    notes: Counter[str] = Counter()
    if unknown := sorted((file for file, kind in _files(path) if not kind), key=_natural):
        names = listing((file.name for file in unknown), _MOST_NAMED)
        notes[f"left out, because of another format or damaged: {names}"] += 1
    waiting: Profile | None = None
    for place, file in enumerate(files):
        reader = kinds[file]
        assert reader.read is not None
        for profile in reader.read(file, SILENT):
            text = profile.metadata.pop("distributed rank", None)
            by_name = numbers[place] if named_by_rank else place
            rank = int(text) if text is not None and text.isdigit() else by_name
            assert rank is not None
            for line in profile.metadata.pop(IMPORT_NOTES, "").splitlines():
                notes[_OF_A_FILE.sub(file.name, line)] += 1
            if rank in taken:
                notes[f"{file.name} is also of rank {rank}: left out, {taken[rank]} is taken"] += 1
                continue
            taken[rank] = file.name
            if waiting is not None:
                yield waiting
            if (count := len(_mains(profile))) > 1:
                notes[f"{file.name} holds {count} ranks: they are numbered in order of files"] += 1
            waiting = _part(profile, path, rank, len(files))
        gc.collect(1)  # commands run without the garbage collector: free the reader's cycles
        progress.advance(1)
    if waiting is not None:
        if lines := _summed(notes):
            waiting.metadata[IMPORT_NOTES] = "\n".join(lines)
        yield waiting


def _summed(notes: Counter[str]) -> list[str]:
    """Each note once, with the number of files that have it; numbers in notes may differ."""
    shapes: dict[str, tuple[str, int]] = {}
    for line, count in notes.items():
        shape = _MANY.sub("", _NUMBER.sub("0", line))
        first, before = shapes.get(shape, (line, 0))
        shapes[shape] = (first, before + count)
    lines = [
        text if count == 1 else f"{text} (and similarly in {several(count - 1, 'more file')})"
        for text, count in shapes.values()
    ]
    more = len(lines) - _MOST_NOTES
    return lines if more <= 0 else [*lines[:_MOST_NOTES], f"and {more} further notes"]


def _part(profile: Profile, folder: Path, rank: int, files: int) -> Profile:
    """The profile as a part of the trial: its first process becomes the rank's node, further
    processes get nodes after those of all ranks. Each process that does collectives is a rank."""
    size = profile.metadata.get("distributed world_size", "")
    mains = _mains(profile)
    first = rank * len(mains)
    ranks = int(size) if size.isdigit() and len(size) < 8 else files * len(mains)
    ranks = max(ranks, first + len(mains))
    others = sorted(_nodes(profile) - {*mains})
    node_of = {node: first + place for place, node in enumerate(mains)}
    node_of |= {node: first + ranks * place for place, node in enumerate(others, 1)}
    for measured in profile.threads:
        measured.thread = replace(measured.thread, node=node_of[measured.thread.node])
    host = profile.metadata.get("trace host_name") or profile.metadata.get("nsys.Hostname")
    began_us = round(profile.started_at * 1e6)
    place = {
        job.RANKS: str(ranks),
        job.ATTEMPT: "1",
        job.STARTED: str(began_us),
        job.ENDED: str(began_us + profile.duration_ns // 1000),
        **({job.HOST: host} if host else {}),
    }
    profile.node_metadata = {
        number: {**profile.node_metadata.get(node, {}), **place, job.RANK: str(number % ranks)}
        for node, number in node_of.items()
    }
    profile.devices = [
        replace(device, node=node_of.get(device.node, first)) for device in profile.devices
    ]
    profile.uuid = ""
    profile.application = folder.resolve().name or profile.application
    return profile


def _mains(profile: Profile) -> list[int]:
    """The nodes of processes that did collectives; if there are none, the first node."""
    nodes = {measured.thread.node for measured in profile.threads if measured.collectives}
    return sorted(nodes) or [min(_nodes(profile), default=0)]


def _nodes(profile: Profile) -> set[int]:
    return {measured.thread.node for measured in profile.threads} | profile.node_metadata.keys()


def _files(folder: Path) -> Iterator[tuple[Path, Format | None]]:
    """The files with a name of either format, and which of the two it is in, if any."""
    for file in folder.iterdir():
        if not file.name.lower().endswith(_SUFFIXES) or not file.is_file():
            continue
        try:
            first = registry.first_bytes(file)
        except FormatError:
            yield file, None
        else:
            yield file, next((kind for kind in _KINDS if kind.recognises(file, first)), None)


def _rank_in(file: Path) -> int | None:
    """The rank according to the file's name: `rank12`, otherwise the last number in it."""
    if match := _RANK.search(file.name):
        return int(match[1])
    numbers = _NUMBER.findall(file.name)
    return int(numbers[-1]) if numbers and len(numbers[-1]) < 8 else None


def _natural(file: Path) -> list[tuple[int, str]]:
    """A sort key that orders names by the numbers in them: rank2 before rank10."""
    return [
        (int(piece), "") if piece.isdigit() and len(piece) < 18 else (-1, piece)
        for piece in re.split(r"(\d+)", file.name)
    ]


FORMAT = Format(
    name="ranks",
    title="a folder with a trace of torch.profiler or an export of Nsight Systems for each rank",
    suffixes=(),
    recognises=recognises,
    read=read,
)
