"""Small nsys SQLite files, with the tables and columns that nsys 2024 writes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

SCHEMA = """
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
    CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
    CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
    CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
    CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT,
        l2CacheSize INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER,
        smCount INTEGER, uuid TEXT, computeMajor INTEGER, computeMinor INTEGER);
    CREATE TABLE ENUM_CUPTI_SYNC_TYPE (id INTEGER, name TEXT, label TEXT);
    CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
        text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
        eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,
        nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
    CREATE TABLE CUDA_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER NOT NULL,
        module INTEGER NOT NULL, unresolved INTEGER, originalIP INTEGER,
        stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth));
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
        shortName INTEGER NOT NULL, registersPerThread INTEGER NOT NULL,
        gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
        blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
        staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
        localMemoryPerThread INTEGER NOT NULL, graphNodeId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
        copyKind INTEGER NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, value INTEGER, bytes INTEGER NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL,
        deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
        correlationId INTEGER, globalPid INTEGER, syncType INTEGER NOT NULL, eventId INTEGER);
"""

EPOCH_NS = 1_700_000_000_000_000_000


def pid(process: int) -> int:
    return (1 << 56) | (process << 24)


def tid(process: int, thread: int | None = None) -> int:
    return pid(process) | (process if thread is None else thread)


class NsysFile:
    """A file while it is filled; stamps count from EPOCH_NS."""

    def __init__(self, path: Path, schema: str = SCHEMA, version: str = "3") -> None:
        self.path = path
        self.db = sqlite3.connect(path)
        self.db.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;" + schema)
        self._strings: dict[str, int] = {}
        if "META_DATA_EXPORT" in schema:
            self.db.executemany(
                "INSERT INTO META_DATA_EXPORT VALUES (?, ?)",
                [("EXPORT_SCHEMA_VERSION_MAJOR", version), ("EXPORT_SCHEMA_VERSION_MINOR", "11")],
            )
            self.db.execute(
                "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", (EPOCH_NS,)
            )

    def string(self, text: str) -> int:
        known = self._strings.get(text)
        if known is None:
            known = self._strings[text] = len(self._strings) + 1
            self.db.execute("INSERT INTO StringIds VALUES (?, ?)", (known, text))
        return known

    def process(self, process: int, name: str) -> None:
        self.db.execute("INSERT INTO PROCESSES VALUES (?, ?, ?)", (pid(process), process, name))

    def gpu(self, id: int = 0, name: str = "NVIDIA H200") -> None:
        self.db.execute(
            "INSERT INTO TARGET_INFO_GPU VALUES (0, ?, ?, '0000:01:00.0', 52428800, 150754820096,"
            " 4814000000000, 1980000000, 132, 'GPU-77', 9, 0)",
            (id, name),
        )

    def call(self, name, start, end, correlation=0, thread=None, chain=None) -> None:
        self.db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, ?)",
            (start, end, thread or tid(7), correlation, self.string(name), chain),
        )

    def range(self, text, start, end, kind=59, thread=None) -> None:
        self.db.execute(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, NULL, NULL, 0)",
            (start, end, kind, text, thread or tid(7)),
        )

    def chain(self, id, frames) -> None:
        """Frames (symbol, module, unresolved), the innermost first."""
        for depth, (symbol, module, unresolved) in enumerate(frames):
            row = (id, self.string(symbol), self.string(module), unresolved, 0, depth)
            self.db.execute("INSERT INTO CUDA_CALLCHAINS VALUES (?, ?, ?, ?, ?, ?)", row)

    def kernel(self, name, start, end, correlation, grid=(1, 1, 1), block=(32, 1, 1), **at) -> None:
        place = {"device": 0, "context": 1, "stream": 7, "process": 7, **at}
        self.db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
            " (?, ?, ?, ?, ?, ?, ?, ?, ?, 16, ?, ?, ?, ?, ?, ?, 0, 1024, 0, NULL)",
            (
                start, end, place["device"], place["context"], place["stream"], correlation,
                pid(place["process"]), self.string(name), self.string(name.partition("(")[0]),
                *grid, *block,
            ),
        )  # fmt: skip

    def copy(self, kind, start, end, correlation, size, stream=7) -> None:
        self.db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, 1, ?, ?, ?, ?, ?)",
            (start, end, stream, correlation, pid(7), size, kind),
        )

    def memset(self, start, end, correlation, size) -> None:
        self.db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?, ?, 0, 1, 7, ?, ?, 0, ?)",
            (start, end, correlation, pid(7), size),
        )

    def wait(self, start, end, correlation, kind=3, stream=7) -> None:
        self.db.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (?, ?, 0, 1, ?, ?, ?, ?, 0)",
            (start, end, stream, correlation, pid(7), kind),
        )

    def done(self) -> Path:
        self.db.commit()
        self.db.close()
        return self.path


def training(path: Path, kernels: int = 1000, streams: int = 4) -> Path:
    """A training loop: steps (ranges) of 100 launches each on several streams, and a copy."""
    file = NsysFile(path)
    file.process(7, "/usr/bin/python3")
    file.gpu()
    launch = file.string("cudaLaunchKernel_v7000")
    names = [file.string(f"void layer_{n}<float, {n}>(float *, int)") for n in range(40)]
    thread, process = tid(7), pid(7)

    def calls():
        for n in range(kernels):
            yield (n * 2000, n * 2000 + 700 + n % 50, 0, thread, n + 1, launch, 0, None)

    def launched():
        for n in range(kernels):
            start = n * 2000 + 900
            name = names[n % 40]
            grid = (1 << n % 5, 1, 1)
            yield (start, start + 1000 + n % 777, 0, 1, 7 + n % streams, n + 1, process, name, name,
                   32, *grid, 128, 1, 1, 0, 0, 0, None)  # fmt: skip

    def ranges():
        for n in range(0, kernels, 100):
            yield (
                n * 2000,
                (n + 100) * 2000 - 1,
                59,
                f"step {n // 100 % 10}",
                thread,
                None,
                None,
                0,
            )

    put = file.db.executemany
    put("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?, ?, ?)", calls())
    put(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?{', ?' * 19})", launched())
    put("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?, ?, ?)", ranges())
    return file.done()
