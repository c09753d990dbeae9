"""Profiles for tests: small ones written by hand, large and unusual ones generated.

    main = call("main", exclusive=10, children=[call("f", calls=2, exclusive=5)])
    profile = profile_of(host(main))

gives each call path's own values; inclusive values and subroutines are derived.
"""

from __future__ import annotations

import math
import tempfile
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from taupy.model.collectives import Collectives, Stretches
from taupy.model.gpu import Activity, Configuration, Device, Fact, Launch
from taupy.model.kinds import StepKind
from taupy.model.profile import (
    ABSENT,
    TIME,
    UNKNOWN,
    CallTree,
    LineTime,
    Metric,
    Profile,
    Samples,
    Steps,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)
from taupy.profiledb.database import ProfileDB

UUID = "01900000-0000-7000-8000-00000000000{}"
STARTED_AT = 1_700_000_000.25


@dataclass(frozen=True)
class Call:
    """One call path: its timer, its own values, and its callees."""

    timer: Timer
    calls: int
    exclusive: dict[str, float]
    children: tuple[Call, ...] = ()
    events: tuple[UserEvent, ...] = ()


def call(
    timer: str | Timer,
    calls: int = 1,
    exclusive: float | dict[str, float] = 0,
    children: Sequence[Call] = (),
    events: Sequence[UserEvent] = (),
) -> Call:
    """A call path; a number for `exclusive` is its time in nanoseconds."""
    named = Timer(timer) if isinstance(timer, str) else timer
    values = exclusive if isinstance(exclusive, dict) else {"time": exclusive}
    return Call(named, calls, values, tuple(children), tuple(events))


@dataclass(frozen=True)
class MadeThread:
    """A thread and its call paths, not yet bound to a profile's timers."""

    thread: Thread
    root: Call
    events: tuple[UserEvent, ...] = ()


def host(root: Call, node: int = 0, thread: int = 0, events: Sequence[UserEvent] = (), **more: Any):
    """A host thread."""
    return MadeThread(Thread(node, 0, thread, **more), root, tuple(events))


def event(name: str, values: Sequence[float], unit: str = "bytes") -> UserEvent:
    """The user event with these samples."""
    return UserEvent(
        name=name,
        unit=unit,
        count=len(values),
        minimum=min(values),
        maximum=max(values),
        mean=sum(values) / len(values),
        sum_squares=float(sum(value * value for value in values)),
    )


def profile_of(*threads: MadeThread, number: int = 1, **more: Any) -> Profile:
    """A profile of these threads; its uuid is derived from `number`."""
    timers: dict[Timer, int] = {}
    measured = [_thread_profile(thread, timers) for thread in threads]
    metrics = {name for thread_profile in measured for name in thread_profile.tree.inclusive}
    standard = {"time": TIME}
    given: dict[str, Any] = {
        "uuid": UUID.format(number),
        "application": "app",
        "experiment": "default",
        "started_at": STARTED_AT,
        "duration_ns": 2_000_000_000,
        "exit_code": 0,
        "metrics": [standard.get(name, Metric(name, "count")) for name in sorted(metrics)],
    }
    return Profile(**{**given, "timers": list(timers), "threads": measured, **more})


def _thread_profile(described: MadeThread, timers: dict[Timer, int]) -> ThreadProfile:
    tree = CallTree()
    metrics = sorted(_metrics(described.root))
    tree.inclusive = {name: array("q") for name in metrics}
    tree.exclusive = {name: array("q") for name in metrics}
    events = list(described.events)
    stack = [(described.root, -1)]
    while stack:
        here, parent = stack.pop()
        row = len(tree.timer)
        tree.timer.append(timers.setdefault(here.timer, len(timers)))
        tree.parent.append(parent)
        tree.calls.append(here.calls)
        tree.subroutines.append(sum(child.calls for child in here.children))
        for name in metrics:
            value = here.exclusive.get(name, 0)
            if isinstance(value, float) and tree.exclusive[name].typecode == "q":
                tree.inclusive[name] = array("d", tree.inclusive[name])
                tree.exclusive[name] = array("d", tree.exclusive[name])
            tree.inclusive[name].append(value)
            tree.exclusive[name].append(value)
        events += [replace(user_event, row=row) for user_event in here.events]
        stack += [(child, row) for child in reversed(here.children)]
    for name in metrics:
        _add_up(tree.parent, tree.inclusive[name])
    return ThreadProfile(described.thread, tree, events)


