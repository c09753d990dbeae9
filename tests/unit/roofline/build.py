"""Trials with exact counters: kernels under phases, routines on a host, ceilings."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from taupy.model.gpu import Device, Launch
from taupy.model.machine import Ceiling
from taupy.model.profile import (
    ROOT_TIMER,
    TIME,
    CallTree,
    Metric,
    Profile,
    Thread,
    ThreadProfile,
    Timer,
)
from taupy.model.streams import Owner, StreamBuilder
from tests.builders import STARTED_AT, UUID, call, host, profile_of


@dataclass(frozen=True)
class Kernel:
    """Launches of one kernel in one phase; values are sums over the counted launches.

    What is not in the values of flop was counted as none; `Partly` leaves it uncounted.
    """

    name: str
    calls: int
    time_ns: int
    values: Mapping[str, float] = field(default_factory=dict)
    phase: str = "step"
    short: str | None = None

    def counted(self) -> dict[str, float]:
        if not any(metric.startswith("flop") for metric in self.values):
            return dict(self.values)
        none = dict.fromkeys(("flop_fp64", "flop_fp32", "flop_fp16"), 0)
        tensor = sum(
            value
            for metric, value in self.values.items()
            if metric.startswith("flop_tensor_") and metric != "flop_tensor_int8"
        )
        return {**none, "flop_tensor": tensor, **self.values}


class Partly(Kernel):
    """A kernel of which nothing was counted but its values."""

    def counted(self) -> dict[str, float]:
        return dict(self.values)


_UNITS = {"counted_time": "ns", "counted_launches": "launch"}


def _unit(metric: str) -> str:
    return _UNITS.get(metric) or ("flop" if metric.startswith("flop") else "B")


def gpu_trial(
    *kernels: Kernel,
    gpu: str = "Tesla V100-SXM2-16GB",
    number: int = 1,
    application: str = "net",
    metadata: Mapping[str, str] | None = None,
    wall_ns: int = 10_000_000,
) -> Profile:
    """main [ phase, ... ] on the host; each kernel launched from its phase, on one stream."""
    timers = [Timer(ROOT_TIMER, groups=("TAUPY",)), Timer("<module>", "net.py", 1)]
    phases = list(dict.fromkeys(kernel.phase for kernel in kernels))
    timers += [Timer(name, groups=("PHASE",)) for name in phases]
    count = len(phases)
    own = [0, wall_ns - 10 * count, *[10] * count]
    tree = CallTree(
        timer=array("q", range(2 + count)),
        parent=array("q", [-1, 0, *[1] * count]),
        calls=array("q", [1] * (2 + count)),
        subroutines=array("q", [1, count, *[0] * count]),
        exclusive={"time": array("q", own)},
        inclusive={"time": array("q", [wall_ns, wall_ns, *own[2:]])},
    )
    builder = StreamBuilder(timers)
    stream = Thread(0, 1, 0, "stream", "stream 7")
    for kernel in kernels:
        timer = Timer(kernel.name, groups=("GPU_KERNEL",), short=kernel.short)
        each = kernel.time_ns // max(kernel.calls, 1)
        launch = Launch(
            count=kernel.calls,
            time_ns=kernel.time_ns,
            minimum_ns=each,
            maximum_ns=each,
            sum_squares_ns2=0.0,
        )
        row = builder.add(stream, Owner(tree, 2 + phases.index(kernel.phase)), timer, launch)
        builder.add_values(stream, row, kernel.counted())
    names = {metric for kernel in kernels for metric in kernel.counted()}
    return Profile(
        uuid=UUID.format(number),
        application=application,
        experiment="default",
        started_at=STARTED_AT,
        duration_ns=wall_ns,
        timers=timers,
        threads=[ThreadProfile(Thread(0, 0, 0), tree), *builder.threads()],
        metrics=[*(Metric(name, _unit(name)) for name in sorted(names)), TIME],
        metadata=dict(metadata or {}),
        devices=[Device(0, 0, gpu, "GPU-1", "7.0")] if gpu else [],
        exit_code=0,
    )


def cpu_trial(number: int = 1, **more) -> Profile:
    """One host thread on an "AMD EPYC": matmul 2e9 flop and 1e8 B in 1 s, copy 4e8 B in
    0.5 s without flop, main 1e6 flop in 0.1 s."""
    main = call(
        ROOT_TIMER,
        exclusive={"time": 0, "flop": 0, "bytes_dram_read": 0},
        children=[
            call(
                Timer("<module>", "cpu.py", 1),
                exclusive={"time": 100_000_000, "flop": 1_000_000, "bytes_dram_read": 0},
                children=[
                    call(
                        Timer("matmul", groups=("PYTHON_C",)),
                        4,
                        {"time": 10**9, "flop": 2 * 10**9, "bytes_dram_read": 10**8},
                    ),
                    call(
                        Timer("copy", groups=("PYTHON_C",)),
                        2,
                        {"time": 500_000_000, "flop": 0, "bytes_dram_read": 4 * 10**8},
                    ),
                ],
            )
        ],
    )
    given = {
        "metrics": [Metric("bytes_dram_read", "B"), Metric("flop", "flop"), TIME],
        "metadata": {"CPU Type": "AMD EPYC"},
        "application": "cpu",
    }
    return profile_of(host(main), number=number, **{**given, **more})


def ceiling(kind: str, name: str, value: float, processor: str = "AMD EPYC", **more) -> Ceiling:
    """A measured ceiling."""
    unit = {"compute": "flop/s", "bandwidth": "B/s", "latency": "s"}[kind]
    given = {"pattern": "best", "threads": 2, "source": "measured", "reference": "taupy ceilings"}
    given |= more
    return Ceiling(
        characterization=f"{processor}/{kind}/{name}/{value}",
        machine="here",
        processor=processor,
        device_uuid="",
        kind=kind,
        name=name,
        value=value,
        unit=unit,
        **given,
    )


EPYC: Sequence[Ceiling] = (
    ceiling("compute", "fp64", 270e9),
    ceiling("compute", "fp32", 550e9),
    ceiling("bandwidth", "DRAM", 20e9),
    ceiling("bandwidth", "L1", 1100e9),
)


def phases_trial(phases: Mapping[str, float], number: int = 1) -> Profile:
    """A host thread with phases, name -> seconds, and no counters; row 2 + n is phase n."""
    children = [
        call(Timer(name, groups=("PHASE",)), 1, int(seconds * 1e9))
        for name, seconds in phases.items()
    ]
    main = call(ROOT_TIMER, children=[call(Timer("<module>", "p.py", 1), 1, 0, children)])
    return profile_of(host(main), number=number, metadata={"CPU Type": "AMD EPYC"})
