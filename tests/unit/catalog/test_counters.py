"""The catalogue of counters: every name is spelled for every chip, and says what it is not."""

from pathlib import Path

import pytest

from taupy.catalog import architectures, recorded, spelling
from taupy.catalog.counters import BY_NAME, COUNTERS
from taupy.catalog.ratios import RATIOS
from taupy.catalog.sets import SETS, expanded, of_ratio, sets
from taupy.errors import UsageError

VOLTA = {"GV100"}
NO_TENSOR = {"TU116", "TU117"}
TURING = {"TU102", "TU104", "TU106"} | NO_TENSOR
SHARED_MEMORY = {"GA10B", "GB10B", "GB20B"}
COUNTED = set(recorded.CHIPS) - set(recorded.UNANSWERED)
AMPERE = {name for name in COUNTED if name.startswith("GA")}
BLACKWELL = {name for name in COUNTED if name.startswith("GB")}

ABSENT = {
    "ldgsts": VOLTA | TURING,
    "tma_ld": COUNTED - {"GH100"} - BLACKWELL,
    "tma_st": COUNTED - {"GH100"} - BLACKWELL,
    "bytes_dram": SHARED_MEMORY,
    "dram_read_bytes": SHARED_MEMORY,
    "dram_write_bytes": SHARED_MEMORY,
    "flop_tensor": NO_TENSOR,
    "flop_tensor_fp64": VOLTA | TURING,
    "flop_tensor_tf32": VOLTA | TURING,
    "flop_tensor_bf16": VOLTA | TURING,
    "flop_tensor_fp16": NO_TENSOR,
    "flop_tensor_fp8": VOLTA | TURING | AMPERE,
    "flop_tensor_fp4": COUNTED - BLACKWELL,
    "flop_tensor_int8": VOLTA | NO_TENSOR,
}
"""Where the hardware has no such thing; every other counter is spelled for every chip."""


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_a_counter_is_spelled_for_every_chip_that_has_it(counter):
    missing = {chip for chip in COUNTED if spelling.spelled(counter.name, chip) is None}
    assert missing == ABSENT.get(counter.name, set())
    assert bool(counter.missing) == bool(missing)


def test_every_spelling_is_used_by_some_chip():
    for counter in COUNTERS:
        used = {spelling.spelled(counter.name, chip) for chip in COUNTED}
        for text in counter.spellings:
            assert spelling.terms(text) in used, text


def test_the_catalogue_knows_all_chips_of_the_record():
    assert {chip.name for chip in architectures.CHIPS} == set(recorded.CHIPS)
    assert len(recorded.CHIPS) == 30


def test_names_are_unique_and_a_legacy_name_means_one_counter():
    names = [counter.name for counter in COUNTERS] + [ratio.name for ratio in RATIOS]
    legacy = [one for counter in COUNTERS for one in counter.legacy]
    assert len(set(names)) == len(names)
    assert len(set(legacy)) == len(legacy)
    assert not set(legacy) & set(names)


def test_what_a_number_is_not_stands_with_it():
    for name, word in (
        ("gld", "LDGSTS"),
        ("gld", "TMA"),
        ("flop_fp16", "packed"),
        ("bytes_l1", "shared"),
        ("inst_tensor", "512"),
        ("counted_time", "clock"),
    ):
        assert word in BY_NAME[name].caution


@pytest.mark.parametrize(
    ("chip", "name", "weights"),
    [
        ("GH100", "flop_fp32", [1, 1, 2]),
        ("GB100", "flop_fp32", [1, 1, 2, 2, 2, 4]),
        ("GB202", "flop_fp32", [1, 1, 2]),
        ("GA100", "flop_fp16", [2, 2, 4]),
        ("GV100", "flop_fp64", [1, 1, 2]),
    ],
)
def test_a_fused_multiply_add_is_two_operations(chip, name, weights):
    assert [term.weight for term in spelling.spelled(name, chip)] == weights


