"""The gate for machine code: two files, kernel by kernel, without a GPU."""

from __future__ import annotations

import json

import pytest

from taupy.errors import UsageError
from taupy.study import conditions as gate
from taupy.study import kernel_gate
from taupy.study.gate import conclusion
from taupy.study.kernel_gate import CodeSide
from tests.in_process import taupy
from tests.kernel_codes import code, spill
from tests.unit.static.test_reading import KERNELS, NEEDED


def judged(old, new, *conditions):
    pairs, _ = kernel_gate.pairs(CodeSide("old", tuple(old)), CodeSide("new", tuple(new)))
    judgement = kernel_gate.judge(pairs, [gate.parse(text) for text in conditions])
    found = {(one.condition.text, one.name): one.verdict for one in judgement.judged}
    return found, conclusion(judgement).code, judgement.apart


def test_registers_may_grow_up_to_the_limit_and_no_further():
    old, same, more = code(registers=16), code(registers=24), code(registers=25)
    assert judged([old], [same], "registers > +8")[1] == 0
    found, exit_code, _ = judged([old], [more], "registers > +8")
    assert found == {("registers > +8", "saxpy (8.0)"): "fails"} and exit_code == gate.FAILED
    assert judged([old], [same], "registers > +50%")[1] == 0
    assert judged([old], [more], "registers > +50%")[1] == gate.FAILED


def test_a_limit_on_the_value_itself_judges_new_kernels_too():
    found, exit_code, apart = judged(
        [code()], [code(), code("fresh", accesses=(spill(2),))], "spills > 0", "registers > +0"
    )
    assert found["spills > 0", "fresh (8.0)"] == "fails" and exit_code == gate.FAILED
    assert apart == ["'registers > +0': not judged, because on one side only: fresh (8.0)"]


def test_a_condition_that_judges_no_kernel_is_not_passed():
    found, exit_code, _ = judged([code("gone")], [code("fresh")], "registers > +8", "spills > 0")
    assert found["registers > +8", "(nothing)"] == "undecided" and exit_code == gate.UNDECIDED
    assert found["spills > 0", "fresh (8.0)"] == "passes"


def test_what_the_code_does_not_determine_is_undecided_and_not_zero():
    assert judged([code()], [code(peak_live=None)], "live > 20")[1] == gate.UNDECIDED


def test_kernels_go_together_by_name_as_everywhere():
    old = code("_Z4gemmILi4EEvPf")  # gemm<4>
    new = code("_Z4gemmILi8EEvPf", registers=40)  # gemm<8>
    found, *_ = judged([old], [new], "registers > +8")
    assert list(found.values()) == ["fails"]


def test_kernels_that_differ_in_template_arguments_only_are_distinguished():
    both = [code("_Z4gemmILi4EEvPf"), code("_Z4gemmILi8EEvPf"), code()]
    found, *_ = judged(both, both, "registers > +8")
    assert {name for _, name in found} == {"gemm<4> (8.0)", "gemm<8> (8.0)", "saxpy (8.0)"}


def test_one_chip_may_stand_beside_another():
    found, *_ = judged([code(chip="8.0")], [code(chip="9.0", registers=30)], "registers > +8")
    assert found == {("registers > +8", "saxpy (8.0, 9.0)"): "fails"}
    with pytest.raises(UsageError, match="FILE@sm_80 FILE@sm_90"):
        judged([code(chip="8.0"), code(chip="8.6")], [code(chip="9.0")], "registers > +8")


def test_conditions_that_mean_nothing_name_what_there_is():
    with pytest.raises(UsageError, match=r"code has no time \(it has: registers, live, spills"):
        judged([code()], [code()], "time > +5%")
    with pytest.raises(UsageError, match="no kernel matches 'gemm'"):
        judged([code()], [code()], "registers of gemm > +5%")


def test_the_total_is_over_all_kernels():
    old = [code("a", instructions=10), code("b", instructions=20)]
    new = [code("a", instructions=20), code("b", instructions=11)]
    found, exit_code, _ = judged(old, new, "total instructions > +0")
    assert found == {("total instructions > +0", "total"): "fails"} and exit_code == gate.FAILED


def variants(**values):
    """Kernels of one name, as Triton compiles them for other types."""
    (name, numbers) = values.popitem()
    return [code(**{name: number}) for number in numbers]


@pytest.mark.parametrize(
    ("old", "new", "condition", "verdict"),
    [
        ([255, 100], [100, 255], "registers > +8", "passes"),
        ([255, 100], [255, 120], "registers > +8", "fails"),  # hidden behind a larger one
        ([255, 100], [255, 80], "registers < -8", "fails"),
        ([255], [255, 100], "registers > +8", "passes"),  # one more variant
        ([255, 100], [255], "registers > +8", "passes"),
        ([255], [255, 100], "registers < 128", "fails"),
        ([255, 100], [255, None], "registers > +8", "undecided"),
    ],
)
def test_each_of_several_kernels_of_one_name_is_judged(old, new, condition, verdict):
    found, *_ = judged(variants(registers=old), variants(registers=new), condition)
    assert found == {(condition, "saxpy (8.0)"): verdict}


def test_a_total_that_the_code_does_not_determine_is_undecided():
    _, exit_code, _ = judged([code()], [code(stack_bytes=None)], "total stack > +0")
    assert exit_code == gate.UNDECIDED


@NEEDED
@pytest.mark.parametrize("other", ["missing.cubin", "1"])
def test_beside_a_file_with_code_a_missing_file_is_named(other):
    failed = taupy("compare", other, KERNELS / "saxpy.fatbin", "--fail-on", "spills > 0")
    assert failed.returncode == 1 and f"there is no file {other}" in failed.stderr


@pytest.mark.slow
@NEEDED
def test_the_command_compares_two_chips_of_one_file():
    file = KERNELS / "saxpy.fatbin"
    shown = taupy("compare", f"{file}@sm_80", f"{file}@9.0", "--fail-on", "spills > 0", "--json")
    assert shown.returncode == 0, shown.stderr
    gate_view, table = json.loads(shown.stdout)
    assert gate_view["title"] == "GATE PASSED: spills > 0"
    (row,) = table["rows"]
    assert (row["name"], row["chip_a"], row["chip_b"], row["fp32_b"]) == ("saxpy", "8.0", "9.0", 1)
    failed = taupy("compare", f"{file}@sm_80", f"{file}@9.0", "--fail-on", "instructions > +0")
    assert failed.returncode == gate.FAILED and "GATE FAILED" in failed.stdout
    assert "two by two" in taupy("compare", file, file, file).stderr
