"""Whether advice on GPUs helps: programs with a fault, and twins that do what the advice says.

    python -m tests.gpu.pairs.try_pairs FOLDER [NAME ...]

on a machine with a GPU, PyTorch, CuPy and nvcc. Times each pair in turn under plain Python, runs
each twin under `taupy run` (trials `NAME-fault` and `NAME-mended` of FOLDER/pairs.db), and prints a
row for each pair: what the twin saved, the finding's place in the report, what it says can be saved
at most, and what is left of it in the twin's report. `tests/data/findings/h100_pairs.tar.xz` has
what an H100 gave (docs/report.md).
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

from taupy.model.finding import Finding
from taupy.model.rows import TrialRow
from taupy.profiledb import gpu_query
from taupy.profiledb.database import ProfileDB
from taupy.report.report import report

HERE = Path(__file__).parent
ROUNDS, AHEAD, AT_ONCE = 3, 4, 4
QUARTER = 4  # timed runs have a quarter of the steps


class Pair(NamedTuple):
    """A program, the kind of finding, and a part of the advice that its twin follows."""

    kind: str
    advice: str
    options: tuple[str, ...] = ()


COUNTED = ("--metrics", "flop_fp32,flop_tensor", "--gpu-launches", "2")

PAIRS = {
    "batches_from_pageable": Pair("copies", "pinned memory"),
    "features_to_host": Pair("copies", "pinned memory"),
    "labels_one_by_one": Pair("copies", "one buffer"),
    "confusion_one_by_one": Pair("copies", "one buffer"),
    "tokens_drawn_in_python": Pair("host slower than GPU", "do less in Python"),
    "beams_as_objects": Pair("host slower than GPU", "do less in Python"),
    "loss_each_step": Pair("synchronisation", "a step later"),
    "stopwatch_each_layer": Pair("synchronisation", "events"),
    "cache_emptied_each_step": Pair("synchronisation", "keep the memory"),
    "arrays_without_pool": Pair("synchronisation", "a pool"),
    "optimizer_by_parameter": Pair("tiny kernels", "fused optimizer"),
    "cell_written_out": Pair("tiny kernels", "CUDA graphs"),
    "layouts_changed": Pair("kernels without flop", "one memory layout", COUNTED),
    "casts_around_layers": Pair("kernels without flop", "conversions", COUNTED),
    "products_in_single": Pair("tensor cores unused", "TF32"),
    "training_in_single": Pair("tensor cores unused", "autocast"),
    "odd_width_in_half": Pair("tensor cores unused", "multiples of 8"),
    "vocabulary_in_half": Pair("tensor cores unused", "multiples of 8"),
}
CODE = {
    "columns": Pair("kernel's code", "neighbouring elements"),
    "fields": Pair("kernel's code", "neighbouring elements"),
    "turned": Pair("kernel's code", "pad rows"),
    "doubles": Pair("kernel's code", "pad rows"),
    "unrolled": Pair("kernel's code", "registers"),
    "bounded": Pair("kernel's code", "registers"),
}
"""Kernels of kernels.cu, launched by code.py."""


def command(folder: Path, name: str) -> list[str]:
    if name in CODE:
        return [str(HERE / "code.py"), str(folder / "kernels.cubin"), name]
    return [str(HERE / f"{name}.py")]


def timed(folder: Path, names: list[str]) -> dict[str, dict[str, list[float]]]:
    """Seconds of each run. Programs start ahead of their turn, but run one at a time."""
    waiting: list[tuple[str, subprocess.Popen[str]]] = []
    seconds = {}
    left = list(names)
    while left or waiting:
        while left and len(waiting) < AHEAD:
            name = left.pop(0)
            program = subprocess.Popen(
                [sys.executable, *command(folder, name), "time", str(ROUNDS)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            waiting.append((name, program))
        name, program = waiting.pop(0)
        assert program.stdout
        if program.stdout.readline() == "ready\n":
            output, _ = program.communicate("go\n")
            if program.returncode == 0:
                seconds[name] = json.loads(output.splitlines()[-1])
        else:
            program.communicate()
    return seconds


def measure(folder: Path, name: str, twin: str) -> None:
    options = (PAIRS | CODE)[name].options
    with open(folder / f"{name}-{twin}.log", "w") as log:
        subprocess.run(
            [
                *(sys.executable, "-m", "taupy", "run", "--db", str(folder / "pairs.db")),
                *("--trial", f"{name}-{twin}", "--gpu", *options),
                *(*command(folder, name), twin),
            ],
            stdout=log, stderr=log, timeout=90,
        )  # fmt: skip


def measure_all(folder: Path, names: list[str]) -> None:
    """Both twins of each pair; programs whose kernels are counted last, one at a time: a GPU's
    counters serve one process, and the others' kernels would then not be recorded."""
    twins = [(name, twin) for name in names for twin in ("fault", "mended")]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, twin in twins:
            if not (PAIRS | CODE)[name].options:
                pool.submit(measure, folder, name, twin)
    for name, twin in twins:
        if (PAIRS | CODE)[name].options:
            measure(folder, name, twin)


