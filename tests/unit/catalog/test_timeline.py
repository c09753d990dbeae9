"""What can be sampled: names, the chips' spellings, rates; against NVIDIA's own library."""

import pytest

from taupy.catalog import recorded, timeline
from taupy.catalog.timeline import Channel, adds_up, fitting, names_of, plan
from taupy.collectors.cupti_host import PM_SAMPLING, CuptiError, CuptiHost, CuptiUnavailable
from taupy.errors import UsageError


def everything(metric):
    return True


def test_names_and_sets_become_names_each_once():
    assert names_of(["sm_active", "timeline"])[:3] == ("sm_active", "sm_occupancy", "tensor_active")
    assert names_of(["gst_request", "ipc"]) == ("gst", "inst_executed", "cycles_active")
    project = {"mine": ["sm_clock", "bytes_dram", "mine"], "timeline": ["sm_clock"]}
    with pytest.raises(UsageError, match="nothing 'mine'"):
        names_of(["mine"], project)
    project["mine"].pop()
    assert names_of(["mine", "timeline"], project) == ("sm_clock", "bytes_dram")
    with pytest.raises(UsageError, match="near it: sm_active"):
        names_of(["sm_actve"])


def test_what_adds_up_over_time_becomes_a_rate():
    found = plan(["dram_read_bytes", "sm__cycles_active.avg", "sm_active"], "AD102", everything)
    sampled = dict.fromkeys(found.metrics, 3.0)
    assert [
        (channel.name, channel.unit, channel.value(sampled, 2_000_000))
        for channel in found.channels
    ] == [
        ("dram_read_bytes", "B/s", 1500.0),
        ("sm__cycles_active.avg", "cycle/s", 1500.0),
        ("sm_active", "%", 3.0),
    ]
    no_time = found.channels[0].value(sampled, 0)
    assert no_time != no_time


@pytest.mark.parametrize(
    ("metric", "sums"),
    [
        ("dram__bytes.sum", True),
        ("sm__warps_active.sum.peak_sustained_active", True),
        ("sm__warps_active.sum.peak_sustained", False),
        ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", False),
        ("dram__bytes.sum.per_second", False),
        ("smsp__inst_executed.sum.per_cycle_active", False),
        ("lts__t_sector_hit_rate.pct", False),
        ("gpu__dram_throughput.max", False),
        ("smsp__thread_inst_executed_per_inst_executed.ratio", False),
    ],
)
def test_rates_are_distinguished_from_sums_by_name(metric, sums):
    assert adds_up(metric) is sums


def test_weights_of_a_spelling_count():
    (channel,) = plan(["flop_fp32"], "GA102", everything).channels
    assert channel.value(dict.fromkeys([t.metric for t in channel.terms], 1.0), 10**9) == 4.0
    assert isinstance(channel, Channel)


def test_the_first_that_fit_together_are_kept():
    def passes(metrics):  # "b" needs a pass of its own
        return 2 if "b" in metrics and len(metrics) > 1 else 1

    assert fitting(["a", "b", "c"], passes) == ("a", "c")


@pytest.fixture(scope="module")
def host():
    try:
        found = CuptiHost.open()
    except CuptiUnavailable as problem:
        pytest.skip(str(problem))
    if f"CUPTI {found.version_text}" != recorded.SOURCE:
        pytest.skip(f"this is CUPTI {found.version_text}, not {recorded.SOURCE}")
    return found


NO_MEMORY = {"GA10B", "GB10B", "GB20B"}  # of their own


@pytest.mark.parametrize("name", recorded.CHIPS)
def test_the_timeline_takes_one_pass_on_every_chip_by_nvidias_own_account(host, name):
    if name in ("GV100", "GV11B"):
        with pytest.raises(CuptiError):
            host.chip(name, PM_SAMPLING)
        return
    with host.chip(name, PM_SAMPLING) as chip:
        found = plan(names_of(["timeline"]), name, lambda metric: chip.passes([metric]) == 1)
        assert chip.passes(found.metrics) == 1
    missing = {one for one, _ in found.missing}
    assert not missing & {"sm_active", "sm_occupancy", "gpu_active", "bytes_l2", "sm_clock"}
    assert ("dram_read_bytes" in missing) == (name in NO_MEMORY)
    assert ("tensor_active" in missing) == (name in ("TU102", "TU104", "TU106"))


def test_every_name_of_ours_is_sampled_by_some_chip(host):
    found = set()
    for name in ("GH100", "AD102"):
        with host.chip(name, PM_SAMPLING) as chip:
            for one in timeline.SAMPLED:
                found |= {one.name for s in one.spellings if chip.passes([s]) == 1}
    assert found == timeline.BY_NAME.keys()