def _metrics(root: Call) -> set[str]:
    names: set[str] = set()
    stack = [root]
    while stack:
        here = stack.pop()
        names |= here.exclusive.keys()
        stack += here.children
    return names


def _add_up(parent: array[int], inclusive: array[int]) -> None:
    for row in range(len(parent) - 1, 0, -1):
        if parent[row] >= 0:
            inclusive[parent[row]] += inclusive[row]


@cache
def empty_database() -> bytes:
    """A database without trials. Creating one takes 0.1 s of CPU time in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        ProfileDB.open(path, create=True).close()
        return path.read_bytes()


def database_at(path: str | Path) -> ProfileDB:
    """As `ProfileDB.open(path, create=True)`, but copied: making its tables takes twice as long."""
    with suppress(FileExistsError), open(path, "xb") as file:
        file.write(empty_database())
    return ProfileDB.open(path, readonly=False)


def small_profile(number: int = 1, **more: Any) -> Profile:
    """Two threads with recursion, two metrics, user events and metadata.

    Thread 0.0.0 (ns):  main 10 [ f 20 x2 [ f 30 x3, g 40 x4 ], g 50 x5 ], in all 150.
    Thread 0.0.1 (ns):  main 5 [ g 7 ], in all 12. Cache misses on thread 0.0.0 only.
    """
    main = Timer("<module>", "app.py", 1, path="/home/u/app.py")
    f = Timer("f", "app.py", 3, groups=("PYTHON", "USER"), path="/home/u/app.py")
    g = Timer("g", "app.py", 9, path="/home/u/app.py")

    def at(time: int, misses: int) -> dict[str, float]:
        return {"time": time, "misses": misses}

    inner = [call(f, 3, at(30, 1)), call(g, 4, at(40, 2), events=[event("read", [1.0, 3.0])])]
    first = call(main, 1, at(10, 0), [call(f, 2, at(20, 4), inner), call(g, 5, at(50, 8))])
    second = call(main, 1, 5, [call(g, 1, 7)])
    given: dict[str, Any] = {
        "metadata": {"Command": "app.py --fast", "GPU Name": "NVIDIA H200"},
        "node_metadata": {0: {"PID": "4711"}},
    }
    return profile_of(
        host(first, name="MainThread", native_id=4711, events=[event("memory", [2.0, 4.0, 6.0])]),
        host(second, thread=1, name="worker", native_id=4712),
        number=number,
        **{**given, **more},
    )


def gpu_profile(number: int = 1, **more: Any) -> Profile:
    """A host thread that launches on two streams of one GPU; all times in ns.

    Host 0.0.0:    main 100 [ step 300 x10 [ cudaLaunchKernel 40 x20, cudaMemcpyAsync 60 x10 ] ].
    Stream 0.1.0:  gemm 5000 x10 (8 of grid 128, 2 of grid 64; flop 4e6, counted),
                   relu 800 x10 (flop not counted). Stream 0.1.1: copy 2000 x10, 40,960 bytes.
    Both are below main => step => API call; the GPU time of step on 0.1.0 is 5800.
    """
    main = Timer("<module>", "train.py", 1, path="/home/u/train.py")
    step = Timer("step", "train.py", 5, path="/home/u/train.py")
    launch_call = Timer("cudaLaunchKernel", groups=("CUDA_API",))
    copy_call = Timer("cudaMemcpyAsync", groups=("CUDA_API",))
    gemm = Timer("void gemm<float, 128>(float*, int)", groups=("GPU_KERNEL",), short="gemm")
    relu = Timer("relu(float*)", groups=("GPU_KERNEL",), short="relu")
    copy = Timer("Memcpy HtoD", groups=("GPU_COPY",))
    timers = [Timer(".taupy application", groups=("TAUPY",)), main, step, launch_call]
    timers += [copy_call, gemm, relu, copy]

    def tree(rows: list[tuple[int, int, int, int]], flop: list[float] | None = None) -> CallTree:
        parent = array("q", [above for _, above, _, _ in rows])
        exclusive = array("q", [time for _, _, _, time in rows])
        inclusive = exclusive[:]
        _add_up(parent, inclusive)
        calls = array("q", [count for _, _, count, _ in rows])
        subroutines = array("q", [0] * len(rows))
        for row in range(1, len(rows)):
            subroutines[parent[row]] += calls[row]
        timer = array("q", [which for which, _, _, _ in rows])
        result = CallTree(
            timer, parent, calls, subroutines, {"time": inclusive}, {"time": exclusive}
        )
        if flop is not None:
            counted = array("d", flop)  # type: ignore[arg-type]
            result.exclusive["flop_fp32"] = counted  # type: ignore[assignment]
            total = array("d", [0.0 if math.isnan(value) else value for value in flop])
            _add_up(parent, total)  # type: ignore[arg-type]
            result.inclusive["flop_fp32"] = array(  # type: ignore[assignment]
                "d",
                [own if math.isnan(own) else whole for own, whole in zip(flop, total, strict=True)],
            )
        return result

    host_tree = tree(
        [(0, -1, 1, 0), (1, 0, 1, 100), (2, 1, 10, 300), (3, 2, 20, 40), (4, 2, 10, 60)]
    )
    first = tree(
        [
            (0, -1, 0, 0),
            (1, 0, 0, 0),
            (2, 1, 0, 0),
            (3, 2, 0, 0),
            (5, 3, 10, 5000),
            (6, 3, 10, 800),
        ],
        [0, 0, 0, 0, 4e6, ABSENT],
    )
    second = tree([(0, -1, 0, 0), (1, 0, 0, 0), (2, 1, 0, 0), (4, 2, 0, 0), (7, 3, 10, 2000)])
    big = Configuration((128, 1, 1), (256, 1, 1), 64, 0, 49152, 0, 0.5, "registers")
    small, flat = big._replace(grid=(64, 1, 1)), big._replace(grid=(64, 2, 1))
    launches = [
        Launch(
            row=4,
            count=8,
            time_ns=4400,
            minimum_ns=500,
            maximum_ns=600,
            sum_squares_ns2=2_424_000.0,
            configuration=big,
        ),
        Launch(
            row=4,
            count=2,
            time_ns=600,
            minimum_ns=290,
            maximum_ns=310,
            sum_squares_ns2=180_200.0,
            configuration=small,
        ),
        Launch(
            row=5,
            count=10,
            time_ns=800,
            minimum_ns=70,
            maximum_ns=90,
            sum_squares_ns2=64_500.0,
            configuration=flat,
        ),
    ]
    start = int(STARTED_AT * 1e9)
    activities = [
        Activity(4 + n % 2, "kernel", start + n * 1000, start + n * 1000 + 500 - n % 2 * 420, n + 1)
        for n in range(20)
    ]
    copies = [
        Launch(
            row=4,
            count=10,
            time_ns=2000,
            minimum_ns=190,
            maximum_ns=210,
            sum_squares_ns2=400_900.0,
            bytes=40_960,
        )
    ]
    sizes = replace(event("Bytes copied from Host to Device", [4096.0] * 10), row=4)
    facts = (Fact("Multiprocessors", 132), Fact("Memory", 150_754_820_096, "B"))
    given: dict[str, Any] = {
        "application": "train",
        "metrics": [Metric("flop_fp32", "flop"), TIME],
        "devices": [Device(0, 0, "NVIDIA H200", "GPU-0123", "9.0", facts)],
        "metadata": {"GPU Name": "NVIDIA H200"},
    }
    profile = profile_of(number=number, **{**given, **more})
    profile.timers = timers
    profile.threads = [
        ThreadProfile(Thread(0, 0, 0, name="MainThread", native_id=4711), host_tree),
        ThreadProfile(Thread(0, 1, 0, "stream", "stream 7", 7), first, [], launches, activities),
        ThreadProfile(Thread(0, 1, 1, "stream", "stream 13", 13), second, [sizes], copies),
    ]
    return profile


def deep_profile(depth: int, number: int = 1) -> Profile:
    """A routine that calls itself until the tree has `depth` rows of 1 ns each."""
    rows = range(depth)
    tree = CallTree(
        timer=array("q", [min(row, 1) for row in rows]),
        parent=array("q", [row - 1 for row in rows]),
        calls=array("q", [1] * depth),
        subroutines=array("q", [1] * (depth - 1) + [0]),
        inclusive={"time": array("q", [depth - row for row in rows])},
        exclusive={"time": array("q", [1] * depth)},
    )
    timers = [Timer("<module>", "deep.py", 1), Timer("down", "deep.py", 2)]
    return _bare(tree, timers, number, application="deep")


def wide_profile(
    paths: int, timers: int = 2000, number: int = 1, thread: int = 0, seed: int = 7
) -> Profile:
    """One thread with that many distinct call paths; each has up to two below it.

    About log2(paths) deep; rows are in order of appearance, not of depth.
    """
    random = Random(seed)
    parent = array("q", [(row - 1) // 2 if row else -1 for row in range(paths)])
    stride = timers // 2
    timer = array("q", [2 * (parent[row] * 31 % stride) + row % 2 for row in range(paths)])
    calls = array("q", [random.randrange(1, 100) for _ in range(paths)])
    exclusive = array("q", [random.randrange(100, 100_000) for _ in range(paths)])
    inclusive = exclusive[:]
    _add_up(parent, inclusive)
    subroutines = array("q", [0] * paths)
    for row in range(1, paths):
        subroutines[parent[row]] += calls[row]
    tree = CallTree(timer, parent, calls, subroutines, {"time": inclusive}, {"time": exclusive})
    names = [Timer(f"Class.routine_{n}", f"package/module_{n // 20}.py", n) for n in range(timers)]
    return _bare(tree, names, number, application="wide", thread=thread)


def random_profile(random: Random, number: int = 1, nodes: int = 2) -> Profile:
    """A valid random profile with recursion and several threads."""
    timers = [Timer(f"t{n}", "r.py" if n % 3 else None, n if n % 3 else None) for n in range(6)]

    def grow(depth: int) -> list[Call]:
        chosen = random.sample(timers, random.randrange(0, 4)) if depth else []
        return [call(t, random.randrange(9), random.randrange(99), grow(depth - 1)) for t in chosen]

    threads = [
        host(call("root", 1, random.randrange(99), grow(4)), node=node, thread=thread)
        for node in range(nodes)
        for thread in range(random.randrange(1, 4))
    ]
    return profile_of(*threads, number=number)


def _bare(
    tree: CallTree, timers: list[Timer], number: int, application: str, thread: int = 0
) -> Profile:
    return Profile(
        uuid=UUID.format(number),
        application=application,
        experiment="default",
        started_at=STARTED_AT,
        duration_ns=tree.inclusive["time"][0],
        timers=timers,
        threads=[ThreadProfile(Thread(0, 0, thread), tree)],
        exit_code=0,
    )


@dataclass
class _Order:
    """Sort keys of timers and rows, which give equal profiles the same order."""

    profile: Profile
    keys: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = [(t.full_name, tuple(sorted(t.groups))) for t in self.profile.timers]


SAMPLED_FROM_NS = 1_700_000_000_000_000_000


def samples(name: str, unit: str, values: list[float]) -> Samples:
    """A user event with a point every microsecond; minimum and maximum differ from it by 1."""
    start = array("q", [SAMPLED_FROM_NS + 1000 * n for n in range(len(values))])
    end = array("q", [moment + 1000 for moment in start])
    low, high = (array("d", [value + away for value in values]) for away in (-1.0, 1.0))
    return Samples(name, unit, start, end, array("q", [2] * len(values)), array("d", values),
                   low, high)  # fmt: skip


def steps(times: list[int], kind: StepKind = "training") -> Steps:
    """Consecutive steps of these nanoseconds: a tenth is data, every other step has a loss, and a
    quarter of the time is CPU time; only the last step's run delay is known: 1 us."""
    column = array("q", times)
    starts = [SAMPLED_FROM_NS + sum(times[:n]) for n in range(len(times))]
    ones = array("q", [1] * len(times))
    losses = array("d", [1 / (n + 1) if n % 2 == 0 else math.nan for n in range(len(times))])
    return Steps(kind, array("q", range(1, len(times) + 1)), ones, array("q", starts), column,
                 column[:], array("q", [8, *[UNKNOWN] * (len(times) - 1)]),
                 {"data": array("q", [time // 10 for time in times])},
                 {"loss": losses},
                 {"cpu_time": array("d", [time // 4 for time in times]),
                  "run_delay": array("d", [*[math.nan] * (len(times) - 1), 1000])})  # fmt: skip


def line_times(timer: int = 0, callee: int | None = None) -> list[LineTime]:
    """Two lines of a routine, of which one waits, too, and was also seen too rarely."""
    return [
        LineTime(timer, callee, 3, 3, 4, 20, "cpu", 60, 600, 6000, 600_000.0, 11, -12),
        LineTime(timer, None, 4, 5, -1, -1, "cpu", 25, 250, 2500, 250_000.0),
        LineTime(timer, None, 3, 3, 4, 20, "wait", 15, 150, 1500, 150_000.0, 11, -12),
        LineTime(timer, None, 9, 9, 0, 1, "gil", 2, 20, 200, 20_000.0),
    ]


def collectives(
    asked_ns: Sequence[int], ended_ns: Sequence[int], *, row: int = 0, name: str = "0", **more: Any
) -> Collectives:
    """all_reduces of 8 bytes, in nanoseconds from `SAMPLED_FROM_NS` on; -1: it never ended."""
    count = len(asked_ns)
    requested = array("q", [SAMPLED_FROM_NS + moment for moment in asked_ns])
    ended = array("q", [end if end < 0 else SAMPLED_FROM_NS + end for end in ended_ns])
    more = {"ranks": "0-1", "size": 2, "begun": count, **more}
    return Collectives(name, operation=["gloo:all_reduce"] * count,
                       number=array("q", range(1, count + 1)), bytes=array("q", [8] * count),
                       asked_ns=requested, begun_ns=requested[:], ended_ns=ended,
                       row=array("q", [row] * count), **more)  # fmt: skip


def stretches(ends_ns: Sequence[int], *own: Mapping[int, int]) -> Stretches:
    """Consecutive stretches that end at these nanoseconds after `SAMPLED_FROM_NS`, each with the
    own times of rows."""
    ends = [SAMPLED_FROM_NS + end for end in ends_ns]
    entries = [(at, *entry) for at, of_one in enumerate(own) for entry in of_one.items()]
    columns = [array("q", column) for column in zip(*entries, strict=True)]
    return Stretches(array("q", [SAMPLED_FROM_NS, *ends[:-1]]), array("q", ends), *columns)


def canonical(profile: Profile) -> Profile:
    """The profile with timers, threads, rows and events in the order in which they are read."""
    keys = _Order(profile).keys
    order = sorted(range(len(keys)), key=keys.__getitem__)
    place = {old: new for new, old in enumerate(order)}
    timers = [profile.timers[old]._replace(groups=keys[old][1]) for old in order]
    threads = [
        _canonical_thread(thread, place.__getitem__)
        for thread in sorted(profile.threads, key=lambda thread: thread.thread)
    ]
    metrics = sorted(profile.metrics, key=lambda metric: metric.name)
    return replace(profile, timers=timers, threads=threads, metrics=metrics)


def _canonical_thread(measured: ThreadProfile, place: Callable[[int], int]) -> ThreadProfile:
    tree = measured.tree
    children: dict[int, list[int]] = {}
    for row, above in enumerate(tree.parent):
        children.setdefault(above, []).append(row)
    order: list[int] = []
    stack = [-1]
    while stack:
        row = stack.pop()
        if row >= 0:
            order.append(row)
        stack += sorted(children.get(row, ()), key=lambda r: place(tree.timer[r]), reverse=True)
    moved = {-1: -1} | {row: position for position, row in enumerate(order)}

    def column(values: array[int]) -> array[int]:
        return array(values.typecode, [values[row] for row in order])

    return ThreadProfile(
        measured.thread,
        CallTree(
            array("q", [place(tree.timer[row]) for row in order]),
            array("q", [moved[tree.parent[row]] for row in order]),
            column(tree.calls),
            column(tree.subroutines),
            {name: column(values) for name, values in sorted(tree.inclusive.items())},
            {name: column(values) for name, values in sorted(tree.exclusive.items())},
        ),
        sorted(
            (
                user_event
                if user_event.row is None
                else replace(user_event, row=moved[user_event.row])
                for user_event in measured.user_events
            ),
            key=lambda user_event: (
                user_event.name,
                user_event.unit,
                -1 if user_event.row is None else user_event.row,
            ),
        ),
        [replace(launch, row=moved[launch.row]) for launch in measured.launches],
        [activity._replace(row=moved[activity.row]) for activity in measured.activities],
        sorted(measured.samples, key=lambda sample: (sample.name, sample.unit)),
        lines=[
            replace(
                line,
                timer=place(line.timer),
                callee=None if line.callee is None else place(line.callee),
            )
            for line in measured.lines
        ],
    )
