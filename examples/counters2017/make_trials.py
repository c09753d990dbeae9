"""Write the printed counter tables of two older works as trials.

    python examples/counters2017/make_trials.py counters2017.db

- Malony et al., "Performance Analysis of CUDA Deep Learning Networks using TAU", 2017: the
  counters of neon's AlexNet on a P100, and the VGG tuning candidates;
- a course exercise on ResNet rooflines on V100 and A100.

Only printed numbers are stored; all others stay absent. Apparent mistakes in the tables are noted
in the trials' metadata (`taupy trials show`). README.md suggests questions.
"""

from __future__ import annotations

import csv
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

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
from taupy.profiledb import derived
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile

HERE = Path(__file__).parent
INST = Metric("inst_executed", "inst")
CYCLES = Metric("cycles_active", "cycle")
WARPS_BY_TIME = Metric("warps_per_inst_by_time", "warp*us/inst")
GMEM_BY_TIME = Metric("gmem_per_inst_by_time", "us")
FLOP = Metric("flop", "flop")
BYTES = Metric("bytes_dram", "B")
MACS = Metric("mac", "mac")

_OF = '"smsp__sass_thread_inst_executed_op_{}_pred_on.sum"'
FORMULAS = {
    # The second column of the VGG table over the first.
    "gmem_per_warp": f"{GMEM_BY_TIME.name} / {WARPS_BY_TIME.name}",
    # A multiply-add is two operations.
    "flop_of_mac": "2[flop/mac] * mac",
    # flop_count_sp and AI of the exercise, over Nsight Compute's metrics.
    "exercise_flop": "1[flop/inst]"
    f" * ({_OF.format('fadd')} + {_OF.format('fmul')} + 2 * {_OF.format('ffma')})",
    "exercise_intensity": "exercise_flop / (32[B/sector]"
    ' * ("dram__sectors_read.sum" + "dram__sectors_write.sum"))',
}
"""Derived metrics to define in the database."""

Row = tuple[str, int, Mapping[Metric, float]]
"""A timer, its calls, its values."""


def table(name: str) -> list[dict[str, str]]:
    with open(HERE / name, newline="") as file:
        return list(csv.DictReader(file))


def profile(
    place: Sequence[str], rows: Iterable[Row], facts: Mapping[str, str], group: str
) -> Profile:
    """One thread with these timers under its root; for kernels, also a host thread.

    Args:
        place: application, experiment, trial.
    """
    rows = list(rows)
    metrics = list(dict.fromkeys(metric for _, _, values in rows for metric in values))
    timers = [Timer(ROOT_TIMER, groups=("TAUPY",))]
    timers += [Timer(name, groups=(group,)) for name, _, _ in rows]
    count = len(timers)
    calls = array("q", [1, *(number for _, number, _ in rows)])
    tree = CallTree(
        timer=array("q", range(count)),
        parent=array("q", [-1] + [0] * (count - 1)),
        calls=calls,
        subroutines=array("q", [sum(calls[1:])] + [0] * (count - 1)),
    )
    for metric in metrics:
        kind = "q" if metric == TIME else "d"
        own = array(kind, [0, *(values[metric] for _, _, values in rows)])  # type: ignore[type-var]
        tree.exclusive[metric.name] = own
        tree.inclusive[metric.name] = array(kind, [sum(own), *own[1:]])  # type: ignore[type-var]
    # TAU's GPU was thread 1; the program's own thread 0 ran no kernel.
    nothing = {name: array(column.typecode, [0]) for name, column in tree.exclusive.items()}
    zero = array("q", [0])
    host = CallTree(zero, array("q", [-1]), array("q", [1]), zero, nothing, nothing)
    return Profile(
        uuid=str(uuid5(NAMESPACE_URL, "/".join(("counters2017", *place)))),
        application=place[0],
        experiment=place[1],
        name=place[2],
        started_at=1494201600.0,  # the day of the slides
        duration_ns=0,
        timers=timers,
        threads=[ThreadProfile(Thread(0, 0, 0), host), ThreadProfile(Thread(0, 0, 1), tree)]
        if group == "GPU_KERNEL"
        else [ThreadProfile(Thread(0, 0, 0), tree)],
        metrics=metrics,
        source="entered from print by examples/counters2017/make_trials.py",
        metadata=dict(facts),
    )


