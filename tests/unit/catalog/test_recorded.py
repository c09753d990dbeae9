"""What is recorded of NVIDIA's metric database is what the database says.

Where CUPTI is installed (nvidia-cuda-cupti==13.0.85 needs neither GPU nor driver) it is asked;
else these tests are skipped, and the rest of the catalogue's tests stand on the record.
"""

import pytest

from taupy.catalog import recorded, spelling
from taupy.catalog.counters import COUNTERS
from taupy.catalog.ratios import RATIOS
from taupy.catalog.sets import SETS, of_ratio
from taupy.collectors.cupti_host import CuptiError, CuptiHost, CuptiUnavailable


@pytest.fixture(scope="module")
def host():
    try:
        found = CuptiHost.open()
    except CuptiUnavailable as problem:
        pytest.skip(str(problem))
    if f"CUPTI {found.version_text}" != recorded.SOURCE:
        pytest.skip(f"this is CUPTI {found.version_text}; the record is of {recorded.SOURCE}")
    return found


def chip_of(host, name):
    try:
        return host.chip(name)
    except CuptiError:
        return None


def test_the_chips_are_those_of_the_library(host):
    assert tuple(host.chips()) == recorded.CHIPS


@pytest.mark.parametrize("name", recorded.CHIPS)
def test_every_metric_of_the_catalogue_is_there_exactly_where_it_is_recorded(host, name):
    chip = chip_of(host, name)
    if chip is None:
        assert name in recorded.UNANSWERED
        return
    with chip:
        there = [metric for metric in recorded.METRICS if spelling.has(name, metric)]
        assert chip.passes(there) is not None  # one that is unknown would spoil all
        for metric in recorded.METRICS.keys() - set(there):
            assert not chip.has(metric), metric


@pytest.mark.parametrize("name", ["GV100", "TU102", "GA100", "AD102", "GH100", "GB100", "GB202"])
def test_passes_are_those_that_are_recorded(host, name):
    with host.chip(name) as chip:
        for counter in COUNTERS:
            found = spelling.spelled(counter.name, name)
            passes = chip.passes([term.metric for term in found]) if found else None
            assert passes == spelling.recorded_passes(counter.name, name), counter.name
        for one in SETS:
            plan = spelling.plan(one.counters, name)
            assert chip.passes(plan.metrics) == spelling.recorded_passes(one.name, name), one.name


def test_each_ratio_of_the_gpu_takes_one_or_two_passes_on_a_hopper(host):
    with host.chip("GH100") as chip:
        for ratio in RATIOS:
            counters = of_ratio(ratio.name)
            if counters and "flop_tensor" not in counters:
                passes = chip.passes(spelling.plan(counters, "GH100").metrics)
                assert passes in (1, 2), ratio.name


def test_a_metric_that_is_none_is_not_there(host):
    with host.chip("GH100") as chip:
        assert not chip.has("dram__bites.sum")
        assert chip.properties("dram__bites.sum") is None
        assert chip.properties("dram__bytes.sum").unit == "byte"
        assert chip.submetrics("dram__bites") == []
        assert ".sum" in chip.submetrics("dram__bytes")
        assert "sm__inst_executed" in chip.base_metrics()
    chip.close()  # a second time does no harm


def test_a_chip_that_is_none_is_an_error(host):
    with pytest.raises(CuptiError):
        host.chip("GX999")


# --- without the library -----------------------------------------------------


def test_the_record_has_a_column_for_each_chip():
    columns = {**recorded.COUNTER_PASSES, **recorded.SET_PASSES}
    assert columns.keys() == {one.name for one in (*COUNTERS, *SETS)}
    for name, text in columns.items():
        assert len(text.split()) == len(recorded.CHIPS), name


def test_a_counter_has_passes_exactly_on_the_chips_that_have_it():
    for counter in COUNTERS:
        for chip in recorded.CHIPS:
            there = spelling.spelled(counter.name, chip) is not None
            assert there == (spelling.recorded_passes(counter.name, chip) is not None)


def test_the_passes_of_the_main_sets_are_those_that_were_measured_once():
    """By an earlier program, from the same database, for the same lists of metrics."""
    for chip in ("GV100", "TU102", "GA100", "AD102", "GH100", "GB100", "GB202"):
        assert spelling.recorded_passes("tau", chip) == 2
        assert spelling.recorded_passes("roofline", chip) == 2
    assert spelling.recorded_passes("tau", "GX999") is None
    assert spelling.recorded_passes("nothing", "GH100") is None
