"""Read the SQLite file that Nsight Systems exports (`nsys export --type sqlite`).

Each process is a node. A host thread's call paths consist of its NVTX ranges (phases) and, below
them, its API calls (CUDA, cuDNN, cuBLAS, MPI, the operating system's), with the frames of a call's
backtrace between the two if the file has it. A kernel, copy or memset is placed under the call that
launched it, by correlation id; a wait is a user event of the waiting call. CPU samples become
separate threads with the metric `samples`. Missing tables and columns are tolerated, since nsys
omits tables without rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from taupy.analysis import gpu_idle
from taupy.catalog.occupancy import fitted
from taupy.formats import foreign_sqlite
from taupy.formats.gpu_records import (
    NOWHERE,
    StreamRecords,
    Waits,
    Work,
    copy_work,
    memset_work,
    stream_threads,
)
from taupy.formats.nsight import nsys_target
from taupy.formats.nsight.nsys_comms import Comms
from taupy.formats.nsight.nsys_host import Hosts
from taupy.formats.nsight.nsys_tables import GPU_TABLES, WAITS, Tables
from taupy.formats.reading import refusal
from taupy.formats.registry import IMPORT_NOTES, Format
from taupy.model.gpu import Configuration, extent
from taupy.model.kernel_names import kernel_timer
from taupy.model.profile import TIME, Metric, Profile, Thread, Timer
from taupy.model.progress import Progress
from taupy.units import several

KNOWN_MAJOR: Final = 3
"""The newest known major version of the exported schema."""

_PAGEABLE: Final = 0
"""ENUM_CUDA_MEM_KIND: CUDA_MEMOPR_MEMORY_KIND_PAGEABLE."""

_CONTEXT_WIDE: Final = 0xFFFFFFFF

_WAYS: Final = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP", 11: "HtoD (managed)", 12: "DtoH (managed)", 13: "DtoD (managed)",
}  # fmt: skip


def recognises(path: Path, first: bytes) -> bool:
    if path.suffix in (".nsys-rep", ".qdrep", ".qdstrm"):
        return True
    if not first.startswith(foreign_sqlite.MAGIC) or first[68:72] == b"TAUP":
        return False
    names = foreign_sqlite.tables(path)
    if not names:  # damaged: the schema's text may still name them
        return b"CUPTI_ACTIVITY_KIND_" in first or b"META_DATA_EXPORT" in first
    return "StringIds" in names and any(
        name in names
        for name in (*GPU_TABLES, "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "META_DATA_EXPORT",
                     "OSRT_API", "SAMPLING_CALLCHAINS")
    )  # fmt: skip


def read(path: Path, progress: Progress) -> Iterator[Profile]:
    """The file's only trial; its nodes are the processes in order of their first event."""
    if path.suffix in (".nsys-rep", ".qdrep", ".qdstrm"):
        raise refusal(
            path, "", "a report of nsys itself; make it readable with: "
            f"nsys export --type sqlite {path.name}"
        )  # fmt: skip
    with foreign_sqlite.opened(path) as connection:
        tables = Tables(connection)
        if "StringIds" not in tables:
            raise refusal(path, "", "no table StringIds: not exported by nsys")
        foreign_sqlite.check(path, connection)
        yield _profile(path, tables, progress)