def test_all_tensor_operations_of_a_type_are_part_of_the_sum():
    for chip in COUNTED - NO_TENSOR:
        whole = {term.metric for term in spelling.spelled("flop_tensor", chip)}
        parts = [
            {term.metric for term in found}
            for name in BY_NAME
            if name.startswith("flop_tensor_") and name != "flop_tensor_int8"
            if (found := spelling.spelled(name, chip))
        ]
        assert whole == set().union(*parts), chip
        assert sum(map(len, parts)) == len(whole), chip  # no type counts twice


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("inst_executed", "inst_executed"),
        ("CUDA.Tesla_P100-PCIE-16GB.domain_d.inst_executed", "inst_executed"),
        ("CUDA.Tesla_P100-PCIE-16GB.domain_q.active_cycles", "cycles_active"),
        ("global_load", "gld"),
        ("GLD_REQUEST", "gld"),
        ("gld_transactions", "gld_sectors"),
        ("flop_count_sp", "flop_fp32"),
        ("divergent_branch", "divergent_branch"),
        ("nothing", None),
    ],
)
def test_names_of_nvprof_and_tau_are_taken(name, meant):
    assert spelling.canonical(name) == meant


def test_a_plan_asks_for_each_metric_once_and_makes_our_counters_of_them():
    plan = spelling.plan(["gld", "gld_request", "flop_fp32", "dram__bytes.sum"], "GH100")
    assert [recipe.name for recipe in plan.recipes] == ["gld", "flop_fp32", "dram__bytes.sum"]
    assert len(plan.metrics) == len(set(plan.metrics)) == 5
    add, mul, fma = (metric for metric in plan.metrics if "_sass_" in metric)
    counted = {add: 3.0, mul: 5.0, fma: 7.0}
    assert plan.recipes[1].value(counted) == 3 + 5 + 2 * 7
    assert plan.recipes[0].value(counted) is None  # not counted is not 0


def test_what_a_chip_lacks_is_named_with_the_reason():
    plan = spelling.plan(["bytes_dram", "ldgsts", "gld"], "GA10B")
    assert plan.missing == (("bytes_dram", BY_NAME["bytes_dram"].missing),)
    assert [recipe.name for recipe in plan.recipes] == ["ldgsts", "gld"]


def test_a_name_that_is_none_is_refused_with_those_that_come_close():
    with pytest.raises(UsageError, match=r"no counter 'inst_exec'; near it: inst_executed"):
        spelling.plan(["inst_exec"], "GH100")


def test_a_chip_that_is_newer_than_the_record_takes_the_newest_spelling():
    found = spelling.spelled("flop_fp32", "GR100")
    assert found == spelling.terms(BY_NAME["flop_fp32"].spellings[0])


def test_values_of_a_file_become_our_counters_whatever_the_unit_they_stand_under():
    values = {
        "smsp__inst_executed.sum": 10.0,
        "sm__warps_launched.sum": 4.0,
        "dram__bytes_op_read.sum": 64.0,
        "dram__bytes_op_write.sum": float("nan"),
        "smsp__cycles_active.sum": 400.0,  # of four parts an SM: no count of SM cycles
    }
    assert spelling.measured(values) == {
        "inst_executed": 10.0,
        "warps_launched": 4.0,
        "dram_read_bytes": 64.0,
    }


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("dram__bytes.sum", "B"),
        ("dram__bytes.sum.per_second", "B/s"),
        ("sm__inst_executed.avg.per_cycle_active", "inst/cycle"),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", "%"),
        ("gpu__time_duration.sum", "ns"),
        ("sm__cycles_elapsed.max", "cycle"),
        ("smsp__warps_launched.sum", "warp"),
        ("sm__warps_active.avg.per_cycle_active", "warp"),
        ("sm__maximum_warps_per_active_cycle_pct", "%"),
        ("dram__bytes.sum.peak_sustained", "B/cycle"),
        ("something__else.sum", "count"),
    ],
)
def test_the_unit_of_a_perfworks_metric_comes_from_its_name(metric, unit):
    assert spelling.unit_of(metric) == unit


