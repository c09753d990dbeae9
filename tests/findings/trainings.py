"""Trainings on a GPU, written down as profiles: what each step does on host and device.

    training(
        part("step", "forward", own=us(900), calls=[api("cudaLaunchKernel", 40, us(5), gemm)]),
    )

Times are of one step; every profile has `STEPS` of them. The host's time on its main thread is
the trial's duration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from taupy.model.gpu import Device, Launch
from taupy.model.profile import ROOT_TIMER, Profile, Thread, Timer
from tests.builders import Call, MadeThread, call, event, profile_of

STEPS = 200


def us(value: float) -> int:
    return int(value * 1_000)


def ms(value: float) -> int:
    return int(value * 1_000_000)


@dataclass(frozen=True)
class Work:
    """So many kernels or copies of one kind in each step, of `ns` each."""

    name: str
    count: int
    ns: int
    group: str = "GPU_KERNEL"
    bytes: int | None = None
    memory: str = ""
    flop: float | None = None


def kernel(name: str, count: int, ns: int, flop: float | None = None) -> Work:
    return Work(name, count, ns, flop=flop)


def copy(way: str, count: int, ns: int, size: int, memory: str) -> Work:
    """A copy; `memory` as in "from pageable to device"."""
    return Work(f"Memcpy {way}", count, ns, "GPU_COPY", size, memory)


@dataclass(frozen=True)
class Api:
    """So many calls of the CUDA runtime in each step, of `ns` each, and what they start."""

    name: str
    count: int
    ns: int
    works: tuple[Work, ...] = ()


def api(name: str, count: int, ns: int, *works: Work) -> Api:
    return Api(name, count, ns, works)


@dataclass(frozen=True)
class Part:
    """What one routine does in each step, besides the routines that it calls."""

    path: tuple[Timer, ...]
    own: int
    calls: tuple[Api, ...]
    entries: int = 1


def routine(name: str, file: str | None = "train.py", line: int | None = 1, *groups: str) -> Timer:
    return Timer(name, file, line, groups=groups or ("PYTHON",))


def part(*path: str | Timer, own: int = 0, calls: Sequence[Api] = (), entries: int = 1) -> Part:
    timers = tuple(routine(one) if isinstance(one, str) else one for one in path)
    return Part(timers, own, tuple(calls), entries)


@dataclass
class _Node:
    timer: Timer
    calls: int = 0
    own: dict[str, float] = field(default_factory=lambda: {"time": 0})
    below: dict[Timer, _Node] = field(default_factory=dict)

    def at(self, path: Sequence[Timer]) -> _Node:
        here = self
        for timer in path:
            here = here.below.setdefault(timer, _Node(timer))
        return here

    def made(self) -> Call:
        return call(self.timer, self.calls, self.own, [one.made() for one in self.below.values()])


_SYNC = ("CUDA_API", "GPU_SYNC")


def _api_timer(name: str) -> Timer:
    return Timer(name, groups=_SYNC if "Synchronize" in name else ("CUDA_API",))


def _host(parts: Sequence[Part], once: Sequence[tuple[Timer, int]], number: int) -> MadeThread:
    root = _Node(Timer(ROOT_TIMER, groups=("TAUPY",)), 1)
    main = root.at([routine("<module>")])
    main.calls = 1
    for timer, ns in once:
        here = main.at([timer])
        here.calls, here.own = 1, {"time": ns}
    for one in parts:
        for depth in range(1, len(one.path)):
            above = main.at(one.path[:depth])
            above.calls = above.calls or STEPS
        here = main.at(one.path)
        here.calls = STEPS * one.entries
        here.own["time"] += STEPS * one.own
        for called in one.calls:
            below = here.at([_api_timer(called.name)])
            below.calls += STEPS * called.count
            below.own["time"] += STEPS * called.count * called.ns
    return MadeThread(Thread(number, 0, 0, name="MainThread"), root.made())


def _stream(parts: Sequence[Part], number: int, counted: bool) -> tuple[MadeThread, list[Any]]:
    root = _Node(Timer(ROOT_TIMER, groups=("TAUPY",)))
    rows: list[Any] = []
    for one in parts:
        for called in one.calls:
            for work in called.works:
                timer = Timer(work.name, groups=(work.group,))
                path = [routine("<module>"), *one.path, _api_timer(called.name), timer]
                here = root.at(path)
                here.calls += STEPS * work.count
                here.own["time"] += STEPS * work.count * work.ns
                if counted and work.flop is not None:
                    here.own["flop"] = STEPS * work.count * work.flop
                rows.append((tuple(path), work))
    return MadeThread(Thread(number, 1, 0, "stream", "stream 7", 7), root.made()), rows


def _row(profile: Profile, place: int, path: Sequence[Timer]) -> int:
    """The row of this call path on a thread."""
    tree, row = profile.threads[place].tree, 0
    for timer in path:
        wanted = profile.timers.index(timer)
        row = next(at for at in range(len(tree.timer))
                   if tree.parent[at] == row and tree.timer[at] == wanted)  # fmt: skip
    return row


def _launch(row: int, work: Work) -> Launch:
    count = STEPS * work.count
    return Launch(
        row=row,
        count=count,
        time_ns=count * work.ns,
        minimum_ns=work.ns,
        maximum_ns=work.ns,
        sum_squares_ns2=float(count * work.ns**2),
        bytes=None if work.bytes is None else count * work.bytes,
    )


def training(
    *parts: Part,
    gpu: str = "NVIDIA H100 80GB HBM3",
    capability: str = "9.0",
    once: Sequence[tuple[Timer, int]] = (),
    ranks: Sequence[Sequence[Part]] = (),
    **more: Any,
) -> Profile:
    """The profile of a training: one process, or one for each of `ranks`.

    Args:
        once: what happens a single time, before the first step: imports, mostly.
    """
    nodes = list(ranks) or [parts]
    counted = any(work.flop is not None
                  for one in nodes for p in one for a in p.calls for work in a.works)  # fmt: skip
    threads, works = [], []
    for number, own in enumerate(nodes):
        threads.append(_host(own, once, number))
        stream, rows = _stream(own, number, counted)
        if rows:
            threads.append(stream)
            works.append((len(threads) - 1, rows))
    profile = profile_of(*threads, **more)
    for place, rows in works:
        measured = profile.threads[place]
        for path, work in rows:
            row = _row(profile, place, path)
            measured.launches.append(_launch(row, work))
            if work.memory:
                samples = [float(work.bytes or 0)] * work.count * STEPS
                name = f"Bytes copied {work.memory} memory"
                measured.user_events.append(replace(event(name, samples), row=row))
        node = measured.thread.node
        profile.devices.append(Device(node, 0, gpu, f"GPU-{node}", capability))
    roots = [one.tree.inclusive["time"][0] for one in profile.threads if one.thread.kind == "host"]
    profile.duration_ns = int(max(roots))
    return profile
