"""NCCL collectives, from the file written by taupy's plug-in (`_native/nccl.h`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from taupy.model.collective_calls import NOWHERE, Call, operation, thread_of
from taupy.model.collectives import THREAD_NAME, UNKNOWN_BYTES
from taupy.model.profile import Profile, Thread
from taupy.model.streams import Owner
from taupy.record.engine_layout import Array
from taupy.record.host_health import HEALTH
from taupy.record.host_profile import HostPlaces
from taupy.record.part_files import NCCL_SUFFIX
from taupy.state.folder import File, Folder, Untrusted

_COMMUNICATORS: Final = 64
_COMMUNICATOR: Final = np.dtype([("id", "<u8"), ("size", "<u4"), ("rank", "<u4"), ("name", "S48")])
_ROW: Final = np.dtype(
    [
        *(("is_used", "<u4"), ("communicator", "<u4"), ("number", "<u8"), ("bytes", "<i8")),
        *(("cause", "<u8"), ("asked_ns", "<i8"), ("begun_ns", "<i8"), ("ended_ns", "<i8")),
        ("operation", "S32"),
    ]
)
_HEADER: Final = np.dtype(
    [
        *(("magic", "S8"), ("version", "<u8"), ("pid", "<u8"), ("communicator_count", "<u8")),
        *(("row_count", "<u8"), ("lost", "<u8"), ("communicators", _COMMUNICATOR, _COMMUNICATORS)),
    ]
)
_LATEST_NS: Final = 1 << 62
_MOST_BYTES: Final = 16 << 20


def add_nccl(profile: Profile, places: Mapping[int, HostPlaces], folder: Folder) -> list[File]:
    """Add the NCCL collectives of each process; returns the files read."""
    nodes = {str(process.part.pid): node for node, process in places.items()}
    done = []
    for file in folder.files(NCCL_SUFFIX):
        node = nodes.get(file.name.partition("-")[0])
        if node is None or not places[node].threads:
            continue
        done.append(file)
        try:
            header, rows = _read(file.read_bytes(_MOST_BYTES))
        except (Untrusted, ValueError) as problem:
            profile.metadata[f"{HEALTH}nccl.node{node}"] = f"{file.name} is left out: {problem}"
            continue
        _add(profile, places[node], node, header, rows)
    return done


def _read(data: bytes) -> tuple[Any, Array]:
    """The header and the rows in use.

    Raises:
        ValueError: it is not such a file, or damaged.
    """
    if len(data) < _HEADER.itemsize or not data.startswith(b"TAUPYNCC"):
        raise ValueError("it is not a file of taupy's NCCL plug-in")
    header = np.frombuffer(data, _HEADER, 1)[0]
    if int(header["version"]) != 1 or int(header["communicator_count"]) > _COMMUNICATORS:
        raise ValueError("it is of another version, or damaged")
    count = min(int(header["row_count"]), (len(data) - _HEADER.itemsize) // _ROW.itemsize)
    rows = np.frombuffer(data, _ROW, count, _HEADER.itemsize)
    rows = rows[rows["is_used"] == 1]
    moments = [rows[name] for name in ("asked_ns", "begun_ns", "ended_ns")]
    if any(((column < 0) | (column >= _LATEST_NS)).any() for column in moments):
        raise ValueError("it has impossible times")
    if len(rows) and int(rows["communicator"].max()) >= int(header["communicator_count"]):
        raise ValueError("it has collectives of no communicator")
    return header, rows


def _add(profile: Profile, process: HostPlaces, node: int, header: Any, rows: Array) -> None:
    untimed = int((rows["ended_ns"] == 0).sum())
    notes = []
    if lost := int(header["lost"]):
        notes.append(f"collectives of NCCL that were not recorded for lack of room: {lost}")
    if untimed:
        notes.append(
            f"of {untimed} of {len(rows)} collectives of NCCL it is not known when they ran: they "
            "are left out"
        )
    if notes:
        profile.metadata[f"{HEALTH}nccl.node{node}"] = "\n".join(notes)
    owners = _Owners(process)
    calls = [_call(header, row, owners) for row in rows[rows["ended_ns"] > 0]]
    kept = [call for call in calls if call is not None]
    if kept:
        mine = [other.thread.thread for other in profile.threads if _is_host(other.thread, node)]
        place = Thread(node, 0, 1 + max(mine), "host", THREAD_NAME)
        top = Owner(process.threads[0].tree, 0)
        thread = thread_of(kept, place, profile.timers, owners.paths.__getitem__, top)
        profile.threads.append(thread)
        profile.threads.sort(key=lambda measured: measured.thread)


def _is_host(thread: Thread, node: int) -> bool:
    return thread.node == node and not thread.context


class _Owners:
    """Call paths that requested collectives, by a number per node of the engine's tree."""

    def __init__(self, process: HostPlaces) -> None:
        self._process = process
        self._codes: dict[int, int] = {0: NOWHERE}
        self.paths: list[Owner] = []

    def code(self, cause: int) -> int:
        if cause not in self._codes:
            path = self._process.find(cause)
            self._codes[cause] = NOWHERE if path is None else len(self.paths)
            if path is not None:
                self.paths.append(path.owner)
        return self._codes[cause]


def _call(header: Any, row: Any, owners: _Owners) -> Call | None:
    what = operation("nccl", row["operation"].decode("utf-8", "replace"))
    if what is None:
        return None
    communicator = header["communicators"][int(row["communicator"])]
    name = communicator["name"].decode("utf-8", "replace")
    begun = max(int(row["begun_ns"]), int(row["asked_ns"]))
    return Call(
        communicator=f"{name} {int(communicator['id']):x}".strip(),
        ranks="",
        size=int(communicator["size"]),
        number=None,
        operation=what,
        bytes=max(int(row["bytes"]), UNKNOWN_BYTES),
        asked_ns=int(row["asked_ns"]),
        begun_ns=begun,
        ended_ns=max(int(row["ended_ns"]), begun),
        code=owners.code(int(row["cause"])),
    )