# --- chips -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("gh100", "GH100"),
        ("H200", "GH100"),
        ("9.0", "GH100"),
        ("sm_90", "GH100"),
        ("Hopper", "GH100"),
        ("A100", "GA100"),
        ("NVIDIA GeForce RTX 4060", "AD107"),
        ("sm_120", "GB202"),
        ("V100", "GV100"),
        ("NVIDIA H100 80GB HBM3", "GH100"),
        ("NVIDIA A100-SXM4-80GB", "GA100"),
        ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", "GA103"),
        ("5070", "GB205"),
    ],
)
def test_a_chip_goes_by_the_names_that_people_have_for_it(name, chip):
    assert architectures.chip(name).name == chip


def test_a_chip_that_is_none_is_refused_with_the_list():
    with pytest.raises(UsageError, match=r"no chip 'H10' .*GH100"):
        architectures.chip("H10")


def test_each_name_of_a_product_means_one_chip():
    names = [name for chip in architectures.CHIPS for name in chip.known_as]
    assert len(set(names)) == len(names)


# --- sets --------------------------------------------------------------------


def test_every_set_is_of_counters_that_there_are():
    for one in SETS:
        assert set(one.counters) <= BY_NAME.keys(), one.name


def test_the_set_tau_gives_all_ratios_of_the_slides():
    tau = set(next(one for one in SETS if one.name == "tau").counters)
    for name in ("warps_per_inst", "inst_per_gmem", "warps_per_gmem", "gld_per_inst",
                 "gst_per_inst", "ipc", "occupancy"):  # fmt: skip
        assert set(of_ratio(name)) <= tau, name


def test_a_name_may_be_a_set_a_ratio_a_counter_or_nvidias_own():
    assert expanded(["occupancy"])[:2] == ("warps_active", "warp_slots")
    assert expanded(["warps/inst", "gld_request", "lts__t_bytes.sum", "gld"]) == (
        "warps_launched",
        "inst_issued",
        "gld",
        "lts__t_bytes.sum",
    )
    assert "counted_time" in expanded(["flop_rate"])


def test_a_set_of_the_project_may_hold_sets_and_never_itself_for_ever():
    project = {"mine": ["tau", "bytes_dram", "mine_too"], "mine_too": ["mine", "gred"]}
    with pytest.raises(UsageError, match="no counter or set 'mine'"):
        expanded(["mine"], project)
    assert expanded(["mine"], {"mine": ["occupancy", "gred"]})[-1] == "gred"
    assert sets({"mine": ["gred"]})["mine"].user
    with pytest.raises(UsageError, match="mine is not a list"):
        sets({"mine": "gred"})


# --- the documents -----------------------------------------------------------

DOCS = Path(__file__).parents[3] / "docs"


def test_every_counter_and_set_stands_in_the_docs():
    text = (DOCS / "counters.md").read_text("utf-8")
    for name in (*BY_NAME, *(one.name for one in SETS)):
        short = "_" + name.removeprefix("flop_tensor_")
        assert f"`{name}`" in text or f"`{short}`" in text, name


def test_every_derived_metric_stands_in_the_docs():
    text = (DOCS / "derived-metrics.md").read_text("utf-8")
    for ratio in RATIOS:
        assert f"`{ratio.name}`" in text, ratio.name


def test_the_passes_in_the_docs_are_the_recorded_ones():
    text = (DOCS / "counters.md").read_text("utf-8")
    head, _, *lines = text[text.index("| set | for |") :].split("\n\n")[0].splitlines()
    chips = [architectures.chip(cell.strip().removeprefix("passes: ")).name
             for cell in head.split("|")[3:-1]]  # fmt: skip
    assert len(chips) == 7 and len(lines) == len(SETS)
    for line in lines:
        _, name, _, *passes, _ = (cell.strip().strip("`") for cell in line.split("|"))
        assert [int(cell) for cell in passes] == [
            spelling.recorded_passes(name, chip) for chip in chips
        ], name
