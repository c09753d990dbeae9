"""The same training on an H100 and an H200: what each answer of taupy says of the two.

The trials are those of `tests/data/gpu-pairs`, which tests/gpu/half_hour.sh --pair records on each
of the GPUs and tests/gpu/pack.py makes (docs/gpu-validation.md). While they are not there, the same
questions are asked of what the simulated driver plays, whose kernels take what the data sheets say.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from taupy.catalog.datasheets import datasheet
from taupy.model.gpu import NO_OWNER
from taupy.model.gpu_time import CAUSES, slug
from taupy.profiledb.database import ProfileDB
from tests.gpu import pack
from tests.gpu.comparison import of_profile, share_with_owner, stored
from tests.gpu.expected import refused, step_window, trained
from tests.gpu.programs import two_gpus
from tests.gpu.programs.two_gpus import KINETO_STEPS, PAUSE_STEP, STEPS, WARM_UP
from tests.in_process import taupy
from tests.once import once

TESTS = Path(__file__).parents[1]
RECORDED = TESTS / "data" / "gpu-pairs"
SCRIPT = TESTS / "gpu" / "half_hour.sh"
GPUS = {"h100": "NVIDIA H100 80GB HBM3", "h200": "NVIDIA H200"}
ONE, OTHER = "two_gpus#*,gpu=H100", "two_gpus#*,gpu=H200"
RUNS = WARM_UP + STEPS

pytestmark = pytest.mark.slow


class Kept(NamedTuple):
    """A folder that pack.py has filled, and both databases of it in one."""

    folder: Path
    database: Path
    is_played: bool


@pytest.fixture(scope="module")
def dry(played_gpu, tmp_path_factory) -> Path:
    """Both calls of `half_hour.sh --dry --pair`, packed."""
    return once(tmp_path_factory, "dry", partial(dry_calls, played_gpu))


def dry_calls(played_gpu: Path, folder: Path) -> None:
    python = folder / "python"  # the tests' own build is left alone
    python.write_text(
        '#!/bin/sh\n[ "$1" = setup.py ] && { echo "not built in a test"; exit 1; }\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    for kind, name in GPUS.items():
        environment = {
            **{"OUT": str(folder), "TMPDIR": str(folder), "PATH": os.environ["PATH"]},
            **{"PYTHON": str(python), "FAKE_NAME": name, "LD_LIBRARY_PATH": str(played_gpu)},
            "TAUPY_CUPTI": str(played_gpu / "libcupti.so.13"),
        }
        done = subprocess.run(
            ["bash", str(SCRIPT), "--dry", "--pair", kind],
            env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["recorded", "played"])
def kept(request, tmp_path_factory) -> Kept:
    is_played = request.param == "played"
    folder = tmp_path_factory.mktemp("kept")
    if is_played:
        calls = request.getfixturevalue("dry")
        archives = {kind: calls / f"callpair-{kind}.tar.gz" for kind in GPUS}
        assert pack.main(folder, archives) == 0
    elif all((RECORDED / f"{kind}.db.xz").exists() for kind in GPUS):
        folder = RECORDED
    else:
        pytest.skip("no two GPUs were recorded yet: docs/gpu-validation.md says how")
    work = tmp_path_factory.mktemp("databases")
    for kind in GPUS:
        unxz(folder / f"{kind}.db.xz", work / f"{kind}.db")
    done = taupy("merge", work / "h100.db", work / "h200.db", "--into", work / "both.db")
    assert done.returncode == 0, done.stderr
    return Kept(folder, work / "both.db", is_played)


def unxz(packed: Path, target: Path) -> None:
    target.write_bytes(lzma.decompress(packed.read_bytes()))


def views(kept: Kept, *command: str) -> list[dict]:
    done = taupy(*command, "--json", "--db", kept.database)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return found if isinstance(found, list) else [found]


def view(kept: Kept, title: str, *command: str) -> dict:
    (one,) = (each for each in views(kept, *command) if each["title"].startswith(title))
    return one


# ------------------------------------------------------------------------------- the recording

PLAYED = {
    "first", "second", "two_gpus", "two_gpus-trace", "two_gpus-no-pause", "two_gpus-roofline",
    "record", "without-operators",
}  # fmt: skip
"""Steps that the simulated driver can play."""


@pytest.mark.parametrize("kind", GPUS)
def test_what_can_be_played_of_a_call_goes_well(dry, kind):
    with tarfile.open(dry / f"callpair-{kind}.tar.gz") as packed:
        files = {
            Path(one.name).name: packed.extractfile(one).read().decode(errors="replace")
            for one in packed.getmembers()
            if one.isfile() and one.name.endswith((".log", "steps.txt"))
        }
    lines = [line.split() for line in files["steps.txt"].splitlines()]
    failed = {line[0]: files[f"{line[0]}.log"] for line in lines if line[2] != "0"}
    assert [step for step in failed if step in PLAYED] == [], failed
    expected = files["expected-two_gpus-trace.log"]
    assert len(re.findall("^ok +two_gpus-trace: ", expected, re.MULTILINE)) > 35
    assert not re.search("^DIFFERS (two_gpus-trace|first|second): ", expected, re.MULTILINE)
    for step, log in failed.items():
        assert "unknown option" not in log and "usage:" not in log, (step, log)


def test_what_is_kept_is_small_and_names_no_machine(kept):
    sizes = {path.name: path.stat().st_size for path in kept.folder.iterdir()}
    assert sum(sizes.values()) <= pack.AT_MOST
    assert {f"{kind}.db.xz" for kind in GPUS} | {f"{kind}_calls.tar.xz" for kind in GPUS} <= {
        *sizes
    }
    pack.check(pack.texts(kept.database), os.uname().nodename, "both.db")
    with ProfileDB.open(kept.database, readonly=True) as db:
        names = [trial.name for trial in db.trials()]
        facts = {name for (name,) in db.rows("SELECT DISTINCT name FROM metadata")}
    assert Counter(name.partition(" (")[0] for name in names) >= Counter(2 * pack.TRIALS)
    assert not facts & {"Hostname", "CWD", "Executable", "Git Commit"}


@pytest.mark.parametrize("left", ["/home/u/p.py", "see /srv/data/x for it", "the node gpu-node-7"])
def test_what_names_a_machine_is_refused(left):
    with pytest.raises(pack.Unfit, match=r"kernels\.db still has '(/|gpu-node-7)"):
        pack.check(iter(["aten::mm", left]), "gpu-node-7", "kernels.db")
    pack.check(iter(["taupy/engine.py", "1/s", "n / a", "text"]), "gpu-node-7", "kernels.db")


def test_a_call_that_lacks_a_trial_or_is_not_there_is_refused(dry, tmp_path, capsys):
    call = pack.unpacked(dry / "callpair-h100.tar.gz", tmp_path / "call")
    with pytest.raises(pack.Unfit, match=r"taupy\.db has no trial two_gpus#9$"):
        pack.database(call / "taupy.db", ("two_gpus#1", "two_gpus#9"), tmp_path / "t.db")
    assert pack.main(tmp_path / "kept", {"h100": tmp_path / "none.tar.gz"}) == 1
    assert capsys.readouterr().err == f"there is no {tmp_path / 'none.tar.gz'}\n"


# ------------------------------------------------------------------------------- the comparison


def by_operator(kept: Kept, one: str = ONE, other: str = OTHER) -> dict:
    return view(kept, "GPU WORK BY OPERATOR", "compare", one, other, "--by", "operator")


def test_all_operators_have_their_partner_on_the_other_gpu(kept):
    """What has no operator is the kernel that is loaded late, and those of graphs."""
    found = by_operator(kept)
    paired = next(note for note in found["notes"] if note.startswith("paired"))
    shares = [float(share) for share in re.findall(r"[AB] ([\d.]+) %", paired.split(";")[0])]
    assert len(shares) == 2 and min(shares) >= 99
    assert {row["in"] for row in found["rows"]} == {"all"}
    names = {row["short_name"] for row in found["rows"]}
    assert names >= {*two_gpus.expected()["operators"]}


def test_what_memory_bounds_is_faster_by_its_bandwidth_and_products_are_not(kept):
    """3352 of 4800 GB/s; the arithmetic of both is the same."""
    rows = {row["short_name"]: row for row in by_operator(kept)["rows"]}
    for operator in two_gpus.expected()["dram-bound"]:
        row = rows[operator]
        assert row["per_call_b_ns"] / row["per_call_a_ns"] == pytest.approx(0.70, abs=0.05)
        assert (row["verdict"], row["calls_a"], row["calls_b"]) == ("faster", RUNS, RUNS)
    for operator in two_gpus.expected()["products"]:
        assert 0.95 <= rows[operator]["ratio"] <= 1.02


def test_a_gpu_is_the_same_as_itself(kept):
    verdicts = Counter(row["verdict"] for row in by_operator(kept, ONE, ONE)["rows"])
    assert verdicts["same"] >= 5
    assert {*verdicts} <= {"same", ""}


def test_pivot_and_sql_have_the_numbers_of_compare(kept):
    rows = by_operator(kept)["rows"]
    (table,) = views(kept, "pivot", "--by", "operator,kind", "--columns", "gpu", "two_gpus#*")
    for side, gpu in zip(("a_ns", "b_ns"), GPUS.values(), strict=True):
        compared = {row["short_name"]: row[side] for row in rows}
        pivoted = {row["operator"]: row[gpu] for row in table["rows"] if row["kind"] == "gpu"}
        assert pivoted == pytest.approx(compared)
    sql = (
        "SELECT experiment, coalesce(operator, '(no operator)') AS operator, sum(time_ns) AS ns "
        "FROM operators WHERE trial LIKE 'two_gpus#%' GROUP BY trial_id, 1, 2"
    )
    (found,) = views(kept, "query", sql)
    for side, kind in zip(("a_ns", "b_ns"), GPUS, strict=True):
        times: dict[str, list[int]] = {}
        for row in found["rows"]:
            if row["experiment"] == kind:
                times.setdefault(row["operator"], []).append(row["ns"])
        medians = {operator: median(of_runs) for operator, of_runs in times.items()}
        assert medians == {row["short_name"]: row[side] for row in rows}


# --------------------------------------------------------------------------------- the timeline


@pytest.mark.parametrize("kind", GPUS)
def test_what_was_planned_is_in_the_trace(kept, kind):
    """Launches, copies, allocations, marks, ranges, operators, and where the GPU is idle."""
    profile = of_gpu(kept, kind, "two_gpus-trace")
    lines = list(trained(profile, two_gpus.expected()))
    assert [line for line in lines if not line.holds] == []
    assert len(lines) > 35


def of_gpu(kept: Kept, kind: str, trial: str):
    return stored(kept.database.parent / f"{kind}.db", trial)


@pytest.mark.parametrize("gpu", ["H100", "H200"])
def test_idle_time_has_the_planned_causes_and_adds_up(kept, gpu):
    (row,) = view(
        kept, "GPU ACTIVITY", "kernels", "--activity", f"two_gpus-trace,gpu={gpu}"
    )["rows"]  # fmt: skip
    parts = ("compute", "communication_only", "copies_only", "idle")
    assert sum(row[f"{part}_ns"] for part in parts) == row["span_ns"]
    causes = {cause: row[f"idle_{slug(cause)}_ns"] for cause in CAUSES}
    assert sum(causes.values()) == row["idle_ns"]
    for planned in two_gpus.PLAN:
        copies = planned.cause == "copies only"
        found = row["copies_only_ns"] if copies else causes[planned.cause]
        assert found > 0 and found >= planned.at_least_ns, planned


@pytest.mark.parametrize("kind", GPUS)
def test_without_the_sleep_its_step_is_shorter(kept, kind):
    """By what the GPU is idle in it, at least; played steps take what the machine lets them."""
    steps = [
        step_window(of_gpu(kept, kind, trial), WARM_UP + PAUSE_STEP)
        for trial in ("two_gpus-trace", "two_gpus-no-pause")
    ]
    with_pause, without = (end - begin for begin, end in steps)
    assert with_pause >= 20_000_000
    if not kept.is_played:
        assert with_pause - without >= 20_000_000


@pytest.mark.parametrize("kind", GPUS)
def test_torch_profiler_saw_the_same_launches_and_times(kept, kind, tmp_path):
    """Of four steps; of a played trial, the trace is its own as a file."""
    ours = of_gpu(kept, kind, "two_gpus-trace")
    if kept.is_played:
        trace = tmp_path / "trace.json.gz"
        exported = taupy(
            *("export", "--format", "chrome", "-o", trace, f"two_gpus-trace,gpu={kind.upper()}"),
            *("--db", kept.database),
        )
        assert exported.returncode == 0, exported.stderr
        within = None
    else:
        trace = kept.folder / f"{kind}_trace.json.gz"
        windows = [step_window(ours, WARM_UP + step) for step in KINETO_STEPS]
        within = windows[0][0], windows[-1][1]
    done = taupy("import", "--trace", trace, "--db", tmp_path / "t.db")
    assert done.returncode == 0, done.stderr
    theirs = stored(tmp_path / "t.db")
    launches, times = timed(ours, within)
    assert (launches, sum(launches.values()) > 100) == (timed(theirs, None)[0], True)
    whole = sum(times.values())
    for operator, time_ns in timed(theirs, None)[1].items():
        if time_ns > 0.01 * whole and operator != "":
            assert times[operator] == pytest.approx(time_ns, rel=0.03), operator


def timed(profile, within) -> tuple[Counter[str], Counter[str]]:
    """Launches of each kernel, and ns by the nearest operator, "" for none, within a window."""
    launches, times = Counter[str](), Counter[str]()
    for measured in profile.threads:
        for one in measured.activities if measured.thread.kind == "stream" else ():
            if one.kind != "kernel" or (within and not within[0] <= one.start_ns < within[1]):
                continue
            timers = [profile.timers[measured.tree.timer[one.row]]]
            row = one.row
            while (row := measured.tree.parent[row]) >= 0:
                timers.append(profile.timers[measured.tree.timer[row]])
            operators = [timer.name for timer in timers if "OPERATOR" in timer.groups]
            launches[re.sub(r"\s", "", timers[0].name)] += 1
            times[operators[0] if operators else ""] += one.end_ns - one.start_ns
    return launches, times


# ------------------------------------------------------------------------------------ counters


@pytest.mark.parametrize("kind", GPUS)
def test_the_flop_of_products_are_those_of_the_formula(kept, kind):
    """Two launches of each kernel, grid and call path were counted; they stand for the others."""
    profile = of_gpu(kept, kind, "two_gpus-roofline")
    expected = RUNS * two_gpus.expected()["flop_per_step"]["aten::mm"]
    if kept.is_played:  # the simulated counter of this metric: 19 for each ns
        sheet = datasheet(GPUS[kind])
        seconds = two_gpus.estimates(sheet.gpu)["products, forward"]
        expected = 19 * RUNS * 12 * round(1e9 * 0.1 * seconds / 4)
    found = 0.0
    for measured in profile.threads:
        tree = measured.tree
        for launch in measured.launches if measured.thread.kind == "stream" else ():
            timers, row = [], launch.row
            while (row := tree.parent[row]) >= 0:
                timers.append(profile.timers[tree.timer[row]])
            nearest = next((one.name for one in timers if "OPERATOR" in one.groups), "")
            if nearest == "aten::mm":
                counted = tree.exclusive["counted_launches"][launch.row]
                found += tree.exclusive["flop_tensor_bf16"][launch.row] * launch.count / counted
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("gpu", ["H100", "H200"])
def test_nothing_is_faster_than_the_roofs(kept, gpu):
    found = view(kept, "ROOFLINE", "roofline", f"two_gpus-roofline,gpu={gpu}")
    shares = [row["roof_share"] for row in found["rows"] if row["roof_share"] is not None]
    assert len(shares) >= 10
    assert max(shares) <= 1


def test_of_two_runs_with_counters_at_once_both_have_their_kernels(kept):
    for trial in pack.AT_ONCE:
        lines = list(refused(of_gpu(kept, "h100", trial)))
        assert [line for line in lines if not line.holds] == []


# ----------------------------------------------------------------------------------------- JAX


@pytest.mark.parametrize("trial", pack.JAX)
def test_all_work_of_jax_is_under_a_python_routine_and_autotuning_apart(kept, trial, tmp_path):
    if not (kept.folder / "jax.db.xz").exists():
        pytest.skip("JAX was not recorded")
    unxz(kept.folder / "jax.db.xz", tmp_path / "jax.db")
    profile = stored(tmp_path / "jax.db", trial)
    work = of_profile(profile)
    if kept.is_played:
        assert work.kernels == {}
        pytest.skip("JAX does not run on the simulated driver")
    assert share_with_owner(profile) == 1
    assert NO_OWNER not in {timer.name for timer in profile.timers}
    tuning = launches_under(profile, "backend_compile_and_load")
    assert tuning == 0 if trial == "jax-no-autotuning" else tuning > 0
    assert launches_under(profile, "train") >= 20


def launches_under(profile, routine: str) -> int:
    found = 0
    for measured in profile.threads:
        for launch in measured.launches if measured.thread.kind == "stream" else ():
            row, above = launch.row, set()
            while (row := measured.tree.parent[row]) >= 0:
                above.add(profile.timers[measured.tree.timer[row]].name)
            found += launch.count if routine in above else 0
    return found
