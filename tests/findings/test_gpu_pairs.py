"""Advice on GPUs, tried on an H100 (`tests/gpu/pairs`): what was measured there, judged again."""

from __future__ import annotations

import json
import tarfile
import threading
from pathlib import Path

import pytest

from taupy.profiledb import gpu_query, roofline_query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.roofline.points import points
from tests.builders import gpu_profile
from tests.gpu.pairs import try_pairs
from tests.gpu.pairs.try_pairs import CODE, PAIRS, NotTried, result, row, saved

DATA = Path(__file__).parents[1] / "data"
MEASURED = DATA / "findings" / "h100_pairs.tar.xz"
AGAIN = DATA / "gpu-pairs" / "pairs.tar.xz"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("h100")
    with tarfile.open(MEASURED) as archive:
        archive.extractall(folder, filter="data")
    return folder


TO_BE_RECORDED_AGAIN = {
    "layouts_changed": "layouts_changed-mended has no launches",
    "casts_around_layers": "casts_around_layers-mended has no launches",
}
"""Four programs ran at once, and of these two twins the GPU's counters were refused, so that
nothing of their GPU work was recorded. That their faults are gone has not been seen."""


@pytest.mark.parametrize("name", sorted({*PAIRS, *CODE} - {*TO_BE_RECORDED_AGAIN}))
def test_the_fault_is_named_and_its_twin_saves_no_more_than_the_finding_allows(name, measured):
    is_named_and_bounded(name, measured)


@pytest.mark.parametrize("name", TO_BE_RECORDED_AGAIN)
def test_so_it_is_in_the_two_pairs_that_are_recorded_again(name, tmp_path):
    if not AGAIN.exists():
        pytest.skip("they were not recorded again yet: docs/gpu-validation.md says how")
    with tarfile.open(AGAIN) as archive:
        archive.extractall(tmp_path, filter="data")
    is_named_and_bounded(name, tmp_path / "pairs")


def is_named_and_bounded(name, folder):
    got = result(folder / "pairs.db", name)
    before_s, saved_s = saved(json.loads((folder / "seconds.json").read_text())[name])
    assert got.place in (1, 2)
    assert 0.1 * before_s < saved_s <= got.at_most_s
    assert got.left_s < 0.1 * got.at_most_s


@pytest.mark.parametrize(("name", "reason"), TO_BE_RECORDED_AGAIN.items())
def test_a_twin_without_gpu_work_shows_nothing(name, reason, measured):
    with pytest.raises(NotTried, match=reason):
        result(measured / "pairs.db", name)
    line = row(measured, name, json.loads((measured / "seconds.json").read_text())[name])
    assert line.endswith(f"; NOT TRIED: {reason}")


def test_no_verdict_and_no_trial_are_no_success(tmp_path):
    """Its flop were not counted, so that the rule does not judge it."""
    for name, says in (
        ("layouts_changed", "there is no trial layouts_changed-fault"),
        ("optimizer_by_parameter", "there is no trial optimizer_by_parameter-mended"),
        ("casts_around_layers", "no verdict on kernels without flop: no flop were counted"),
    ):
        with ProfileDB.open(tmp_path / f"{name}.db", create=True, readonly=False) as db:
            twins = {"casts_around_layers": ("fault", "mended"), "layouts_changed": ()}
            for number, twin in enumerate(twins.get(name, ("fault",))):
                profile = gpu_profile(number, name=f"{name}-{twin}")
                add_profile(db, profile)
        with pytest.raises(NotTried, match=says):
            result(tmp_path / f"{name}.db", name)


def test_programs_whose_kernels_are_counted_run_alone(monkeypatch, tmp_path):
    """The GPU's counters serve one process. Each run lasts until it has company, or a moment."""
    running, company, lock = set(), {}, threading.Condition()

    def played(folder, name, twin):
        with lock:
            running.add((name, twin))
            lock.notify_all()
            lock.wait_for(lambda: len(running) > 1, timeout=0.05)
            company[name, twin] = len(running)
        with lock:
            lock.wait(0.01)
            running.remove((name, twin))

    monkeypatch.setattr(try_pairs, "measure", played)
    names = ["layouts_changed", "loss_each_step", "casts_around_layers", "labels_one_by_one"]
    try_pairs.measure_all(tmp_path, names)
    assert len(company) == 8
    for (name, _), number in company.items():
        assert number == 1 if PAIRS[name].options else number > 1


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, pair in PAIRS.items()
        if pair.kind in ("copies", "host slower than GPU", "synchronisation")
    ],
)
def test_a_place_is_a_routine_of_the_program(name, measured):
    """Most of the time is PyTorch's or CuPy's, and all calls of CUDA are."""
    assert f"({name}.py:" in result(measured / "pairs.db", name).sentence


@pytest.mark.parametrize(
    "name", [name for name, pair in PAIRS.items() if pair.kind == "tensor cores unused"]
)
def test_start_and_end_of_a_program_are_no_fault(name, measured):
    """These keep the GPU busy in their loops. To create a CUDA context takes half a second, in
    which it is idle, and each waits for it once, at its end."""
    assert result(measured / "pairs.db", name).others[0] in ([], ["step time"])


def test_shares_of_the_time_count_launches_that_were_not_counted(measured):
    """Two launches of each kernel and call path were counted and timed, of thousands."""
    with ProfileDB.open(str(measured / "pairs.db"), readonly=True) as db:
        (trial,) = (trial for trial in db.trials() if trial.name == "layouts_changed-fault")
        rows = gpu_query.kernels(gpu_query.launched(db, trial.id))
        (work,) = roofline_query.trial_work(db, [trial])
    assert sum(row.untimed for row in rows) > 10_000
    assert sum(row.percent for row in rows) == pytest.approx(100)
    copies = next(row for row in rows if "direct_copy_kernel" in row.timer)
    assert copies.calls == 7206 and copies.percent == pytest.approx(67, abs=2)
    shares = {one.name: 100 * one.share for one in points(work, "kernel")}
    expected = {row.timer: row.percent for row in rows if "GPU_KERNEL" in row.groups}
    assert shares == pytest.approx(expected, rel=0.05, abs=0.1)
