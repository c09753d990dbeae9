"""Gather a Chrome trace's events in columns, and turn them into a profile.

Events may be in any order. Slices are kept as numbers, a few dozen bytes each, and are sorted
thread by thread after the last event.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

from taupy.analysis import gpu_idle
from taupy.formats import limits
from taupy.formats.chrome import python_ids, values
from taupy.formats.chrome.asynchronous import Asynchronous
from taupy.formats.chrome.capture import Capture
from taupy.formats.chrome.comms import BACKENDS, NOTED, Comms
from taupy.formats.chrome.counters import LAUNCH, KernelCounters
from taupy.formats.chrome.frames import StackFrames
from taupy.formats.chrome.gpu import GpuSlices
from taupy.formats.chrome.header import Header, describe
from taupy.formats.chrome.host import BEGIN, END, MARK, Context, Host, Slices, ThreadKey, packed
from taupy.formats.chrome.modules import backward_timer
from taupy.formats.gpu_records import root_timer
from taupy.formats.json_events import Events, Number
from taupy.formats.operator_inputs import UNKNOWN, OperatorInputs, signature_of
from taupy.formats.registry import IMPORT_NOTES
from taupy.model.profile import TIME, Profile, Statistics, ThreadProfile, Timer
from taupy.model.progress import Progress
from taupy.model.timers import Timers
from taupy.network import layers
from taupy.network.operators import GROUP
from taupy.units import several

NOBODY: Final = (0, 0)

_UNNUMBERED: Final = -1
_MOST_NODES: Final = 1 << 36
_MOST_SIGNATURES: Final = 1 << 23


class TraceReader:
    """Collects events and builds a profile from them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.timers: list[Timer] = [root_timer()]
        self._timer_place = Timers(self.timers).place
        self._places: dict[str, dict[str, int]] = {}  # category -> name -> place of its timer
        self._threads: dict[ThreadKey, Slices] = {}
        self.gpu = GpuSlices()
        self._counted = KernelCounters()
        self._comms = Comms()
        self._asynchronous = Asynchronous()
        self._counters: dict[ThreadKey, dict[tuple[str, str], Statistics]] = {}
        self.process_facts: dict[Hashable, dict[str, str]] = {}
        self._thread_names: dict[ThreadKey, str] = {}
        self._left_out: dict[tuple[str, str], int] = {}  # by noun and what is said of it
        self._whole_microseconds = True
        self._inputs = OperatorInputs()
        self._signatures: dict[bytes, int] = {}
        self._has_backward = False

    @property
    def anything(self) -> bool:
        """Whether there was a slice, GPU work or a counter."""
        slices = any(len(thread.start) for thread in self._threads.values())
        slices = slices or bool(self._asynchronous) or bool(self._comms)
        return slices or bool(len(self.gpu)) or bool(self._counters) or bool(self._counted)

    def add(self, event: dict[str, Any]) -> None:
        """Add one event. Events without a kind or a time are omitted and counted."""
        kind = event.get("ph")
        if kind == "X":
            self._slice(event)
        elif kind == "B" or kind == "E":
            self._half(event, kind)
        elif kind == "C":
            self._counter(event)
        elif kind == "M":
            self._name_of(event)
        elif kind in ("b", "e", "S", "F"):
            self._asynchronous_half(event, kind in ("b", "S"))
        elif kind == "s" or kind == "f":
            if event.get("cat") in ("ac2g", "async_gpu", "async_cpu_to_gpu"):
                self._arrow(event, kind)
        elif kind in ("i", "I", "n", "R"):
            self._instant(event)
        elif kind is None:
            self._leave_out("event", "without ph")
        elif kind not in ("t", "P", "N", "O", "D", "v", "V", "c", "(", ")", "T", "p"):
            self._leave_out("event", f"of unknown kind ph={str(kind)[:20]!r}")
        elif kind in ("P", "T", "p"):
            self._leave_out("event", f"of the kind ph={kind!r}")

    def _slice(self, event: dict[str, Any]) -> None:
        start = self._time(event.get("ts"))
        duration = self._time(event.get("dur", 0))
        if start is None or duration is None:
            self._leave_out("slice", "without a time")
            return
        if not 0 <= duration < limits.SLICE_NS:
            self._leave_out("slice", "with an end before the beginning")
            return
        category = event.get("cat")
        category = category if isinstance(category, str) else ""
        name = event.get("name")
        name = name if isinstance(name, str) else "(unnamed)"
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        kind = category.lower()
        gpu = values.device_work(kind, name)
        if gpu == "sync":
            self.gpu.add_wait(name, duration, args)
            return
        if gpu is not None:
            self.gpu.add(event, name, gpu, start, duration, args)
            self._comms.kernel(start, duration, args)
            return
        if kind == values.KERNEL_COUNTERS:
            self._counted.add(event, name, start, args)
            return
        if kind in values.LEFT_OUT:
            self._leave_out("slice", f"of the category {category}")
            return
        link, about = -1, 0
        if args:
            number = None
            if kind in values.API_CATEGORIES:
                number = values.integer(args.get("correlation"))
            if number is not None:
                link = 2 * number + 1
            elif (number := values.integer(args.get("External id"))) is not None:
                link = 2 * number
            if "Input Dims" in args or "Sequence number" in args or "Input dims" in args:
                about = self._about(args)
        place = self._place(name, category)
        if name.startswith(BACKENDS) and self._comms.range(event, start, duration, place):
            return
        slices = self._append(event, start, duration, place, link, about)
        if slices is not None:
            if python_ids.KEY in args:
                slices.python.add(len(slices.start) - 1, args)
            if name.startswith(NOTED):
                key = (event.get("pid"), event.get("tid"))
                self._comms.host_slice(key, name, start, duration, args)

    def _about(self, args: dict[str, Any]) -> int:
        """What a slice reports of an operator, packed; 0 for nothing."""
        sizes = args.get("Input Dims") or args.get("Input dims")
        number = args.get("Sequence number")
        signature = self._signature(sizes, args.get("Input type")) if sizes else UNKNOWN
        sequence = _UNNUMBERED
        if type(number) is int and 0 <= number < _MOST_NODES:
            is_backward = bool(args.get("Fwd thread id"))
            self._has_backward |= is_backward
            sequence = 2 * number + is_backward
        return packed(signature if signature < _MOST_SIGNATURES else UNKNOWN, sequence)

    def _signature(self, sizes: Any, types: Any) -> int:
        """The number of an operator's signature."""
        try:
            key = marshal.dumps((sizes, types), 2)
        except ValueError:  # something that no profiler writes
            key = repr((sizes, types)).encode("utf-8", "replace")
        number = self._signatures.get(key)
        if number is None:
            text = signature_of(sizes, types)
            number = UNKNOWN if text is None else self._inputs.number(text)
            self._signatures[key] = number
        return number

    def _half(self, event: dict[str, Any], kind: str) -> None:
        moment = self._time(event.get("ts"))
        if moment is None:
            self._leave_out("slice", "without a time")
            return
        name, category = event.get("name"), event.get("cat")
        place = self._place(
            name if isinstance(name, str) else "(unnamed)",
            category if isinstance(category, str) else "",
        )
        slices = self._append(event, moment, BEGIN if kind == "B" else END, place, -1)
        if slices is not None:
            slices.has_pairs = True

    def _asynchronous_half(self, event: dict[str, Any], begins: bool) -> None:
        moment = self._time(event.get("ts"))
        if moment is None:
            self._leave_out("slice", "without a time")
            return
        name, category = event.get("name"), str(event.get("cat", ""))[:1000]
        place = self._place(name if isinstance(name, str) else "(unnamed)", category)
        self._asynchronous.add(event, begins, moment, place)

    def _take_asynchronous_slices(self) -> None:
        """Turn asynchronous slices into slices of threads. They have none, so each category of a
        process gets one, on which each id is a track of its own."""
        halves = self._asynchronous
        for slice in halves.slices():
            on = {"pid": slice.process, "tid": f"asynchronous {slice.category}".strip()}
            slices = self._append(on, slice.start, slice.duration, slice.timer, -1)
            if slices is not None:
                slices.track.append(slice.track)
        for count, what in (
            (halves.unended, ("asynchronous slice", "without an end")),
            (halves.unbegun, ("end", "without a begin")),
            (halves.endless, ("slice", "of over 100 days")),
        ):
            if count:
                self._left_out[what] = self._left_out.get(what, 0) + count

    def _arrow(self, event: dict[str, Any], kind: str) -> None:
        if kind == "f" and not self.gpu.lacks_calls:
            return
        moment, number = self._time(event.get("ts")), values.integer(event.get("id"))
        if moment is None or number is None:
            return
        if kind == "f":
            self.gpu.head(event, moment, number)
        else:
            self._append(event, moment, MARK, 0, number)

    def _counter(self, event: dict[str, Any]) -> None:
        args, name = event.get("args"), str(event.get("name", ""))[: limits.TRACE_NAME]
        if not isinstance(args, dict):
            self._leave_out("counter", "without a value")
            return
        for series, value in args.items():
            number = values.real(value)
            if number is None:
                self._leave_out("counter", "without a value")
                continue
            title = name if series in (name, "value", "") or not name else f"{name}: {series}"
            self._count((event.get("pid"), None), title, "", number)

    def _instant(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        if event.get("name") != "[memory]" or not isinstance(args, dict):
            self._leave_out("instant")
            return
        device = "CPU" if args.get("Device Type") == 0 else f"device {args.get('Device Id')}"
        key = (event.get("pid"), event.get("tid"))
        for series in ("Bytes", "Total Allocated", "Total Reserved"):
            number = values.real(args.get(series))
            if number is None:
                continue
            if series == "Bytes":
                series = "Bytes allocated" if number >= 0 else "Bytes freed"
            self._count(key, f"{series} ({device})", "bytes", abs(number))

    def _count(self, key: tuple[Any, Any], title: str, unit: str, number: float) -> None:
        if not _hashable(*key):
            self._leave_out("counter", "without a place")
            return
        counters = self._counters.setdefault(key, {})
        samples = counters.get((title, unit))
        if samples is None:
            samples = counters[title, unit] = Statistics()
        samples.add(number)

    def _name_of(self, event: dict[str, Any]) -> None:
        args, what = event.get("args"), event.get("name")
        pid, tid = event.get("pid"), event.get("tid")
        if not isinstance(args, dict) or not _hashable(pid, tid):
            return
        if what == "process_name":
            self.process_facts.setdefault(pid, {})["Process Name"] = str(args.get("name"))[:1000]
        elif what == "process_labels":
            self.process_facts.setdefault(pid, {})["Process Labels"] = str(args.get("labels"))[
                :1000
            ]
        elif what == "thread_name":
            self._thread_names[pid, tid] = str(args.get("name"))[:1000]

    def _append(
        self,
        event: dict[str, Any],
        start: int,
        duration: int,
        timer: int,
        link: int,
        about: int = 0,
    ) -> Slices | None:
        key = (event.get("pid"), event.get("tid"))
        try:
            slices = self._threads.get(key)
        except TypeError:
            self._leave_out("slice", "without a place")
            return None
        if slices is None:
            slices = self._threads[key] = Slices(len(self._threads))
        frame = values.integer(event["sf"]) if "sf" in event else None
        slices.append(start, duration, timer, link, -1 if frame is None else frame, about)
        return slices

    def _time(self, value: Any) -> int | None:
        if type(value) is Number:
            whole, _, part = value.partition(".")
            if len(part) == 3 and part.isdigit() and len(whole) < 16:
                if part != "000":
                    self._whole_microseconds = False
                return int(whole + part)  # most times; the rest is slower
        if type(value) is int and -(1 << 50) < value < 1 << 50:
            return value * 1000
        stamp = values.nanoseconds(value)
        if stamp is not None and stamp % 1000:
            self._whole_microseconds = False
        return stamp

    def _place(self, name: str, category: str) -> int:
        places = self._places.get(category)
        if places is None:
            places = self._places[category] = {}
        place = places.get(name)
        if place is None:
            place = places[name] = self._timer_place(values.host_timer(name, category))
        return place

    def _leave_out(self, noun: str, about: str = "") -> None:
        what = noun, about
        if what in self._left_out or len(self._left_out) < 50:
            self._left_out[what] = self._left_out.get(what, 0) + 1

    # All events have been read: build the profile.

    def profile(
        self, path: Path, events: Events, progress: Progress, capture: Capture | None = None
    ) -> Profile:
        header = describe(events.header, path)
        frames = StackFrames(events.header.get("stackFrames"), self._timer_place)
        slack_ns = 1000 if self._whole_microseconds else 2
        for ran in self._comms.other_ranges():
            on = {"pid": ran.pid, "tid": ran.tid}
            self._append(on, ran.start, ran.duration, ran.timer, -1)
        self._take_asynchronous_slices()
        self._take_device_threads()
        self._leave_out_nobodys_slices()
        self.gpu.linked = self._comms.linked
        context = Context(
            self.process_facts,
            slack_ns,
            header.rank or 0,
            header.base_ns or 0,
            self._launching_timers(),
            self._timers_of(GROUP),
            self._timers_of("CUDA_API"),
            self._backward_timers() if self._has_backward else {},
        )
        host = Host(self._threads, self.gpu, frames, context, progress, self._inputs)
        threads = host.threads(self._thread_names)
        for code, event in self.gpu.waits(host).events():
            host.add_event(threads, code, event)
        self._comms.add_steps(threads, host, header.base_ns or 0)
        threads += self._comms.threads(self.timers, host, header, threads)
        threads += self.gpu.threads(self.timers, host, header, capture)
        host.add_inputs(threads)
        if self._counted:
            threads += self._counted_kernels(host, header)
        self._attach_counters(threads, host)
        notes = self._notes(events, host)
        metadata = dict(header.metadata)
        if notes:
            metadata[IMPORT_NOTES] = "\n".join(notes)
        spans = [span for span in (host.span, self.gpu.span, self._comms.span) if span is not None]
        begin = min((begin_ns for begin_ns, _ in spans), default=0)
        end = max((end_ns for _, end_ns in spans), default=0)
        base = header.base_ns
        profile = Profile(
            uuid="",
            application=header.application,
            experiment="default",
            started_at=(path.stat().st_mtime if base is None else (base + begin) // 1000 / 1e6),
            duration_ns=end - begin,
            timers=self.timers,
            metrics=[TIME, *self._counted.metrics],
            threads=sorted(threads, key=lambda thread: thread.thread),
            state="incomplete" if events.cut_off else "complete",
            source="chrome",
            metadata=metadata,
            node_metadata=host.node_metadata(),
            devices=header.devices(self.gpu.used, self._device_names()),
        )
        gpu_idle.note(profile, host.slices, calls=self.gpu.calls)
        return profile

    def _timers_of(self, group: str) -> frozenset[int]:
        return frozenset(at for at, timer in enumerate(self.timers) if group in timer.groups)

    def _backward_timers(self) -> dict[int, int]:
        """Timers of modules' calls -> of their backward passes, which are added."""
        calls = [at for at, timer in enumerate(self.timers) if layers.GROUP in timer.groups]
        return {at: self._timer_place(backward_timer(self.timers[at])) for at in calls}

    def _device_names(self) -> dict[int, str]:
        """Names of devices, from the labels of the processes that represent them, by ordinal."""
        names = (facts.get("Process Labels", "") for facts in self.process_facts.values())
        devices = (values.device_label(name) for name in names)
        return {device[1]: device[0] for device in devices if device is not None}

    def _take_device_threads(self) -> None:
        """Turn the slices of processes that represent devices into work or waits of devices."""
        for key, slices in list(self._threads.items()):
            facts = self.process_facts.get(key[0], {})
            label = values.device_label(facts.get("Process Labels", ""))
            if label is None or slices.has_pairs:
                continue
            groups = {group for at in set(slices.timer) for group in self.timers[at].groups}
            if groups & values.HOST_GROUPS:
                continue
            del self._threads[key]
            for at in range(len(slices.start)):
                timer = self.timers[slices.timer[at]]
                if slices.duration[at] < 0:
                    continue
                link = slices.link[at]
                args = {
                    "device": label[1],
                    "stream": key[1],
                    **({"correlation": link >> 1} if link >= 0 and link & 1 else {}),
                    **({"External id": link >> 1} if link >= 0 and not link & 1 else {}),
                }
                work = values.device_work(values.ACCELERATOR, timer.name)
                if work == "sync" or "CUDA_API" in timer.groups:
                    self.gpu.add_wait(timer.name, slices.duration[at], args)
                else:
                    start, took = slices.start[at], slices.duration[at]
                    self.gpu.add({}, timer.name, work or "kernel", start, took, args)

    def _leave_out_nobodys_slices(self) -> None:
        """Leave out the Python routines at process 0, thread 0, beside those of a real process.

        torch.profiler puts there what threads did whose number it does not know, all on one row:
        helpers that sleep, most of the time. PyTorch's own tables leave it out since 2.14.
        """
        slices = self._threads.get(NOBODY)
        if slices is None or all(key == NOBODY for key in self._threads):
            return
        groups = {group for at in set(slices.timer) for group in self.timers[at].groups}
        if groups <= values.PYTHON_GROUPS and not slices.has_links():
            del self._threads[NOBODY]
            what = "Python routine", "of threads that torch.profiler does not know"
            self._left_out[what] = len(slices.start)

    def _launching_timers(self) -> frozenset[int]:
        """Timers of calls that launch a single kernel; empty without counted kernels, which are
        placed under them."""
        if not self._counted:
            return frozenset()
        return frozenset(
            place for place, timer in enumerate(self.timers) if LAUNCH.match(timer.name)
        )

    def _counted_kernels(self, host: Host, header: Header) -> list[ThreadProfile]:
        node = host.home()
        streams = Counter(device for used, device in self.gpu.streams if used == node)
        capabilities = {
            device.ordinal: device.compute_capability
            for device in header.devices({(node, device) for device in self._counted.devices}, {})
        }
        self.gpu.used |= {(node, device) for device in self._counted.devices}
        launches = [host.owner(code) for _, code in sorted(host.launches)]
        return self._counted.threads(self.timers, node, capabilities, launches, streams)

    def _attach_counters(self, threads: list[ThreadProfile], host: Host) -> None:
        by_place = {thread.thread: thread for thread in threads}
        for key, counters in self._counters.items():
            place = host.place_of(key)
            measured = by_place.get(place) if place is not None else None
            if measured is None:
                measured = host.bare_thread(key)
                by_place[measured.thread] = measured
                threads.append(measured)
            measured.user_events += [
                samples.event(title, unit) for (title, unit), samples in sorted(counters.items())
            ]

    def _notes(self, events: Events, host: Host) -> list[str]:
        notes = []
        if events.cut_off:
            notes.append(f"the file is truncated ({events.cut_off}): the trial is incomplete")
        if events.broken:
            notes.append(
                f"{several(events.broken, 'event')} cannot be read (first {events.first_broken})"
            )
        if events.mended:
            notes.append(f"repaired: {several(events.mended, 'event')} of invalid JSON")
        if events.not_utf8:
            notes.append("some bytes were not UTF-8 and were replaced")
        notes += [
            f"omitted: {several(count, noun)} {about}".rstrip()
            for (noun, about), count in sorted(self._left_out.items())
        ]
        return notes + host.notes + self.gpu.notes + self._counted.notes + self._comms.notes


def _hashable(*parts: Any) -> bool:
    try:
        hash(parts)
    except TypeError:
        return False
    return True