def _profile(path: Path, tables: Tables, progress: Progress) -> Profile:
    notes: list[str] = []
    metadata = nsys_target.metadata(tables)
    _check_version(metadata, notes)
    began_ns = nsys_target.start_ns(tables)
    if began_ns is None:
        notes.append("the file does not say when it was recorded; its own date is taken")
    hosts = Hosts(tables, notes, began_ns or 0)
    comms = Comms()
    total = sum(tables.rows(name) for name in (*hosts.tables(), *GPU_TABLES))
    progress.begin(path.name, total)
    hosts.read(progress)
    streams = _streams(tables, hosts, comms, began_ns or 0, progress, notes)
    metrics = [TIME]
    threads = hosts.threads()
    hosts.add_inputs()
    threads += comms.threads(hosts, threads, began_ns or 0, notes)
    _read_waits(tables, hosts, notes)
    threads += stream_threads(hosts.timers, list(streams.values()), hosts.owner, notes)
    sampled = hosts.sampled_threads()
    if sampled:
        metrics.append(Metric("samples", "sample"))
        threads += sampled
    if not threads:
        raise refusal(path, "", "nothing was recorded: no API calls, ranges, GPU work or samples")
    spans = [hosts.span, *(_span(stream) for stream in streams.values())]
    present = [span for span in spans if span]
    begin = min((span[0] for span in present), default=0)
    end = max((span[1] for span in present), default=0)
    nodes = hosts.nodes
    if notes:
        metadata[IMPORT_NOTES] = "\n".join(notes)
    profile = Profile(
        uuid="",
        application=nsys_target.application(tables, nodes) or path.stem,
        experiment="default",
        started_at=(path.stat().st_mtime if began_ns is None else (began_ns + begin) // 1000 / 1e6),
        duration_ns=end - begin,
        timers=hosts.timers,
        threads=sorted(threads, key=lambda thread: thread.thread),
        metrics=metrics,
        source="nsys",
        metadata=metadata,
        node_metadata=nsys_target.node_metadata(tables, nodes),
        devices=nsys_target.devices(tables, nodes, {s.thread for s in streams.values()}),
    )
    gpu_idle.note(profile, hosts.slices, _pageable(tables, hosts))
    return profile


def _pageable(tables: Tables, hosts: Hosts) -> dict[int, set[int]]:
    """Node -> correlations of copies from or to pageable memory."""
    table = "CUPTI_ACTIVITY_KIND_MEMCPY"
    pageable: dict[int, set[int]] = {}
    if tables.has(table, "srcKind", "dstKind", "correlationId"):
        kinds = [tables.integer(table, name) for name in ("srcKind", "dstKind")]
        for process, correlation in tables.connection.execute(
            f"SELECT {tables.process(table)}, {tables.integer(table, 'correlationId')}"
            f" FROM {table} WHERE {kinds[0]} = {_PAGEABLE} OR {kinds[1]} = {_PAGEABLE}"
        ):
            if process in hosts.nodes and isinstance(correlation, int):
                pageable.setdefault(hosts.nodes[process], set()).add(correlation)
    return pageable


def _check_version(metadata: dict[str, str], notes: list[str]) -> None:
    version = metadata.get("nsys.EXPORT_SCHEMA_VERSION") or ".".join(
        metadata[name]
        for part in ("MAJOR", "MINOR", "MICRO")
        if (name := f"nsys.EXPORT_SCHEMA_VERSION_{part}") in metadata
    )
    if not version:
        notes.append("the file does not say the version of its schema; its columns were looked at")
        return
    metadata["nsys schema"] = version
    major = re.match(r"\d{1,6}", version)
    if major is None or int(major[0]) > KNOWN_MAJOR:
        notes.append(
            f"schema version {version} is newer than the known ones (up to {KNOWN_MAJOR}); "
            "tables were read by the names of their columns"
        )


def _span(stream: StreamRecords) -> tuple[int, int] | None:
    stamps = stream.stamps
    return (min(stamps.start), max(stamps.end)) if len(stamps) else None


def _streams(
    tables: Tables,
    hosts: Hosts,
    comms: Comms,
    base_ns: int,
    progress: Progress,
    notes: list[str],
) -> dict[tuple[int, int, int, int], StreamRecords]:
    """All GPU work, by (process, device, CUDA context, stream)."""
    streams = _numbered(tables, hosts, base_ns)
    makers = {
        "CUPTI_ACTIVITY_KIND_KERNEL": _kernel,
        "CUPTI_ACTIVITY_KIND_MEMCPY": _copy,
        "CUPTI_ACTIVITY_KIND_MEMSET": lambda tables, row: memset_work(),
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": _graph,
    }
    capability = nsys_target.compute_capabilities(tables)
    lost = unread = missing = 0
    for table, make in makers.items():
        if table not in tables:
            continue
        progress.begin(table.rpartition("_")[2].lower(), tables.rows(table))
        places: dict[tuple[Any, ...], int] = {}
        works: dict[tuple[Any, ...], Work] = {}
        codes = hosts.codes
        number = 0
        for number, row in enumerate(tables.connection.execute(tables.gpu_query(table)), 1):
            start, end, moved, correlation = row[:4]
            stream = streams.get(row[4:8])
            if stream is None:
                unread += 1
                continue
            code = codes.find(row[4], correlation)
            if code == NOWHERE:
                lost += 1
            key = (code, *row[4:])
            place = places.get(key)
            if place is None:
                kind = row[8:]
                work = works.get(kind)
                if work is None:
                    work = works[kind] = make(tables, kind)
                if work.kind == "kernel":
                    fits = fitted(work.configuration, capability.get(row[5], ""))
                    work = work._replace(configuration=fits)
                place = places[key] = stream.place(code, work)
                comms.look_at(key, work.timer.name)
            stream.add(place, start, end, correlation, moved)
            if hosts.inputs:
                hosts.inputs.ran(row[4], correlation, end - start)
            if key in comms.kernels:
                comms.add(key, start, end)
            if not number & 0x3FFF:
                progress.advance(0x4000)
        missing += tables.count(table) - number
    if missing:
        notes.append(f"left out: {several(missing, 'record')} of GPU work without usable stamps")
    if lost:
        notes.append(f"{several(lost, 'record')} of GPU work without the API call of its launch")
    if unread:
        notes.append(f"{several(unread, 'record')} of GPU work without a stream")
    return streams


def _numbered(
    tables: Tables, hosts: Hosts, base_ns: int
) -> dict[tuple[int, int, int, int], StreamRecords]:
    """The streams of each device, numbered by CUDA context, then by id."""
    all_streams: set[tuple[int, int, int, int]] = set()
    for table in GPU_TABLES:
        all_streams |= tables.streams(table)
    streams = {}
    numbers: dict[tuple[int, int], int] = {}
    contexts: dict[tuple[int, int], set[int]] = {}
    for process, device, context, _ in all_streams:
        contexts.setdefault((process, device), set()).add(context)
    for process, device, context, stream in sorted(all_streams):
        number = numbers.get((process, device), 0)
        numbers[process, device] = number + 1
        name = "all streams" if stream == _CONTEXT_WIDE else f"stream {stream}"
        if len(contexts[process, device]) > 1:
            name += f" (CUDA context {context})"
        native = 0 if stream == _CONTEXT_WIDE else stream
        thread = Thread(hosts.node(process), 1 + device, number, "stream", name, native)
        streams[process, device, context, stream] = StreamRecords(thread, base_ns)
    return streams


def _kernel(tables: Tables, row: tuple[Any, ...]) -> Work:
    name, gx, gy, gz, bx, by, bz, registers, static, dynamic, local = row
    configuration = Configuration(
        grid=extent(gx, gy, gz),
        block=extent(bx, by, bz),
        registers=registers,
        shared_static_bytes=static,
        shared_dynamic_bytes=dynamic,
        local_bytes=local,
    )
    return Work(kernel_timer(tables.text(name, "(unnamed kernel)")), "kernel", configuration)


def _copy(tables: Tables, row: tuple[Any, ...]) -> Work:
    (kind,) = row
    label = tables.enum("ENUM_CUDA_MEMCPY_OPER", kind, "label")
    way = _WAYS.get(kind) if isinstance(kind, int) else None
    return copy_work(way or label or "of unknown kind")


def _read_waits(tables: Tables, hosts: Hosts, notes: list[str]) -> None:
    """Turn records of waits into user events of the waiting calls."""
    if WAITS not in tables:
        return
    waits = Waits()
    for start, end, _, correlation, process, *_, kind in tables.connection.execute(
        tables.gpu_query(WAITS)
    ):
        label = tables.enum("ENUM_CUPTI_SYNC_TYPE", kind, "label")
        code = hosts.codes.find(process, correlation)
        waits.add(code, label or f"synchronization of type {kind}", end - start)
    hosts.add_events(waits.events())
    notes += waits.notes()


def _graph(tables: Tables, row: tuple[Any, ...]) -> Work:
    (graph,) = row
    return Work(Timer(f"CUDA graph {graph}", groups=("GPU_KERNEL", "GPU_GRAPH")), "kernel")


FORMAT = Format(
    name="nsys",
    title="Nsight Systems SQLite export",
    suffixes=(".sqlite",),
    recognises=recognises,
    read=read,
)