class Result(NamedTuple):
    """What the reports of a program and of its twin say.

    Attributes:
        sentence: of the finding; "" if it is not there.
        place: of the finding among those of the program, from 1; None if it is not there.
        at_most_s: what the finding says can be saved.
        left_s: what the same finding of the twin says; 0 if it is gone.
        others: kinds of all other findings, of the program and of the twin.
    """

    sentence: str
    place: int | None
    at_most_s: float
    left_s: float
    others: tuple[list[str], list[str]]


UNTRIED = "NOT TRIED"


class NotTried(Exception):
    """A pair of which the trials do not tell whether the advice helps."""


def result(database: Path, name: str) -> Result:
    """What was found in the trials of a pair.

    Raises:
        NotTried: a trial is not there or has no launches, or the rule gave no verdict on it. That
            nothing was found in such a twin says nothing.
    """
    pair = (PAIRS | CODE)[name]
    with ProfileDB.open(str(database), readonly=True) as db:
        trials = {trial.name: trial for trial in db.trials()}
        twins = [
            _findings(db, trials.get(f"{name}-{twin}"), f"{name}-{twin}", pair.kind)
            for twin in ("fault", "mended")
        ]
    meant = [
        [one for one in findings if one.kind == pair.kind and pair.advice in one.attempt]
        for findings in twins
    ]
    before, left = (sum(one.saved_ns for one in findings) / 1e9 for findings in meant)
    place = twins[0].index(meant[0][0]) + 1 if meant[0] else None
    others = [
        [one.kind for one in findings if one not in chosen]
        for findings, chosen in zip(twins, meant, strict=True)
    ]
    sentence = meant[0][0].sentence if meant[0] else ""
    return Result(sentence, place, before, left, (others[0], others[1]))


def _findings(db: ProfileDB, trial: TrialRow | None, name: str, kind: str) -> list[Finding]:
    """The findings of one trial of a pair, if the rule of this kind gave its verdict."""
    if trial is None:
        raise NotTried(f"there is no trial {name}")
    try:
        gpu_query.launched(db, trial.id)
    except gpu_query.NothingRan:
        raise NotTried(f"{name} has no launches") from None
    judgement = report(db, trial).judgement
    for abstention in judgement.abstentions:
        if abstention.kind == kind:
            raise NotTried(f"{name}: no verdict on {kind}: {abstention.reason}")
    return judgement.findings


def saved(seconds: dict[str, list[float]]) -> tuple[float, float]:
    """Seconds that a program takes, as `taupy run` runs it, and that its twin saves."""
    before, after = (QUARTER * median(seconds[twin]) for twin in ("fault", "mended"))
    return before, before - after


def row(folder: Path, name: str, seconds: dict[str, list[float]] | None) -> str:
    """What was measured of a pair."""
    text = f"{name:<24} {(PAIRS | CODE)[name].kind:<20}"
    if seconds:
        before, less = saved(seconds)
        text += f" {before:6.2f} s, twin saves {less:6.2f} s, {100 * less / before:4.1f} %"
    try:
        got = result(folder / "pairs.db", name)
    except NotTried as reason:
        return f"{text}; {UNTRIED}: {reason}"
    text += f"; finding {got.place}: at most {got.at_most_s:.2f} s, twin {got.left_s:.2f} s"
    return f"{text}; others: {', '.join(got.others[0])}; of the twin: {', '.join(got.others[1])}"


def main(folder: Path, chosen: list[str]) -> int:
    """Measure and print; 1 if a pair was not tried."""
    folder.mkdir(parents=True, exist_ok=True)
    names = chosen or [*PAIRS, *CODE]
    has_code = any(name in CODE for name in names)
    cubin = folder / "kernels.cubin"
    if has_code:
        subprocess.run(["nvcc", "-arch=sm_90", "-cubin", "-o", cubin, HERE / "kernels.cu"])
    seconds = timed(folder, names)
    (folder / "seconds.json").write_text(json.dumps(seconds, indent=1))
    measure_all(folder, names)
    if has_code:
        subprocess.run(
            [
                *(sys.executable, "-m", "taupy", "static", str(cubin), "--store"),
                *("--db", str(folder / "pairs.db")),
            ],
            stdout=subprocess.DEVNULL,
        )
    rows = [row(folder, name, seconds.get(name)) for name in names]
    print(*rows, sep="\n", flush=True)
    return int(any(UNTRIED in line for line in rows))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
