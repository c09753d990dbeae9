"""The trials, the questions, and what the commands print of them.

    python -m tests.differential FOLDER      every output in full, to compare two versions: diff -r
    python -m tests.differential --update    stores the outputs of this version (read `git diff`)

A stored file shows, for each command, its exit code, what people see, and a hash of each
other form; of long output, a hash alone.
"""

from __future__ import annotations

import hashlib
import re
import runpy
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from unittest import mock

from taupy.model.profile import Profile, Timer
from taupy.model.sampled import GROWTH, KIB, PEAK, RESIDENT
from taupy.profiledb.writer import add_profile
from tests import in_process
from tests.builders import (
    call,
    database_at,
    event,
    gpu_profile,
    host,
    profile_of,
    samples,
    small_profile,
    steps,
)
from tests.findings import gpu_faults, gpu_healthy
from tests.unit.profiledb.test_layers import known

STORED = Path(__file__).parent / "outputs"
_EXAMPLES = Path(__file__).parents[2] / "examples"
FORMS = ("", "--csv", "--json", "--markdown", "--wide")
_LONGEST = 3_000
"""Characters of output that are stored as text."""

OF_ONE = (
    *("pprof", "pprof --tree", "pprof --callers f", "pprof --by file", "steps --metric cpu_time"),
    *("pprof --kernels", "pprof --events", "pprof --by callpath --sort calls", "pprof --list"),
    *("pprof --summary total,mean,stddev", "pprof --sort inclusive --limit 3", "layers"),
    *("layers --tree --depth 1", "layers --by layer_type", "layers --by rank", "layers --by phase"),
    *("phases", "phases --by step", "phases --by layer", "steps", "steps --kind validation"),
    *("memory", "memory --by layer", "memory --series", "ranks", "waiting", "kernels"),
    *(
        "kernel gemm",
        "kernels --kernel gemm --by configuration",
        "roofline",
        "roofline --by routine",
    ),
    *("candidates", "candidates --metric time --by file", "places"),
)
"""Asked of one trial."""
SEVERAL = (
    "trials",
    "compare 1 2",
    "compare 1 2 --by file --value inclusive",
    "compare 1 2 --by layer",
    "compare 1 2 --metric misses --over max",
    "compare runs/base runs/new",
    "compare runs/base runs/new --correction bh --sort name --limit 2",
    "compare 3 5 --by kernel",
    "pivot",
    "pivot --rows routine --columns trial --cell time --value calls",
    "pivot --rows application --columns experiment --cell time --across count",
    "pivot --rows routine runs/base runs/new --columns experiment --baseline base",
    "sweep runs/base --by n --show all",
    "sweep runs/base --by n --scaling strong --across mean",
    "compare runs/base runs/new --fail-on 'time > +5%'",
    "compare runs/base runs/new --fail-on 'time of work > +5%' --fail-on 'calls of work > +0'",
    "compare runs/new runs/base --fail-on 'time > +5%' --allow all",
    "compare 1 2 --fail-on 'time of absent > +5%'",
)
"""Asked of the small trials together; the last are what a gate says of stored sides."""
TAU2017 = (
    "pivot --rows application,library --columns gpu",
    "pivot --rows library,application,kernel --columns gpu --cell warps_per_inst "
    "--cell gld_per_inst",
    "pivot --rows kernel --columns gpu --cell warps_per_inst --baseline P100",
    "compare gpu=M40 gpu=P100 --by kernel --metric warps_per_inst",
    "compare gpu=M40 gpu=P100 --by kernel --metric gld_per_inst --match template",
    "compare 'gpu=Tesla M40,app=AlexNet' 'gpu=Tesla P100,app=AlexNet'",
    "candidates VGG/Neon/M40 --metric warps_per_inst_x_time --order value",
    "sweep --by 'GPU Name' AlexNet/Torch --show totals",
    "pprof VGG/Neon/M40 --kernels",
    "derive",
)
COUNTERS2017 = (
    "pprof alexnet --metric inst_executed -s --summary mean",
    "pprof alexnet --metric ipc --thread 0.0.1",
    "candidates vgg/*/M40 --metric warps_per_inst_by_time",
    "candidates vgg/*/M40 --metric warps_per_inst_by_time --order shortfall --target 2",
    "pprof vgg/*/M40 --metric gmem_per_warp",
    "pprof resnet/V100/ResNet18 --metric intensity_dram",
    "pprof 'resnet/by hand/ResNet18' --metric flop_of_mac",
    "compare resnet/V100/ResNet18 resnet/A100/ResNet18 --metric flop",
    "pivot resnet --columns gpu --cell flop",
    "roofline resnet/V100/ResNet18 --by program",
)


