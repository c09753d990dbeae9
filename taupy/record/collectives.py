"""Collectives from a process's part, as a thread of their own under the requesting call paths.

Times on that thread are those of the backend's own threads, which may run several at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from taupy.errors import FormatError
from taupy.model.collectives import BYTES, GROUP, NOT_ENDED, THREAD_NAME, Collectives, Stretches
from taupy.model.gpu import Launch
from taupy.model.profile import Statistics, Thread, ThreadProfile, Timer
from taupy.model.streams import FindPath, Owner, StreamBuilder
from taupy.record.engine_layout import COLLECTIVE, STRETCH, Array
from taupy.record.part_collectives import PartCollectives
from taupy.record.part_data import Part

_UNKNOWN_BYTES = 2**64 - 1
"""In the part; as a signed number, `UNKNOWN_BYTES`."""


def thread_of(
    threads: list[ThreadProfile], timers: list[Timer], part: Part, find: FindPath
) -> list[ThreadProfile]:
    """The thread of a process's collectives, after its other threads; empty if it has none.

    Args:
        threads: of the process, at least one.
        timers: of the profile; new ones are appended.

    Raises:
        FormatError: no process can have measured such values.
    """
    raw = part.collectives
    if raw is None or not raw.sums:
        return []
    sums = np.concatenate(raw.sums)
    if not len(sums):
        return []
    _check(raw, sums)
    _add_stretches(raw, find)
    node = threads[0].thread.node
    number = 1 + max(measured.thread.thread for measured in threads)
    place = Thread(node, 0, number, "host", THREAD_NAME)
    builder = StreamBuilder(timers)
    rows = {
        (int(record["communicator"]), int(record["operation"]), int(record["cause"])): _add_sum(
            builder, place, raw, record, _owner(threads, find, int(record["cause"]))
        )
        for record in sums
    }
    (measured,) = builder.threads()
    measured.launches = []
    measured.collectives = [*_kept(raw, rows)]
    return [measured]


def _add_stretches(raw: PartCollectives, find: FindPath) -> None:
    """Add to each thread its stretches between collectives."""
    records = np.concatenate(raw.stretches) if raw.stretches else np.empty(0, STRETCH)
    records = records[np.argsort(records["start"], kind="stable")]
    for thread in np.unique(records["thread"]):
        mine = records[records["thread"] == thread]
        kept = Stretches(raw.clock.moment(mine["start"]), raw.clock.moment(mine["end"]))
        owner = None
        times = raw.clock.span(mine["own"]["ticks"].reshape(-1))
        for at, (node, own_ns) in enumerate(
            zip(mine["own"]["node"].reshape(-1).tolist(), times, strict=True)
        ):
            path = find(node) if node else None
            if path is None or (owner is not None and owner is not path.measured):
                continue
            owner, row = path
            kept.stretch.append(at // STRETCH["own"].shape[0])
            kept.row.append(row)
            kept.own_ns.append(own_ns)
        if owner is not None:
            owner.stretches = kept


def _owner(threads: list[ThreadProfile], find: FindPath, cause: int) -> Owner:
    path = find(cause) if cause else None
    return Owner(threads[0].tree, 0) if path is None else path.owner


def _add_sum(
    builder: StreamBuilder, place: Thread, part: PartCollectives, record: Any, owner: Owner
) -> int:
    name = part.operations[int(record["operation"])]
    time = int(record["ticks"] * part.clock.ns_per_tick)
    count = int(record["count"])
    moved = 0.0 if record["unsized"] else float(record["bytes"])
    timer = Timer(name, groups=(GROUP, "PHASE_COMMUNICATION"))
    row = builder.add(place, owner, timer, Launch(count=count, time_ns=time))
    if moved:
        mean = moved / count  # the bytes of single collectives are unknown
        sums = Statistics(count, mean, mean, moved, moved * mean)
        builder.add_user_events(place, [sums.event(BYTES, "bytes", row)])
    return row


def _kept(part: PartCollectives, row_of: dict[tuple[int, int, int], int]) -> Iterator[Collectives]:
    everything = np.concatenate(part.rows) if part.rows else np.empty(0, COLLECTIVE)
    for number, communicator in sorted(part.communicators.items()):
        rows = everything[everything["communicator"] == number]
        rows = rows[np.argsort(rows["number"], kind="stable")]
        kept = Collectives(
            communicator.name,
            communicator.ranks,
            communicator.size,
            communicator.begun,
            communicator.stride,
        )
        _fill(kept, part, rows, number, row_of)
        if communicator.begun:
            yield kept


def _fill(
    kept: Collectives,
    part: PartCollectives,
    rows: Array,
    communicator: int,
    row_of: dict[tuple[int, int, int], int],
) -> None:
    clock = part.clock
    kept.operation = [part.operations[int(place)] for place in rows["operation"]]
    kept.number = array("q", rows["number"].astype("i8").tobytes())
    kept.bytes = array("q", rows["bytes"].astype("i8").tobytes())
    kept.asked_ns = clock.moment(rows["asked"])
    kept.begun_ns = clock.moment(rows["begun"])
    ended = np.frombuffer(clock.moment(rows["ended"]), "i8")
    kept.ended_ns = array("q", np.where(rows["ended"] > 0, ended, NOT_ENDED).tobytes())
    causes = zip(rows["operation"].tolist(), rows["cause"].tolist(), strict=True)
    kept.row = array("q", (row_of.get((communicator, *cause), 0) for cause in causes))


def _check(part: PartCollectives, sums: Array) -> None:
    places = [*sums["operation"].tolist()]
    numbers: list[Array] = []
    for rows in part.rows:
        places += rows["operation"].tolist()
        numbers += [rows["number"], rows["bytes"][rows["bytes"] != _UNKNOWN_BYTES]]
    for rows in part.stretches:
        numbers += [rows["start"], rows["end"], rows["own"]["ticks"].reshape(-1)]
    numbers += [sums["count"], sums["ticks"], sums["bytes"]]
    if any(place >= len(part.operations) for place in places) or any(
        len(column) and int(column.max()) >= 1 << 62 for column in numbers
    ):
        raise FormatError("impossible collectives")
