"""Findings from the code of a trial's kernels, where it was stored (pairs: `test_gpu_pairs.py`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taupy.model.kernel_code import KernelCode
from taupy.model.profile import Profile
from taupy.profiledb import kernel_codes
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report.report import report
from tests.findings.trainings import api, kernel, part, training, us
from tests.kernel_codes import access, code, count, spill

STRIDED = access(pattern="strided", stride=128, number=4)
SPILLING = {
    "counts": (count("fp32", 60, 1), count("load", 40, 1, "local 4")),
    "accesses": (spill(40, depth=1),),
}


def gathering(name: str = "gather", each_us: float = 400) -> Profile:
    """A training whose GPU is busy with `gather`, on 9.0."""
    return training(
        part("step", "embed", own=us(100), calls=[
            api("cudaLaunchKernel", 20, us(5), kernel(name, 20, us(each_us)))]),
        part("step", "end", calls=[api("cudaStreamSynchronize", 1, us(20 * each_us - 200))]),
    )  # fmt: skip


def of_code(tmp_path, *codes, profile: Profile | None = None):
    """The findings of that kind in a database with these codes."""
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        add_profile(db, profile or gathering())
        list(kernel_codes.storing(db, codes))
        findings = report(db, db.latest()).judgement.findings
    return [finding for finding in findings if finding.kind == "kernel's code"]


def loads(name: str, *accesses, **more) -> KernelCode:
    return code(name, chip="9.0", accesses=accesses, **more)


LOOK_ALIKES = {
    "contiguous": loads("gather", access(number=4), registers=128),
    "a_padded_tile": loads("gather", access(space="shared", pattern="strided", stride=132)),
    "all_threads_alike": loads("gather", access(pattern="same", depth=1, number=8)),
    "a_few_spills": loads("gather", spill(4), counts=(count("fp32", 200), count("load", 4))),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_nothing_is_found_in_code_that_is_well(name, tmp_path):
    assert of_code(tmp_path, LOOK_ALIKES[name]) == []


def test_strides_and_spills_are_found_with_a_bound(tmp_path):
    (strided,) = of_code(tmp_path, code("gather", chip="9.0", accesses=(STRIDED,)))
    assert "gather takes" in strided.sentence
    assert "4 loads of 4 bytes from global memory, 128 bytes apart" in strided.sentence
    assert strided.confidence == "low"
    # An eighth of the traffic is used, which may then fit into the L2 cache, three times as fast;
    # the GPU is busy for 1.6 s.
    assert strided.saved_ns == pytest.approx(1.6e9 * (1 - 1 / 24))


def test_spills_in_a_loop_are_found(tmp_path):
    (spills,) = of_code(tmp_path, code("gather", chip="9.0", **SPILLING))
    assert "40 instructions spill 160 bytes per thread" in spills.sentence


def test_nothing_is_found_without_code_or_in_code_of_others(tmp_path):
    assert of_code(tmp_path) == []
    fine = LOOK_ALIKES["contiguous"]
    other_chip = replace(fine, chip="8.0", module="1" * 64, accesses=(STRIDED,))
    other_name = code("scatter", chip="9.0", accesses=(STRIDED,))
    assert of_code(tmp_path, fine, other_chip, other_name) == []


def test_code_changes_nothing_for_a_trial_without_a_gpu(tmp_path):
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        list(kernel_codes.storing(db, [code("gather", chip="9.0", accesses=(STRIDED,))]))
        add_profile(db, training(part("step", "work", own=us(1000))))
        assert report(db, db.latest()).judgement.findings == []