def neon_alexnet() -> Profile:
    """The slide prints means over two threads, only one of which ran kernels: they are doubled."""
    rows = [
        (
            row["timer"],
            round(2 * float(row["calls"])),
            {
                TIME: round(2e9 * float(row["time_s"])),
                INST: 2 * float(row["inst_executed"]),
                CYCLES: 2 * float(row["active_cycles"]),
            },
        )
        for row in table("neon_alexnet.csv")
    ]
    facts = {
        "GPU Name": "Tesla P100-PCIE-16GB",
        "Source": "Malony et al. 2017, slide 'Instruction Throughput per # Cycles (Neon)'",
        "Slip 1": "instructions per cycle reach 4.36, above the GPU's maxIPC of 3 that the slides "
        "give: the two counters are not summed over the same SMs",
        "Slip 2": "numbers of calls are fractions: the table holds means over two threads",
        "Slip 3": "of .TAU application the exclusive time, 11.827 s, is above the inclusive, "
        "2.594 s: the two are exchanged. Its row and those of the driver's calls are left out",
        "Slip 4": "the P100 is said to have compute capability 6.2; its metadata says 6.0",
    }
    return profile(("alexnet", "neon counters", "P100"), rows, facts, "GPU_KERNEL")


def vgg_candidates() -> list[Profile]:
    candidates = table("vgg_candidates.csv")
    facts = {
        "Source": "Malony et al. 2017, slide 'VGG Tuning Candidates'",
        "Slip 1": "the second column over the first is the same for all kernels of a GPU but "
        "`prepare`: the ratios are those of the whole run, not of each kernel",
        "Slip 2": "the table is said to compare neon and Torch; all its kernels are neon's",
        "Note": "times and ratios were not printed, only their products; exec_t is taken to be "
        "in microseconds, as TAU's times are",
    }
    trials = []
    for gpu in ("M40", "P100"):
        rows = [
            (
                row["timer"],
                0,
                {
                    WARPS_BY_TIME: float(row["warps_per_inst_by_time"]),
                    GMEM_BY_TIME: float(row["gmem_per_inst_by_time"]),
                },
            )
            for row in candidates
            if row["gpu"] == gpu
        ]
        named = {"GPU Name": f"Tesla {gpu}", **facts}
        trials.append(profile(("vgg", "neon candidates", gpu), rows, named, "GPU_KERNEL"))
    return trials


def resnet_measured() -> list[Profile]:
    """Only rates were printed, so each trial stands for one second of training."""
    trials = []
    for row in table("resnet_measured.csv"):
        flop = float(row["printed_gflops"]) * 1e12
        values = {TIME: 1_000_000_000, FLOP: flop, BYTES: flop / float(row["intensity"])}
        facts = {
            "GPU Name": {"V100": "Tesla V100-SXM2-16GB", "A100": "NVIDIA A100-SXM4-40GB"}[
                row["gpu"]
            ],
            "Source": "a course exercise on rooflines, table 1",
            "Slip 1": "printed as Gflop/s on cards of 15.7 and 19.5 Tflop/s; it must be Tflop/s",
            "Slip 2": "called attainable; it is what was attained",
            "Note": "absolute numbers were not printed: one second of training",
        }
        place = ("resnet", row["gpu"], row["model"])
        trials.append(profile(place, [("training", 1, values)], facts, "PHASE"))
    return trials


def resnet_by_hand() -> list[Profile]:
    trials = []
    for model in ("ResNet18", "ResNet34"):
        rows = [
            (
                f"conv {row['kernel']}x{row['kernel']} {row['input']} to {row['output']}",
                int(row["repetitions"]),
                {MACS: float(row["computation"])},
            )
            for row in table("resnet_by_hand.csv")
            if row["model"] == model
        ]
        facts = {
            "Source": "a course exercise on rooflines, work counted by hand",
            "Slip 1": "called FLOPS; these are multiply-adds, two operations each",
            "Slip 2": "the last stage has kernels of 7x7 where ResNet's are 3x3: 314.7 million a "
            "convolution instead of 57.8",
            "Slip 3": "an image of 150,528 bytes is called 150 MB; the intensities 12.0, 24.0 and "
            "25.3 that follow are a thousand times too small",
        }
        trials.append(profile(("resnet", "by hand", model), rows, facts, "PHASE"))
    return trials


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make_trials.py DATABASE", file=sys.stderr)
        return 2
    with ProfileDB.open(sys.argv[1], create=True) as db:
        for trial in (neon_alexnet(), *vgg_candidates(), *resnet_measured(), *resnet_by_hand()):
            place = f"{trial.application}/{trial.experiment}/{trial.name}"
            print(f"trial {add_profile(db, trial)}: {place}")
        for name, expression in FORMULAS.items():
            derived.define(db, name, expression)
    return 0


if __name__ == "__main__":
    sys.exit(main())
