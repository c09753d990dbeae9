"""The debugging GPU collector: CUPTI driven by NVIDIA's cupti-python, inside the program.

`taupy run --cupti-backend python` has it in place of the native collector, so that one can be
held against the other when a number looks wrong: the callbacks, the decoding of records and the
sums are Python here, and the GPU part that comes of it is read by the same code. It is slower
(microseconds a call of the API and a record, under the GIL) and imports cupti-python and what
that needs into the program.

An exception must not leave a callback: cupti-python would hand it to whoever called CUDA. What
is not ours (a Ctrl-C, a signal handler's) is raised again in its thread from outside.

Runs inside the measured process: callbacks call no Python routines of others, since those
would be recorded as the program's.
"""

from __future__ import annotations

import _queue
import _signal  # type: ignore[import-not-found]
import _thread
import atexit
import ctypes
import importlib.metadata
import os
import posix
import sys
import time
from collections.abc import Callable
from typing import Any

from taupy.collectors import cupti_python_host
from taupy.collectors.cupti_part import DRIVER, ENDED, FAILED, KERNEL, MEMORY, RUNNING, RUNTIME
from taupy.collectors.cupti_python_calls import (
    DRIVER_DOMAIN,
    LAUNCHES,
    RESOURCE_DOMAIN,
    RUNTIME_DOMAIN,
    interest_in,
)
from taupy.collectors.cupti_python_part import PartWriter, TraceWriter
from taupy.collectors.cupti_python_sums import (
    DEVICE,
    MEMCPY,
    MEMCPY_PEER,
    MEMORY_POOL,
    MEMSET,
    UNIFIED_MEMORY,
    Sums,
)

PACKAGE = "cupti-python"
BUFFER_BYTES = 2 << 20
IDS_AT_MOST, MISSING_AT_MOST = 4096, 64
CONTEXT_CREATED, CONTEXT_DESTROY = 1, 2
API_ENTER = 0

_KINDS = (  # kind, indispensable, with a trace only
    (DEVICE, False, False),
    (KERNEL, True, False),
    (MEMCPY, True, False),
    (MEMSET, True, False),
    (MEMCPY_PEER, False, False),
    (MEMORY, False, False),
    (MEMORY_POOL, False, False),
    (RUNTIME, False, True),
    (DRIVER, False, True),
)


class _OpenCalls:
    """The calls of one thread: what is open, and what has been."""

    __slots__ = ("calls", "depth", "launches", "number", "place", "start_ns")

    def __init__(self, number: int) -> None:
        self.number = number  # of a thread without routines
        self.depth = 0
        self.start_ns = 0
        self.place = 0
        self.launches = 0
        self.calls: dict[int, list[int]] = {}  # key of GpuCall -> [calls, ns]


def begin(engine: Any) -> Callable[[int], None] | None:
    """Begin to record this process's GPU work.

    Args:
        engine: the compiled engine, with its `__file__`.

    Returns:
        What is to be called at the end (1) or before the process replaces itself (0); None
        where recording could not begin: the GPU part says why.
    """
    host = cupti_python_host.find_host(engine.__file__)
    if host is None:
        return None
    host.tried = 1
    collector = Collector(engine, host)
    try:
        collector.begin()
    except Refused as refused:
        collector.fail(refused)
        return None
    cupti_python_host.connect(host, engine.__file__)
    posix.register_at_fork(after_in_child=collector.forked)
    atexit.register(collector.end, 1)
    return collector.end


class Refused(Exception):
    """Recording cannot begin: the step, CUPTI's answer (0: none), the reason."""

    def __init__(self, step: str, problem: object) -> None:
        super().__init__(step)
        self.step = step
        self.code = getattr(problem, "status", 0)
        name = type(problem).__name__
        self.text = f"{name}: {problem}" if isinstance(problem, Exception) else str(problem)


