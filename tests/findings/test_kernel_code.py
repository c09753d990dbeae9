"""Findings from the code of a trial's kernels, where it was stored."""

from __future__ import annotations

from dataclasses import replace

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


def gathering() -> object:
    """A training whose GPU is busy with `gather`, on 9.0."""
    return training(
        part("step", "embed", own=us(100), calls=[
            api("cudaLaunchKernel", 20, us(5), kernel("gather", 20, us(400)))]),
        part("step", "end", calls=[api("cudaStreamSynchronize", 1, us(7800))]),
    )  # fmt: skip


def of_code(tmp_path, *codes):
    """The findings of that kind in a database with these codes."""
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        add_profile(db, gathering())
        list(kernel_codes.storing(db, codes))
        findings = report(db, db.latest()).judgement.findings
    return [finding for finding in findings if finding.kind == "kernel's code"]


def test_strides_and_spills_are_found_with_a_bound(tmp_path):
    (strided,) = of_code(tmp_path, code("gather", chip="9.0", accesses=(STRIDED,)))
    assert "gather takes" in strided.sentence
    assert "4 loads of 4 bytes from global memory, 128 bytes apart" in strided.sentence
    assert strided.confidence == "low"
    # An eighth of the traffic is used, and the GPU is busy for 1.6 s: 1.4 s at most.
    assert 1.2e9 < strided.saved_ns <= 1.4e9


def test_spills_in_a_loop_are_found(tmp_path):
    (spills,) = of_code(tmp_path, code("gather", chip="9.0", **SPILLING))
    assert "40 instructions spill 160 bytes per thread" in spills.sentence


def test_nothing_is_found_without_code_or_in_code_that_is_well(tmp_path):
    assert of_code(tmp_path) == []
    fine = code("gather", chip="9.0", registers=128, accesses=(access(number=4),))
    other_chip = replace(fine, chip="8.0", module="1" * 64, accesses=(STRIDED,))
    other_name = code("scatter", chip="9.0", accesses=(STRIDED,))
    assert of_code(tmp_path, fine, other_chip, other_name) == []


def test_code_changes_nothing_for_a_trial_without_a_gpu(tmp_path):
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        list(kernel_codes.storing(db, [code("gather", chip="9.0", accesses=(STRIDED,))]))
        add_profile(db, training(part("step", "work", own=us(1000))))
        assert report(db, db.latest()).judgement.findings == []