def _training() -> Profile:
    """Layers with facts, steps, and samples of memory."""
    profile = known(number=1)
    profile.threads[0].steps = [steps([9_000_000, 1_000_000]), steps([500_000], "validation")]
    for series in profile.threads[0].steps:
        series.values["loss"] = array("d", [0.5] * len(series))
    profile.threads[0].samples = [samples(RESIDENT, KIB, [100.0, 300.0])]
    profile.threads[0].user_events += [
        event(RESIDENT, [100.0, 300.0], KIB),
        *(replace(event(GROWTH, [50.0], KIB), row=row) for row in (2, 4, 5)),
        replace(event(PEAK, [300.0], KIB), row=5),
    ]
    return profile


def _run(number: int, experiment: str, workers: int, work_ns: int) -> Profile:
    """A main thread, and `workers` that share work, none alike."""
    main = call("main", 1, 10_000_000, [call(Timer("epoch", groups=("PHASE",)), 2, work_ns)])
    work = Timer("work", "p.py", 3)
    return profile_of(
        host(main),
        *(
            host(call("run", 1, 0, [call(work, 2, work_ns // workers + 1000 * at)]), thread=at)
            for at in range(1, workers + 1)
        ),
        number=number,
        application="runs",
        experiment=experiment,
        name=f"run{number}",
        metadata={"n": str(workers)},
    )


def _small(path: Path) -> None:
    """A training, small and GPU trials, and repeated runs of which the new ones are 30 % slower."""
    profiles = [_training(), small_profile(2), gpu_profile(3), small_profile(4), gpu_profile(5)]
    for at, work_ns in enumerate((90_000_000, 91_000_000, 92_500_000, 90_300_000, 91_700_000)):
        profiles.append(_run(10 + at, "base", 1 + at % 3, work_ns))
        profiles.append(_run(20 + at, "new", 1 + at % 3, work_ns * 13 // 10))
    with database_at(path) as db:
        for profile in profiles:
            add_profile(db, profile)


def _of_script(*script: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with mock.patch.object(sys, "argv", ["make", str(path)]), redirect_stdout(StringIO()):
            try:
                runpy.run_path(str(_EXAMPLES.joinpath(*script)), run_name="__main__")
            except SystemExit as ended:
                assert not ended.code

    return make


def _of_profile(make: Callable[[], Profile]) -> Callable[[Path], None]:
    def store(path: Path) -> None:
        with database_at(path) as db:
            add_profile(db, make())

    return store


@dataclass(frozen=True)
class Asked:
    """A database, and what is asked of it in which forms."""

    make: Callable[[Path], None]
    commands: tuple[str, ...]
    forms: tuple[str, ...] = FORMS


_TEXT, _GPU = ("",), ("pprof --kernels", "kernels", "phases", "layers", "roofline", "candidates")
ASKED = {
    "training": Asked(_of_profile(_training), OF_ONE),
    "small": Asked(_of_profile(small_profile), OF_ONE, ("", "--csv")),
    "gpu": Asked(_of_profile(gpu_profile), OF_ONE),
    "several": Asked(_small, SEVERAL),
    "tau2017": Asked(_of_script("tau2017", "make.py"), TAU2017),
    "counters2017": Asked(_of_script("counters2017", "make_trials.py"), COUNTERS2017),
    **{
        make.__name__: Asked(_of_profile(make), _GPU, _TEXT)
        for make in (*gpu_faults.FAULTS, *gpu_healthy.HEALTHY)
    },
}


def outputs(name: str, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Of each command and form: the command, the form, and exit code, output and errors."""
    asked = ASKED[name]
    database = folder / f"{name}.db"
    asked.make(database)
    environment = {
        "TAUPY_DB": str(database),
        "TAUPY_STATE_DIR": str(folder / "state"),
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }
    for command in asked.commands:
        words = re.findall(r"'([^']*)'|(\S+)", command)
        for form in asked.forms:
            arguments = [quoted or word for quoted, word in words] + form.split()
            shown = in_process.taupy(*arguments, cwd=folder, env=environment)
            text = f"{shown.stdout}{shown.stderr}".replace(str(folder), "FOLDER")
            text = re.sub(r"\d+\.\d{6,}(e[+-]\d+)?", _rounded, text)
            yield command, form, f"[{shown.returncode}]\n{text}"
            if not shown.stdout:
                break  # an error, the same in all forms


def _rounded(number: re.Match[str]) -> str:
    """Up to Python 3.11, `sum` rounded after each addition."""
    return f"{float(number[0]):.9g}"


def summary(name: str, folder: Path) -> str:
    """What is stored of a database's outputs."""
    parts = []
    for command, form, text in outputs(name, folder):
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        if form:
            parts.append(f"{form} {digest}\n")
        else:
            shown = text if len(text) <= _LONGEST else f"{digest}\n"
            parts.append(f"\n$ taupy {command}\n{shown}")
    return "".join(parts).lstrip("\n")
