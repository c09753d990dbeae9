"""Host threads of a Chrome trace: sort and nest their slices, which become call paths."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from taupy.analysis.gpu_idle import HostSlices, of_operator
from taupy.formats import limits
from taupy.formats.chrome.frames import StackFrames
from taupy.formats.chrome.gpu import GpuSlices
from taupy.formats.chrome.modules import Modules
from taupy.formats.chrome.python_ids import PythonIds
from taupy.formats.gpu_records import NOWHERE
from taupy.formats.launchers import Launchers
from taupy.formats.operator_inputs import OperatorInputs
from taupy.formats.slices import Timeline, overlaps
from taupy.model.profile import Thread, ThreadProfile, UserEvent
from taupy.model.progress import Progress
from taupy.model.streams import Owner
from taupy.units import several

if TYPE_CHECKING:
    from taupy.analysis.gpu_idle import Column

BEGIN: Final = -1
END: Final = -2
MARK: Final = -3
"""Special values of a duration: a begin, an end, or the start of an arrow to the GPU."""

_CODE_BITS: Final = 40
_FRAMES: Final = -2
"""This and smaller codes are rows of the tree of stack frames."""

_BLOCK: Final = 1 << 14

_UNNUMBERED: Final = -1
_NO_FRAMES: Final = array("q", [-1])
_SIGNATURE_BITS: Final = 24
_SIGNATURES: Final = (1 << _SIGNATURE_BITS) - 1

ThreadKey = tuple[Hashable, Hashable]


class Slices:
    """The slices of one thread, in file order."""

    __slots__ = (
        "about", "duration", "frame", "has_pairs", "link", "number", "python", "start", "timer",
        "track",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.start = array("q")
        self.duration = array("q")
        self.timer = array("i")
        self.link = array("q")  # 2 * correlation + 1, 2 * External id, -1 for neither
        self.frame = array("q")  # of the slices up to the last one that has a frame
        self.about = array("q")  # the same for facts of operators, see `packed`; 0: none
        self.track = array("q")  # of asynchronous slices: only those of one track nest
        self.python = PythonIds()
        self.has_pairs = False

    def append(
        self, start: int, duration: int, timer: int, link: int, frame: int, about: int = 0
    ) -> None:
        self.start.append(start)
        self.duration.append(duration)
        self.timer.append(timer)
        self.link.append(link)
        if frame >= 0:
            self.frame.extend([-1] * (len(self.start) - 1 - len(self.frame)))
            self.frame.append(frame)
        if about:
            if lacking := len(self.start) - 1 - len(self.about):
                self.about.extend([0] * lacking)
            self.about.append(about)

    def has_links(self) -> bool:
        """Whether anything may refer to one of the slices."""
        import numpy

        return bool((numpy.frombuffer(self.link, dtype=numpy.int64) >= 0).any())

    def frame_of(self, at: int) -> int:
        return self.frame[at] if at < len(self.frame) else -1

    def about_of(self, at: int) -> int:
        return self.about[at] if at < len(self.about) else 0


def packed(signature: int, sequence: int) -> int:
    """Facts of an operator as one integer: the number of its signature; twice its sequence
    number, and 1 more in a backward pass. -1 for what is not known."""
    return (sequence + 1) << _SIGNATURE_BITS | (signature + 1)


class Context(NamedTuple):
    """Facts from the rest of the trace that host threads need.

    Attributes:
        slack_ns: how long a slice may outlast its parent, since times are rounded.
        base_ns: time 0 of the trace's timestamps.
        launching_timers: positions of timers that launch kernels.
        operators: positions of the timers of operators.
        api_timers: those of calls of the GPU's API.
        backward_of: those of modules -> those of their backward passes, if there are any.
    """

    process_facts: dict[Hashable, dict[str, str]]
    slack_ns: int
    first_node: int
    base_ns: int = 0
    launching_timers: frozenset[int] = frozenset()
    operators: frozenset[int] = frozenset()
    api_timers: frozenset[int] = frozenset()
    backward_of: Mapping[int, int] = MappingProxyType({})


class Host:
    """Host threads made of slices."""

    def __init__(
        self,
        threads: dict[ThreadKey, Slices],
        gpu: GpuSlices,
        frames: StackFrames,
        context: Context,
        progress: Progress,
        inputs: OperatorInputs,
    ) -> None:
        self._inputs = inputs
        self._below: dict[tuple[int, int, int], int] = {}
        self._operator_timers = context.operators
        self._modules = Modules(context.backward_of)
        self._first_node = context.first_node
        self._frames = frames
        self.notes: list[str] = []
        self.span: tuple[int, int] | None = None
        self._launching_timers = context.launching_timers
        self.launches: list[tuple[int, int]] = []  # start and code of each launch of a kernel
        self.codes = Launchers()
        self.starts = Launchers()  # when the calls began; if several processes may launch
        self.operators: dict[int, int] = {}
        self.arrows: dict[int, int] = {}
        self.calls_of_arrows: dict[int, int] = {}  # the number of the slice that each leaves
        self._api_timers = context.api_timers
        self._process_facts = context.process_facts
        self._slack_ns = context.slack_ns
        self._unended = self._unbegun = self._cut = 0
        self._launching: set[Hashable] = set()
        self._places: dict[tuple[Hashable, Hashable], Thread] = {}
        self._numbers: dict[int, int] = {}
        self.nodes: dict[Hashable, int] = {}
        self._process_of: dict[Hashable, Hashable] = {}
        self._devices_of: dict[int, Counter[int]] = {}  # device -> launches by node
        self._timelines: list[Timeline] = []
        self._has_work = len(gpu) > 0
        self._base_ns = context.base_ns
        self._kept: list[HostSlices | None] = []
        self.slices: dict[Thread, HostSlices] = {}  # of a trace with GPU work
        self._keys: list[ThreadKey] = []
        wanted = gpu.wanted_operators()
        marks = gpu.needs_arrows
        progress.begin("call paths", sum(len(thread.start) for thread in threads.values()))
        began = {key: min(events.start) for key, events in threads.items() if len(events.start)}
        self._process_of = _without_process(began)
        linked = [self._process_of.get(key[0], key[0]) for key in began if threads[key].has_links()]
        self._processes = {pid: number for number, pid in enumerate(dict.fromkeys(linked))}
        for key in sorted(began, key=lambda key: (not self._is_main(key), began[key])):
            slices = threads.pop(key)
            self._read(key, slices, wanted, marks, progress)
        if self._unended:
            self.notes.append(
                f"{several(self._unended, 'slice')} without an end, which is that of the thread"
            )
        if self._unbegun:
            self.notes.append(f"omitted: {several(self._unbegun, 'end')} without a beginning")
        if self._cut:
            calls = several(self._cut, "Python call")
            self.notes.append(
                f"the return of {calls} was not recorded: cut off where their caller ends, or "
                "calls next"
            )

    @property
    def is_shared(self) -> bool:
        """Whether several processes may have calls with the same ids."""
        return len(self._processes) > 1

    def owner(self, code: int) -> Owner:
        if code <= _FRAMES:
            return self._frames.owner(_FRAMES - code)
        return self._timelines[code >> _CODE_BITS].owner(code & ((1 << _CODE_BITS) - 1))

    def code_of_frame(self, frame: int) -> int:
        row = self._frames.owner_row(frame)
        return NOWHERE if row is None else _FRAMES - row

    def node(self, pid: Hashable) -> int:
        pid = self._process_of.get(pid, pid)
        return self.nodes.setdefault(pid, self._first_node + len(self.nodes))

    def _is_main(self, key: ThreadKey) -> bool:
        pid, tid = key
        return pid == tid and isinstance(pid, int) and pid not in self._process_of

    def home(self, device: int | None = None) -> int:
        """The node of work without a known launch: of the process that launches most on that
        device, or else the first one that launches anything, or else the first."""
        if device is not None and device in self._devices_of:
            return self._devices_of[device].most_common(1)[0][0]
        launching = [key[0] for key in self._keys if key[0] in self._launching]
        first = [*launching, *(key[0] for key in self._keys), None]
        return self.node(first[0])

    def note_launches(self, device: int, code: int, count: int) -> None:
        """Note how much work of a device was launched by calls with this code."""
        self._devices_of.setdefault(device, Counter())[self.node_of_code(code)] += count

    def node_of_code(self, code: int) -> int:
        return self.home() if code <= _FRAMES else self.node(self._keys[code >> _CODE_BITS][0])

    def _read(
        self, key: ThreadKey, slices: Slices, wanted: set[int], marks: bool, progress: Progress
    ) -> None:
        timeline = Timeline(0, self._slack_ns)
        base = len(self._timelines) << _CODE_BITS
        launching = anything = False
        place, codes = timeline.place, self.codes
        process = self._processes.get(self._process_of.get(key[0], key[0]), 0)
        starts = self.starts if self.is_shared else None
        kept = HostSlices() if self._has_work and not slices.track else None
        stacks = self._frames.of
        inputs, operator_timers = self._inputs or None, self._operator_timers
        self._inputs.begin_thread()
        modules = self._modules or None
        self._modules.begin_thread(self._process_of.get(key[0], key[0]))
        launching_timers = self._launching_timers
        keep_row = None if kept is None else kept.row.append
        active: list[tuple[int, int]] = []  # end and position in `kept`, where arrows are needed
        ordered = self._ordered(slices, kept, progress, timeline.restart)
        for start, duration, timer, link, frame, about in ordered:
            if duration == MARK:
                if marks:
                    self._put(self.arrows, link, base | timeline.here(start), key[0])
                    if kept is not None:
                        number = self._leave(link, start, kept, active, timeline)
                        if inputs is not None:
                            inputs.call(start, process, number)
                continue
            end = start + duration
            if marks and kept is not None:
                active.append((end, len(kept.row)))
            if frame < 0 and modules is None:
                code = place(start, end, timer)
            else:
                above = () if frame < 0 else stacks(frame)
                if modules is not None:
                    sequence = (about >> _SIGNATURE_BITS) - 1
                    above = modules.above(start, end, timer, sequence) or above
                code = place(start, end, timer, above)
            if keep_row is not None:
                keep_row(code)
            if inputs is not None and timer in operator_timers:
                inputs.operator(start, end, base | code, (about & _SIGNATURES) - 1)
            if link >= 0:
                if link & 1:
                    launching = True
                    if inputs is not None:
                        inputs.call(start, process, link >> 1)
                    if timer in launching_timers:
                        self.launches.append((start, base | code))
                    codes.note(process, link >> 1, base | code)
                    if starts is not None:
                        starts.note(process, link >> 1, start)
                elif wanted and link >> 1 in wanted:
                    self._put(self.operators, link >> 1, base | code, key[0])
                    if inputs is not None:
                        inputs.call(start, process, of_operator(link >> 1))
            anything = True
        if launching:
            self._launching.add(key[0])
        if not anything:
            return
        self._timelines.append(timeline)
        self._keys.append(key)
        self._kept.append(kept)
        timeline.finish()
        self.notes += overlaps(timeline)

    def _leave(
        self, arrow: int, moment: int, kept: HostSlices, active: list[tuple[int, int]],
        timeline: Timeline,
    ) -> int:  # fmt: skip
        """Number the slice that an arrow leaves, so that its work finds when it was launched."""
        while active and active[-1][0] <= moment:
            active.pop()
        if not active:
            return _UNNUMBERED
        at = active[-1][1]
        number = kept.correlation[at]
        if number == _UNNUMBERED:
            is_call = timeline.timer(kept.row[at]) in self._api_timers
            number = kept.correlation[at] = arrow if is_call else of_operator(arrow)
        self.calls_of_arrows[arrow] = number
        return number

    def _put(self, table: dict[int, int], id: int, code: int, pid: Hashable) -> None:
        """Note what has this id; nowhere if something of another process has it."""
        before = table.get(id)
        if before is not None and self.is_shared:
            at = before >> _CODE_BITS
            if before == NOWHERE or (at < len(self._keys) and self._keys[at][0] != pid):
                code = NOWHERE
        table[id] = code

    def _ordered(
        self,
        slices: Slices,
        kept: HostSlices | None,
        progress: Progress,
        begin_track: Callable[[], None],
    ) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Slices by start, longest first; each begin is joined with its end. Of asynchronous ones,
        track by track.

        What does not depend on call paths is noted for many slices at once: the span, and in
        `kept` the times and correlations.
        """
        import numpy

        if slices.has_pairs:
            self._join_pairs(slices)
        start = numpy.frombuffer(slices.start, dtype=numpy.int64)
        duration = numpy.frombuffer(slices.duration, dtype=numpy.int64)
        if len(slices.python) and not slices.has_pairs:
            self._cut += slices.python.cut(start, duration, self._slack_ns)
        timer = numpy.frombuffer(slices.timer, dtype=numpy.int32)
        link = numpy.frombuffer(slices.link, dtype=numpy.int64)
        order = numpy.lexsort((-duration, start))
        blocks = [order[at : at + _BLOCK] for at in range(0, len(order), _BLOCK)]
        if slices.track:
            track = numpy.frombuffer(slices.track, dtype=numpy.int64)[order]
            order = order[numpy.argsort(track, kind="stable")]
            track.sort()
            blocks = numpy.split(order, numpy.flatnonzero(numpy.diff(track)) + 1)
        if slices.frame:
            slices.frame.extend([-1] * (len(start) - len(slices.frame)))
        frame = numpy.frombuffer(slices.frame or _NO_FRAMES, dtype=numpy.int64)
        if slices.about:
            slices.about.extend([0] * (len(start) - len(slices.about)))
        about = numpy.frombuffer(slices.about or _NO_FRAMES, dtype=numpy.int64)
        no_frames, nothing = repeat(-1), repeat(0)
        for block in blocks:
            if slices.track:
                begin_track()
            starts, durations, links = start[block], duration[block], link[block]
            self._note_times(starts, durations, links, kept)
            yield from zip(
                starts.tolist(),
                durations.tolist(),
                timer[block].tolist(),
                links.tolist(),
                frame[block].tolist() if slices.frame else no_frames,
                about[block].tolist() if slices.about else nothing,
                strict=False,
            )
            progress.advance(len(block))

    def _note_times(
        self, starts: Column, durations: Column, links: Column, kept: HostSlices | None
    ) -> None:
        """Extend the span by slices in order of their start, and keep their times."""
        is_slice = durations != MARK
        begins, links = starts[is_slice], links[is_slice]
        ends = begins + durations[is_slice]
        if kept is not None:
            kept.begin.frombytes((begins + self._base_ns).tobytes())
            kept.end.frombytes((ends + self._base_ns).tobytes())
            numbers = links >> 1
            is_operator = (links >= 0) & (links & 1 == 0)
            numbers[is_operator] = of_operator(numbers[is_operator])
            kept.correlation.frombytes(numbers.tobytes())
        is_timed = (begins != 0) | (ends != 0)
        if is_timed.any():
            first, last = int(begins[is_timed][0]), max(int(ends[is_timed].max()), 0)
            span = self.span or (first, last)
            self.span = (min(span[0], first), max(span[1], last))

    def _join_pairs(self, slices: Slices) -> None:
        """Match begins and ends like brackets; events are in time order, then in file order."""
        import numpy

        start = numpy.frombuffer(slices.start, dtype=numpy.int64)
        halves = numpy.frombuffer(slices.duration, dtype=numpy.int64)
        which = numpy.flatnonzero((halves == BEGIN) | (halves == END))
        order = which[numpy.argsort(start[which], kind="stable")].tolist()
        last = int(numpy.max(start + numpy.maximum(halves, 0)))
        del start, halves  # an array cannot grow while NumPy uses its buffer
        joined = Slices(slices.number)
        open_ones: list[int] = []
        for at in order:
            if slices.duration[at] == BEGIN:
                open_ones.append(at)
            elif open_ones:
                self._join(slices, joined, open_ones.pop(), slices.start[at])
            else:
                self._unbegun += 1
        self._unended += len(open_ones)
        for at in reversed(open_ones):
            self._join(slices, joined, at, last)
        for at in range(len(slices.start)):
            if slices.duration[at] not in (BEGIN, END):
                joined.append(
                    slices.start[at],
                    slices.duration[at],
                    slices.timer[at],
                    slices.link[at],
                    slices.frame_of(at),
                    slices.about_of(at),
                )
        slices.start, slices.duration = joined.start, joined.duration
        slices.timer, slices.link, slices.frame = joined.timer, joined.link, joined.frame
        slices.about = joined.about

    @staticmethod
    def _join(slices: Slices, joined: Slices, at: int, end: int) -> None:
        start = slices.start[at]
        duration = min(end - start, limits.SLICE_NS)
        joined.append(start, duration, slices.timer[at], -1, slices.frame_of(at))

    def threads(self, names: dict[ThreadKey, str]) -> list[ThreadProfile]:
        profiles: list[ThreadProfile] = []
        columns = zip(self._keys, self._timelines, self._kept, strict=True)
        for key, timeline, kept in columns:
            thread = self._places[key] = self._new_thread(key, names)
            self._places.setdefault((key[0], None), thread)
            profiles.append(ThreadProfile(thread, timeline.tree))
            if kept is not None:
                self.slices[thread] = kept
        return profiles

    def add_event(self, threads: list[ThreadProfile], code: int, event: UserEvent) -> None:
        """Add a user event to the call with this code; `threads` is the result of `threads()`."""
        row = code & ((1 << _CODE_BITS) - 1)
        threads[code >> _CODE_BITS].user_events.append(replace(event, row=row))

    def add_inputs(self, threads: list[ThreadProfile]) -> None:
        """Add the inputs of operators to their threads; `threads` is the result of `threads()`."""
        for number, own in self._inputs.rows(_CODE_BITS):
            threads[number].inputs.append(own)

    def timer_of(self, code: int) -> int:
        """The position of the timer of a call."""
        tree, row = self.owner(code)
        return tree.timer[row]

    def below(self, code: int, timers: Sequence[int]) -> int:
        """The code of a call path below a call that the host did not enter itself."""
        tree, row = self.owner(code)
        for timer in timers:
            key = (id(tree), row, timer)
            below = self._below.get(key)
            if below is None:
                below = self._below[key] = len(tree)
                for column, value in ((tree.timer, timer), (tree.parent, row)):
                    column.append(value)
                for column in (tree.calls, tree.subroutines, *tree.inclusive.values(),
                               *tree.exclusive.values()):  # fmt: skip
                    column.append(0)
            row = below
        return code >> _CODE_BITS << _CODE_BITS | row

    @property
    def has_inputs(self) -> bool:
        """Whether sizes of operators' inputs were recorded."""
        return bool(self._inputs)

    def ran(self, code: int, correlation: int, duration: int) -> None:
        """Note how long work ran that the call with this code and id launched."""
        process = 0
        if self.is_shared:
            pid = self._keys[code >> _CODE_BITS][0]
            process = self._processes.get(self._process_of.get(pid, pid), 0)
        self._inputs.ran(process, correlation, duration)

    def _new_thread(self, key: ThreadKey, names: dict[ThreadKey, str]) -> Thread:
        node = self.node(key[0])
        number = self._numbers.get(node, 0)
        self._numbers[node] = number + 1
        native = key[1] if isinstance(key[1], int) and 0 <= key[1] < 1 << 62 else 0
        name = names.get(key) or ("" if native else str(key[1] or "")[:1000])
        return Thread(node, 0, number, "host", name, native)

    def place_of(self, key: tuple[Hashable, Hashable]) -> Thread | None:
        return self._places.get(key) or self._places.get((key[0], None))

    def bare_thread(self, key: ThreadKey) -> ThreadProfile:
        """A thread without slices, for a process that only has counters."""
        timeline = Timeline(0)
        timeline.finish()
        thread = self._places[key[0], None] = self._new_thread(key, {})
        return ThreadProfile(thread, timeline.tree)

    def node_metadata(self) -> dict[int, dict[str, str]]:
        facts_of = {}
        for pid, node in self.nodes.items():
            facts = {"PID": str(pid)[:1000]} if pid is not None else {}
            facts_of[node] = facts | self._process_facts.get(pid, {})
        return facts_of


def _without_process(keys: Iterable[ThreadKey]) -> dict[Hashable, Hashable]:
    """The process of slices at process 0, which is none: torch.profiler puts there what threads did
    whose number it does not know. With several processes it is not known either."""
    processes = {pid for pid, _ in keys}
    others = [pid for pid in processes if pid != 0]
    return {0: others[0]} if 0 in processes and len(others) == 1 else {}
