"""Create a trial database from the tables that Malony, Lim, Shende and Norris showed in 2017.

    python examples/tau2017/make.py [tau2017.db]

24 trials: 4 networks x 2 libraries x 3 GPUs. The CSV files beside this script contain the numbers
as printed; README.md describes their origin, their limits and apparent mistakes.
"""

from __future__ import annotations

import csv
import os
import sys
from array import array
from decimal import Decimal
from pathlib import Path

from taupy.errors import TaupyError
from taupy.instrument.runfolder import derived_uuid
from taupy.model.gpu import Device, Fact
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
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.derived import define
from taupy.profiledb.writer import add_profile

HERE = Path(__file__).parent
GPUS = ("K80", "M40", "P100")
SOURCE = "Malony et al., Performance Analysis of CUDA Deep Learning Networks using TAU, 2017"
STARTED_AT = 1_483_228_800.0  # 2017-01-01; the slides give no date
INSTRUCTIONS = 100  # only ratios were printed: counts are per 100 instructions

ROOT = Timer(ROOT_TIMER, groups=("TAUPY",))
COLUMNS = {"warps/inst": "warps", "gld/inst": "gld"}
UNITS = {
    "warps": "warp",
    "gld": "inst",
    "inst": "inst",
    "warps_per_inst_x_time": "warp us/inst",
    "gmem_per_inst_x_time": "inst us/inst",
}


def rows(name: str) -> list[dict[str, str]]:
    """A table, with cells as printed."""
    with open(HERE / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def kernel_values(application: str, library: str, gpu: str) -> dict[str, dict[str, float]]:
    """Kernel -> metric -> value in one trial."""
    metrics_of: dict[str, dict[str, float]] = {}
    for row in rows("ratios"):
        if (row["application"], row["library"]) == (application, library):
            count = Decimal(row[gpu]) * INSTRUCTIONS
            values = metrics_of.setdefault(row["kernel"], {"inst": INSTRUCTIONS})
            values[COLUMNS[row["metric"]]] = int(count)
    if (application, library) == ("VGG", "Neon"):
        for row in rows("tuning"):
            if row["gpu"] == gpu:
                metrics_of[row["kernel"]] = {
                    name: float(row[name])
                    for name in ("warps_per_inst_x_time", "gmem_per_inst_x_time")
                }
    return metrics_of


def stream(kernels: dict[str, dict[str, float]], timers: list[Timer]) -> ThreadProfile:
    """The kernels on the GPU's only thread; numbers of launches were not printed."""
    tree = CallTree(
        timer=array("q", [0]),
        parent=array("q", [-1]),
        calls=array("q", [0]),
        subroutines=array("q", [len(kernels)]),
    )
    for name in kernels:
        timers.append(Timer(name, groups=("GPU_KERNEL",)))
        tree.timer.append(len(timers) - 1)
        tree.parent.append(0)
        tree.calls.append(1)
        tree.subroutines.append(0)
    for metric in sorted({metric for values in kernels.values() for metric in values}):
        own = [values[metric] for values in kernels.values()]
        kind = "q" if all(isinstance(value, int) for value in own) else "d"
        tree.exclusive[metric] = array(kind, [0, *own])
        tree.inclusive[metric] = array(kind, [sum(own), *own])  # the root's, too
    return ThreadProfile(Thread(0, 1, 0, "stream"), tree)


def trial(application: str, library: str, gpu: str, printed: str) -> Profile:
    """One trial. Times were printed without a unit; TAU's are in microseconds."""
    nanoseconds = int(Decimal(printed) * 1000)
    host = CallTree(
        timer=array("q", [0]),
        parent=array("q", [-1]),
        calls=array("q", [1]),
        subroutines=array("q", [0]),
        inclusive={"time": array("q", [nanoseconds])},
        exclusive={"time": array("q", [nanoseconds])},
    )
    timers = [ROOT]
    threads = [ThreadProfile(Thread(0, 0, 0), host)]
    kernels = kernel_values(application, library, gpu)
    if kernels:
        threads.append(stream(kernels, timers))
    facts = [(row["fact"], row[gpu], row["unit"]) for row in rows("gpus")]
    (code,) = [
        row
        for row in rows("code")
        if (row["application"], row["library"]) == (application, library)
    ]
    measured = {name for thread in threads for name in thread.tree.inclusive}
    return Profile(
        uuid=derived_uuid(f"tau2017/{application}/{library}/{gpu}"),
        application=application,
        experiment=library,
        name=gpu,
        started_at=STARTED_AT,
        duration_ns=nanoseconds,
        timers=timers,
        threads=threads,
        metrics=[TIME, *(Metric(name, unit) for name, unit in UNITS.items() if name in measured)],
        exit_code=None,
        source="printed table",
        metadata={
            "Source": SOURCE,
            "library": library,
            "GPU Name": gpu,
            "Total Execution Time": printed,
            "Lines of code": code["lines"],
            "TAU routines": code["routines"],
            "CUDA Version": "8.0.44",
            "cuDNN Version": "5.1",
            **({"Counts are for": f"{INSTRUCTIONS} instructions"} if "inst" in measured else {}),
        },
        devices=[
            Device(
                0, 0, gpu, facts=tuple(Fact(name, number(text), unit) for name, text, unit in facts)
            )
        ],
    )


def number(text: str) -> str | int | float:
    """A fact's value, as a number if possible."""
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def make(path: str | os.PathLike[str]) -> int:
    """Store the trials that the database lacks. Returns the number of its trials."""
    with ProfileDB.open(path, create=True, readonly=False) as db:
        for row in rows("times"):
            for gpu in GPUS:
                add_profile(db, trial(row["application"], row["library"], gpu, row[gpu]))
        # The slides do not say which counter they call warps; it cannot be warps launched.
        define(db, "warps_per_inst", "warps / inst", description="warps/inst of the slides")
        define(db, "gld_per_inst", "gld / inst", description="gld/inst of the slides")
        return len(db.trials())


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else "tau2017.db"
    try:
        print(f"{target}: {make(target)} trials")
    except TaupyError as problem:
        sys.exit(f"make.py: {problem}")
