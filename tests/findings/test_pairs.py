"""Twins that do what the advice says: they do the same, and the fault is gone."""

from __future__ import annotations

import re

import pytest

from tests.findings import pairs
from tests.findings.cases import INDEPENDENT, PROGRAMS

KINDS = {name: kind for name, (kind, _) in (PROGRAMS | INDEPENDENT).items()}
QUICK = {"histogram_by_hand", "codec_at_each_call", "letters_from_text", "average_so_far"}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in (*pairs.PAIRS, *pairs.MODULES.values())
    ],
)
def test_a_twin_that_does_what_the_advice_says_is_free_of_the_fault(name, tmp_path):
    pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    pairs.skip_without_packages(pairs.faulty(name) / f"{name}.py")
    before, after = pairs.both(tmp_path, name)
    outputs = [pairs.cost(folder, name).output for folder in (before, after)]
    assert NUMBER.sub("#", outputs[0]) == NUMBER.sub("#", outputs[1])
    numbers = [[float(number) for number in NUMBER.findall(output)] for output in outputs]
    assert numbers[1] == pytest.approx(numbers[0], rel=1e-4)
    findings = pairs.measured(after, f"{name}.py").judgement.findings
    assert KINDS[name] not in [finding.kind for finding in findings]
