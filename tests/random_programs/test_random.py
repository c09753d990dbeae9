"""Both engines count random programs as an independent count does, call path by call path.

`make random PROGRAMS=3000 SEED=1000000` looks for programs that break this. One that does is kept
in the folder that the failure names, and `program(seed)` makes it again. Each Python tests 60 of
its own in CI.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.conftest import ENGINES, Runner
from tests.engine.conftest import HERE as ENGINE_TESTS
from tests.engine.test_counts import NO_BODY
from tests.random_programs.programs import program

PROGRAMS = int(os.environ.get("TAUPY_RANDOM_PROGRAMS", "60"))
SEED = int(os.environ.get("TAUPY_RANDOM_SEED", 1000 * sys.version_info.minor))
IN_A_RUN = 60
pytestmark = pytest.mark.slow
RUNS = range(SEED, SEED + PROGRAMS, IN_A_RUN)


def is_late(seed: int) -> bool:
    """Does this program call from signal handlers and finalizers?"""
    return seed % 2 == 0


class Batch:
    """Some programs, run one after another in one process, and their independent count."""

    def __init__(self, folder: Path, first: int) -> None:
        self.folder = folder
        seeds = range(first, min(first + IN_A_RUN, SEED + PROGRAMS))
        self.seeds = {str(folder / f"random_{seed}.py"): seed for seed in seeds}
        for file, seed in self.seeds.items():
            Path(file).write_text(program(seed, late=is_late(seed)))
        self.all = folder / "all.py"
        self.all.write_text(
            f"""
import sys
sys.path.insert(0, {str(ENGINE_TESTS)!r})
from reference import execute
for file in {list(self.seeds)!r}:
    with open(file) as source:
        code = compile(source.read(), file, "exec")
    execute(code, file)
"""
        )
        output = folder / "reference.json"
        reference = [sys.executable, str(ENGINE_TESTS / "reference.py"), str(output), *self.seeds]
        done = subprocess.run(reference, capture_output=True, text=True, check=True, timeout=600)
        self.stdout = done.stdout
        self.counts: dict[str, dict[str, int]] = json.loads(output.read_text())


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    """Filled by `batch`: first seed -> its batch."""
    return {}


@pytest.fixture(params=RUNS)
def batch(request, batches, tmp_path_factory) -> Batch:
    first = request.param
    if first not in batches:
        batches[first] = Batch(tmp_path_factory.mktemp(f"random-{first}-"), first)
    return batches[first]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_call_path_is_counted_as_often_as_it_was_taken(batch, engine):
    trial = Runner(batch.folder).run(batch.all, engine)
    assert trial.stdout == batch.stdout, "the programs print something else"
    wrong = []
    for file, seed in batch.seeds.items():
        expected = batch.counts[file]
        counted = {
            path: calls
            for path, calls in trial.counts(Path(file).name).items()
            if not path.endswith(NO_BODY)
        }
        lower_bounds = engine == "python" and is_late(seed)
        for path in sorted(expected.keys() | counted.keys()):
            calls, right = counted.get(path, 0), expected.get(path, 0)
            if calls != right and not (lower_bounds and calls < right):
                wrong.append(f"{file}: {path}: {calls} instead of {right}")
    assert not wrong, "\n".join(wrong[:20])


def test_the_programs_make_the_calls_that_they_are_meant_to_make(batch):
    """A generator of programs that call nothing would pass everything."""
    calls = sum(sum(counts.values()) for counts in batch.counts.values())
    assert calls > 20 * len(batch.seeds)
    paths = [path for counts in batch.counts.values() for path in counts]
    for name in ("Finalized.__del__", "Pause.__await__", "in_thread.<locals>.<lambda>"):
        assert any(name in path for path in paths), name
