"""The debugging GPU collector: CUPTI driven by NVIDIA's cupti-python, inside the program.

`taupy run --cupti-backend python` uses it instead of the native collector, so that the two can be
compared when a number looks wrong: here cupti-python subscribes, enables, flushes and hands over
CUPTI's records. It is slower (microseconds per API call, under the GIL) and imports cupti-python
with its dependencies into the program.

CUPTI's callbacks are functions of `_native/cupti_python.c`: they note call paths as the native
collector does, and pass records on to taupy's own thread, which sums them with the native
collector's code. That thread calls no Python routines of other packages, since those would be
recorded as the program's.
"""

from __future__ import annotations

import _queue
import _thread
import atexit
import contextlib
import ctypes
import importlib.metadata
import posix
import sys
from typing import Any

from taupy.collectors import cupti_python_host
from taupy.collectors.gpu_layout import (
    DEVICE_RECORD,
    DRIVER,
    KERNEL,
    MEMCPY,
    MEMCPY_PEER,
    MEMORY,
    MEMORY_POOL,
    MEMSET,
    RUNTIME,
    UNIFIED_MEMORY,
)

PACKAGE = "cupti-python"
DRIVER_DOMAIN, RUNTIME_DOMAIN, RESOURCE_DOMAIN = 1, 2, 3
CONTEXT_CREATED, CONTEXT_DESTROY = 1, 2
IDS_AT_MOST, MISSING_AT_MOST = 4096, 64

_KINDS = (  # kind, indispensable, with a trace only
    (DEVICE_RECORD, False, False),
    (KERNEL, True, False),
    (MEMCPY, True, False),
    (MEMSET, True, False),
    (MEMCPY_PEER, False, False),
    (MEMORY, False, False),
    (MEMORY_POOL, False, False),
    (RUNTIME, False, True),
    (DRIVER, False, True),
)


def begin(engine: Any, native: Any) -> None:
    """Begin to record this process's GPU work. If that is impossible, the GPU part says why.

    Args:
        engine: the compiled engine, with its `__file__`.
        native: the module of `_native/cupti_python.c`.
    """
    wanted = native.prepare()
    if wanted is None:
        return
    collector = Collector(native, wanted)
    try:
        collector.begin()
    except Refused as refused:
        collector.fail(refused)
        return
    native.connect(
        collector.orders.put,
        collector.end,
        collector.snapshot,
        collector.work,
        _thread.start_new_thread,
    )
    posix.register_at_fork(after_in_child=collector.forked)
    atexit.register(collector.end, 1)


class Refused(Exception):
    """Recording cannot begin: the step, CUPTI's error code (0: none), the reason."""

    def __init__(self, step: str, problem: object) -> None:
        super().__init__(step)
        self.step = step
        self.code = int(getattr(problem, "status", 0))
        name = type(problem).__name__
        self.text = f"{name}: {problem}" if isinstance(problem, Exception) else str(problem)