class Collector:
    """The recording of one process."""

    def __init__(self, engine: Any, host: cupti_python_host.GpuHost) -> None:
        self.engine = engine
        self.host = host
        self.place: Any = host.place
        self.pid = posix.getpid()
        self.clock_start: tuple[int, int] = engine.read_clock()
        self.start_times = time.time_ns(), time.monotonic_ns()
        self.notes: dict[str, str] = {}
        self.sums = Sums(bool(host.trace))
        self.interest: dict[int, int] = {}  # domain << 12 | callback id
        self.call_names: dict[tuple[int, int], str] = {}
        self.open: dict[int, _OpenCalls] = {}  # by the system's thread id
        self.thread_names: dict[int, tuple[int, str]] = {}
        self.contexts: list[int] = []
        self.native_ids: set[int] = set()  # of threads that worked for the recording
        self.counted = {"buffers": 0, "dropped": 0, "told": 0, "flush_timed_out": 0}
        self.state = RUNNING
        self.closed = True
        self.worker = 0  # its identity
        self.asked: Any = _queue.SimpleQueue()
        self.answered = _thread.allocate_lock()
        self.answered.acquire()
        self.kinds: list[int] = []
        self.cupti: Any = None
        self.subscriber = 0
        name = f"{self.pid}-{self.clock_start[0]:x}"
        self.path = os.path.join(host.run_folder, name.encode() + b".gpu")
        self.trace = TraceWriter(self.path + b"trace") if host.trace else None

    # ------------------------------------------------------------- the beginning

    def begin(self) -> None:
        """Subscribe, and choose what is to come.

        Raises:
            Refused: it cannot be.
        """
        driver = self.driver = cupti_python_host.Driver()
        self.notes["driver.cuda"] = str(driver.version)
        try:
            version = importlib.metadata.version(PACKAGE)
        except importlib.metadata.PackageNotFoundError as problem:
            raise Refused("import", problem) from None
        library = cupti_python_host.Library(self.host, int(version.split(".")[0]), driver.version)
        self.notes |= {"cupti.library": library.path, "cupti.version": str(library.version)}
        if library.problem:
            raise Refused("open", library.problem)
        before = len(sys.modules)
        try:
            from cupti import cupti
        except Exception as problem:
            raise Refused("import", problem) from None
        self.cupti = cupti
        self._say_backend(version, len(sys.modules) - before)
        step = "subscribe"
        try:
            self.subscriber = cupti.subscribe(self.on_call, None)
            step = "callbacks"
            self._choose_callbacks()
            step = "records"
            cupti.activity_register_callbacks(self.on_request, self.on_records)
            self._choose_records()
        except Exception as problem:
            if self.subscriber:
                cupti.unsubscribe(self.subscriber)
            raise Refused(step, problem) from None
        self.closed = False

    def _say_backend(self, version: str, modules: int) -> None:
        text = (
            f"GPU work was recorded by cupti-python {version} (--cupti-backend python), a "
            f"debugging aid: slower than the native collector; {modules} modules were imported "
            "into the program for it"
        )
        self.notes["backend"] = f"{PACKAGE} {version}"
        self.engine.set_metadata("taupy.health.gpu_backend", text)

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
                interest = interest_in(domain, name)
                if interest:
                    self.interest[domain << 12 | number] = interest
                    self.call_names[domain, number] = name
                    cupti.enable_callback(1, self.subscriber, domain, number)
        for number in (CONTEXT_CREATED, CONTEXT_DESTROY):
            cupti.enable_callback(1, self.subscriber, RESOURCE_DOMAIN, number)

    def _choose_records(self) -> None:
        cupti = self.cupti
        for kind, needed, traced in _KINDS:
            if traced and not self.host.trace:
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
            wanted = cupti.ActivityUnifiedMemoryCounterConfig(4)
            wanted.scope, wanted.device_id, wanted.enable = 2, 0, 1  # all devices of the process
            for number in range(4):
                wanted[number].kind = number + 1
            cupti.activity_configure_unified_memory_counter(wanted.ptr, 4)
            cupti.activity_enable(UNIFIED_MEMORY)
            self.kinds.append(UNIFIED_MEMORY)
        except Exception:
            return  # a device without unified memory

    def _note_missing(self, text: str) -> None:
        known = self.notes.get("records.missing")
        self.notes["records.missing"] = f"{known}; {text}" if known else text

    def fail(self, refused: Refused) -> None:
        """The part says why nothing was recorded."""
        self.notes |= {
            "error.step": refused.step,
            "error.code": str(refused.code),
            "error.text": refused.text,
        }
        self.state = FAILED
        self.write()

    # ------------------------------------------------------------- CUPTI's callbacks

    def on_call(self, user: object, domain: int, number: int, data: Any) -> None:
        """A call of the API begins or ends, in the calling thread."""
        try:
            if self.closed:
                return
            if not self.worker:
                self._begin_worker()
            elif _thread.get_ident() == self.worker:
                return
            if domain == RESOURCE_DOMAIN:
                self._on_context(number, data.context)
                return
            native_id = _thread.get_native_id()
            thread = self.open.get(native_id)
            if thread is None:
                thread = self.open[native_id] = _OpenCalls(len(self.open) + 1)
            if data.callback_site == API_ENTER:
                place = self.place()
                host, launch = place.host, place.launch
                if sys._getframe().f_back is None:  # the engine sees our frame only
                    self.native_ids.add(native_id)
                    host, launch = 0, launch if launch != host else 0
                self.sums.launched(data.correlation_id, launch)
                thread.depth += 1
                if thread.depth == 1:  # else the runtime calls the driver
                    if self.interest.get(domain << 12 | number, 0) & LAUNCHES:
                        thread.launches += 1
                    thread.place = host >> 6 if host else self._bare(thread)
                    thread.start_ns = time.perf_counter_ns()
            elif thread.depth:
                thread.depth -= 1
                if not thread.depth:
                    took = time.perf_counter_ns() - thread.start_ns
                    key = thread.place << 14 | domain << 12 | number
                    call = thread.calls.setdefault(key, [0, 0])
                    call[0] += 1
                    call[1] += took
        except BaseException as problem:
            self._not_here(problem)

    def on_request(self) -> tuple[int, int]:
        """CUPTI wants a buffer: of so many bytes, for as many records as fit."""
        return BUFFER_BYTES, 0

    def on_records(self, records: list[Any]) -> None:
        """A buffer is full, or flushed: in CUPTI's thread, or in the flushing one."""
        try:
            if self.pid != posix.getpid():
                return
            self.counted["told"] = sum([thread.launches for thread in list(self.open.values())])
            self.counted["buffers"] += 1
            self.native_ids.add(_thread.get_native_id())
            add = self.sums.add
            for record in records:
                add(record)
        except BaseException as problem:
            self._not_here(problem)

    def _on_context(self, number: int, context: int) -> None:
        if number == CONTEXT_CREATED:
            self.contexts.append(context)
        elif number == CONTEXT_DESTROY and context in self.contexts:
            self.contexts.remove(context)

    def _bare(self, thread: _OpenCalls) -> int:
        """The number of a thread that has no routines."""
        if thread.number not in self.thread_names:
            try:
                with open("/proc/thread-self/comm", "rb", 0) as file:
                    name = file.read(32)[:-1].decode("utf-8", "replace")
            except OSError:
                name = ""
            self.thread_names[thread.number] = _thread.get_native_id(), name
        return thread.number

    def _not_here(self, problem: BaseException) -> None:
        """An exception in a callback: the program's is raised again, ours is noted."""
        trace = problem.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        file = trace.tb_frame.f_code.co_filename if trace is not None else __file__
        if isinstance(problem, Exception) and file.startswith(__file__[:-3]):
            self._note_missing(f"{type(problem).__name__} in a callback: {problem}")
        else:
            self.asked.put((_thread.get_ident(), type(problem)))

    # ------------------------------------------------------------- the worker

    def _begin_worker(self) -> None:
        """With the first context or call, not before: who only asks for GPUs gets no thread."""
        self.worker = -1
        every = _signal.valid_signals()
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, every)  # the program's are not for it
        try:
            self.worker = _thread.start_new_thread(self._work, ())
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)

    def _work(self) -> None:
        pause_s = (self.host.flush_ms or 1000) / 1000
        seen = 0
        self.native_ids.add(_thread.get_native_id())
        while True:
            try:
                asked = self.asked.get(True, pause_s)
            except _queue.Empty:
                launches = sum([thread.launches for thread in list(self.open.values())])
                if launches != seen:  # what is complete goes to the file: it outlives a kill
                    seen = launches
                    self._flush(0)
                    self.write()
                continue
            if isinstance(asked, tuple):
                ident, raised = asked
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(ident), ctypes.py_object(raised)
                )
                continue
            for context in self.contexts.copy():
                self.driver.synchronize(context)
            self._flush(0)
            self._flush(1)
            if asked:
                self._leave_cupti()
            self.write()
            self.answered.release()
            if asked:
                return

    def _flush(self, forced: int) -> None:
        try:
            self.cupti.activity_flush_all(forced)
        except Exception as problem:
            self._note_missing(f"flush: {problem}")
        dropped = ctypes.c_size_t()
        try:
            self.cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(dropped))
        except Exception:
            return
        self.counted["dropped"] += dropped.value

    def _leave_cupti(self) -> None:
        """Nothing of CUPTI's is to call Python when Python has ended."""
        for kind in self.kinds:
            try:
                self.cupti.activity_disable(kind)
            except Exception:
                continue
        try:
            self.cupti.unsubscribe(self.subscriber)
        except Exception:
            return

    # ------------------------------------------------------------- the end

    def end(self, last: int) -> None:
        """Deliver what is under way; `last`: and nothing follows. Waits for the GPUs."""
        if self.closed or self.pid != posix.getpid():
            return
        if self.worker > 0:
            self.asked.put(last)
            if not self.answered.acquire(True, max(self.host.end_ms, 1) / 1000):
                self.counted["flush_timed_out"] = 1
                last = 1  # not again
        if last:
            self.closed = True
            self.state = ENDED
            self.write()

    def forked(self) -> None:
        """In a forked child, which cannot use its parent's CUDA."""
        self.closed = True

    def write(self) -> None:
        """The part as it stands."""
        part = PartWriter(self.pid, self.host.part_start())
        ticks, now_ns = self.engine.read_clock()
        passed_ns = max(now_ns - self.clock_start[1], 1)
        ratio = max(ticks - self.clock_start[0], 1) / passed_ns
        calls: dict[int, tuple[int, int]] = {}
        launches = 0
        for thread in list(self.open.values()):
            launches += thread.launches
            for key, (count, took_ns) in list(thread.calls.items()):
                known = calls.get(key, (0, 0))
                calls[key] = known[0] + count, known[1] + round(took_ns * ratio)
        lost = self.trace.lost if self.trace is not None else 0
        times = {
            "realtime_start": self.start_times[0],
            "monotonic_start": self.start_times[1],
            "realtime_end": time.time_ns(),
            "monotonic_end": time.monotonic_ns(),
        }
        own = {"state": self.state, "launches": launches, "trace_lost": lost}
        part.counters({**own, **self.counted, **self.sums.counters, **times})
        threads = " ".join([str(number) for number in self.native_ids.copy()])
        part.notes({**self.notes, "backend.threads": threads})
        used = {(key >> 12 & 3, key & 0xFFF) for key in calls}
        used |= {(2 if key[1] == RUNTIME else 1, key[2]) for key in list(self.sums.rows)
                 if key[1] in (RUNTIME, DRIVER)}  # fmt: skip
        part.call_names({key: self.call_names[key] for key in used if key in self.call_names})
        part.calls(calls)
        part.threads(self.thread_names.copy())
        for device in self.sums.devices.copy():
            part.device(device)
        part.live(self.sums.live())
        part.work(self.sums.work())  # before the names: a row without its name is no use
        part.names(self.sums.names.copy())
        if self.trace is not None:
            self.trace.write(self.sums.take_spans())
        part.write(self.path)
