"""Runs the trainings of models.py with and without taupy, and compares what they notice.

python -m tests.observer.compare                    all, under each of ENGINES
python -m tests.observer.compare --share            a few, under the compiled engine
python -m tests.observer.compare --markdown         the table of docs/network.md
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.in_process import set_up_torch

HERE = Path(__file__).parent
MODELS = tuple(
    re.findall(r"^@model\ndef (\w+)", (HERE / "models.py").read_text(), flags=re.MULTILINE)
)
SHARE = (
    *("residual_in_place", "checkpoint_reentrant", "penalty_on_gradients", "function_in_python"),
    *("hooks_of_the_programs_own", "compiled_graphs", "odd_modules"),
)
OPTIONS = {
    "native": ("--engine", "native"),
    "operators": ("--engine", "native", "--operators"),
    "python": ("--engine", "python"),
}
ENGINES = (*OPTIONS,)
"""How taupy measures: with either engine, and with operators."""

AT_ONCE = 10
"""Models in one process: to import PyTorch takes longer than a training."""

TIMEOUT_S = 900

Facts = dict[str, object]


def environment(folder: Path) -> dict[str, str]:
    ours = {"TAUPY_STATE_DIR": str(folder / "state"), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **ours, "PYTHONHASHSEED": "0"}


def facts(names: tuple[str, ...], command: list[str], folder: Path) -> list[Facts]:
    """What each training said, run by this command."""
    done = subprocess.run(
        [sys.executable, *command, str(HERE / "models.py"), *names],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} {names}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def differences(plain: Facts, measured: Facts) -> list[str]:
    """The names of the facts that differ."""
    return [name for name in plain if measured.get(name) != plain[name]]


def compare(names: tuple[str, ...], engines: tuple[str, ...]) -> dict[str, dict[str, list[str]]]:
    """For each model and engine, what differs from the run without taupy."""
    result: dict[str, dict[str, list[str]]] = {name: {} for name in names}
    with tempfile.TemporaryDirectory(prefix="taupy-observer-") as text:
        folder = Path(text)
        if engines != ("python",) and (done := set_up_torch(environment(folder))).returncode:
            raise RuntimeError(f"taupy setup torch: {done.stderr}")
        for begin in range(0, len(names), AT_ONCE):
            some = names[begin : begin + AT_ONCE]
            plain = facts(some, [], folder)
            for engine in engines:
                run = [
                    "-m",
                    "taupy",
                    "run",
                    *OPTIONS[engine],
                    "--db",
                    str(folder / "observer.db"),
                ]
                measured = facts(some, run, folder)
                for name, before, after in zip(some, plain, measured, strict=True):
                    result[name][engine] = differences(before, after)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="Does a training notice that it is measured?")
    parser.add_argument("--share", action="store_true", help="a few models, one engine")
    parser.add_argument("--markdown", action="store_true", help="a table")
    parser.add_argument("--engine", choices=ENGINES, help="only this one")
    arguments = parser.parse_args()
    names = SHARE if arguments.share else MODELS
    engines = (arguments.engine,) if arguments.engine else ENGINES[: 1 if arguments.share else None]
    result = compare(names, engines)
    if arguments.markdown:
        print("| training | " + " | ".join(engines) + " |\n| --- |" + " --- |" * len(engines))
    for name, found in result.items():
        cells = [", ".join(found[engine]) or "equal" for engine in engines]
        print("| " + " | ".join((name.replace("_", " "), *cells)) + " |")
    equal = sum(not any(found.values()) for found in result.values())
    print(f"Python {platform.python_version()}: {equal} of {len(result)} notice nothing")
    sys.exit(equal != len(result))


if __name__ == "__main__":
    main()