class Collector:
    """The recording of one process.

    Args:
        native: as for `begin`.
        wanted: the engine's settings: libraries, trace, flush_ms, end_ms.
    """

    def __init__(self, native: Any, wanted: dict[str, Any]) -> None:
        self.native = native
        self.wanted = wanted
        self.pid = posix.getpid()
        self.missing: dict[str, None] = {}
        self.closed = False
        self.orders: Any = _queue.SimpleQueue()  # lists of records, snapshots; 0 or 1: the end
        self.answered = _thread.allocate_lock()
        self.answered.acquire()
        self.kinds: list[int] = []
        self.cupti: Any = None
        self.subscriber = 0

    # ------------------------------------------------------------- the beginning

    def begin(self) -> None:
        """Subscribe, and select what CUPTI reports.

        Raises:
            Refused: recording cannot begin.
        """
        self.driver = cupti_python_host.Driver()
        note = self.native.note
        note("driver.cuda", str(self.driver.version))
        try:
            version = importlib.metadata.version(PACKAGE)
        except importlib.metadata.PackageNotFoundError as problem:
            raise Refused("import", problem) from None
        library = cupti_python_host.Library(
            self.wanted["libraries"], int(version.split(".")[0]), self.driver.version
        )
        note("cupti.library", library.path)
        note("cupti.version", str(library.version))
        if library.problem:
            raise Refused("open", library.problem)
        before = len(sys.modules)
        try:
            from cupti import cupti
        except Exception as problem:
            raise Refused("import", problem) from None
        self.cupti = cupti
        note(
            "backend",
            f"GPU work was recorded by {PACKAGE} {version} (--cupti-backend python), a debugging "
            f"aid: slower than the native collector; modules imported into the program for it: "
            f"{len(sys.modules) - before}",
        )
        self._check_library(version, library.path)
        step = "subscribe"
        try:
            self.subscriber = cupti.subscribe(self.native.on_call, None)
            step = "callbacks"
            self._choose_callbacks()
            step = "records"
            cupti.activity_register_callbacks(self.native.on_request, self.native.on_records)
            self._choose_records()
        except Exception as problem:
            if self.subscriber:
                cupti.unsubscribe(self.subscriber)
            raise Refused(step, problem) from None

    def _check_library(self, version: str, path: str) -> None:
        """Reject older versions of the package, which always open their own wheel's libcupti."""
        with contextlib.suppress(Exception):
            self.cupti.get_callback_name(RUNTIME_DOMAIN, 1)  # the first call loads the library
        paths = cupti_python_host.all_mapped("libcupti.so")
        if len(paths) > 1:
            others = " and ".join(other for other in paths if other != path)
            raise Refused("open", f"{PACKAGE} {version} has loaded {others} beside {path}")

    def _choose_callbacks(self) -> None:
        cupti = self.cupti
        for domain in (DRIVER_DOMAIN, RUNTIME_DOMAIN):
            missing = 0
            for number in range(1, IDS_AT_MOST):
                try:
                    name = cupti.get_callback_name(domain, number)
                except cupti.cuptiError:
                    missing += 1
                    if missing == MISSING_AT_MOST:
                        break
                    continue
                missing = 0
                if self.native.interest(domain, number, name):
                    cupti.enable_callback(1, self.subscriber, domain, number)
        for number in (CONTEXT_CREATED, CONTEXT_DESTROY):
            cupti.enable_callback(1, self.subscriber, RESOURCE_DOMAIN, number)

    def _choose_records(self) -> None:
        cupti = self.cupti
        for kind, needed, traced in _KINDS:
            if traced and not self.wanted["trace"]:
                continue
            try:
                cupti.activity_enable(kind)
            except Exception as problem:
                if needed:
                    raise
                self._note_missing(f"kind {kind}: {problem}")
            else:
                self.kinds.append(kind)
        try:
            counters = cupti.ActivityUnifiedMemoryCounterConfig(4)
            counters.scope, counters.device_id, counters.enable = 2, 0, 1  # 2: whole process
            for number in range(4):
                counters[number].kind = number + 1
            cupti.activity_configure_unified_memory_counter(counters.ptr, 4)
            cupti.activity_enable(UNIFIED_MEMORY)
            self.kinds.append(UNIFIED_MEMORY)
        except Exception:
            return  # a device without unified memory

    def _note_missing(self, text: str) -> None:
        if text not in self.missing:
            self.missing[text] = None
            self.native.note("records.missing", text)

    def fail(self, refused: Refused) -> None:
        """Note in the part why nothing was recorded."""
        self.native.problem(refused.step, refused.code, refused.text)
        self.native.finish(False)

    # ------------------------------------------------------------- the worker

    def work(self) -> None:
        """The summing thread's function; the first call of CUDA's API starts the thread."""
        self.native.be_ours()
        self.native.note("backend.threads", str(_thread.get_native_id()))
        pause_s = (self.wanted["flush_ms"] or 1000) / 1000
        seen = 0
        while True:
            try:
                orders = self.orders.get(True, pause_s)
            except _queue.Empty:
                launches = self.native.progress()[0]
                if launches != seen:  # write complete records to the file: they survive a kill
                    seen = launches
                    self._flush(0)
                continue
            if isinstance(orders, list):
                self._add(orders)
                self.native.keep(0)
                continue
            if isinstance(orders, tuple):
                self._copy(*orders)
                continue
            for context in self.native.progress()[2]:
                self.driver.synchronize(context)
            for forced in (0, 1):
                self._flush(forced)
            if orders:
                self._leave_cupti()
                self._drain()
                self.native.keep(0)
            self.answered.release()
            if orders:
                return

    def _drain(self) -> None:
        """Take in all records that have arrived; other requests keep their place in the queue."""
        others = []
        while True:
            try:
                orders = self.orders.get_nowait()
            except _queue.Empty:
                break
            if isinstance(orders, list):
                self._add(orders)
            else:
                others.append(orders)
        for orders in others:
            self.orders.put(orders)

    def _copy(self, path: bytes, done: Any, late: list[bool]) -> None:
        """Copy the current part for a snapshot, with the GPU work that is complete."""
        self._flush(0)
        if not late and self.native.copy(path):
            done.release()

    def _add(self, records: list[Any]) -> None:
        try:
            self.native.add(records)
        except Exception as problem:
            self._note_missing(f"records ({type(problem).__name__}: {problem})")

    def _flush(self, forced: int) -> None:
        """Have complete records handed over, and take them in."""
        dropped = ctypes.c_size_t()
        try:
            self.cupti.activity_flush_all(forced)
            self.cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(dropped))
        except Exception as problem:
            self._note_missing(f"flush: {problem}")
        self._drain()
        self.native.keep(dropped.value)

    def _leave_cupti(self) -> None:
        """Make sure that CUPTI calls no Python code after Python has ended."""
        self.native.close()
        try:
            for kind in self.kinds:
                self.cupti.activity_disable(kind)
            self.cupti.unsubscribe(self.subscriber)
        except Exception as problem:
            self._note_missing(f"end: {problem}")

    # ------------------------------------------------------------- the end

    def end(self, last: int) -> None:
        """Wait for the GPUs, and deliver pending records; `last`: nothing follows."""
        if self.closed or self.pid != posix.getpid():
            return
        late = False
        if self.native.progress()[1]:
            self.orders.put(1 if last else 0)
            late = not self.answered.acquire(True, max(self.wanted["end_ms"], 1) / 1000)
        if last or late:  # after a timeout, no second attempt
            self.native.close()
            self.closed = True
            self.native.finish(late)

    def snapshot(self, path: bytes) -> bool:
        """Copy the part into a file; False if that took too long."""
        if self.closed or self.pid != posix.getpid():
            return False
        done: Any = _thread.allocate_lock()
        late: list[bool] = []
        done.acquire()
        self.orders.put((path, done, late))
        if done.acquire(True, max(self.wanted["end_ms"], 1) / 1000):
            return True
        late.append(True)
        return False

    def forked(self) -> None:
        """In a forked child, which cannot use its parent's CUDA."""
        self.closed = True
