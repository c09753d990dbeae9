"""Which counters are used: those that fit, open, count all the time and count right."""

from __future__ import annotations

import errno

import pytest

from taupy.catalog import cpu_events
from taupy.catalog.cpu_events import HARDWARE, RAW, Cpu, Event
from taupy.collectors import perf_events

ZEN5 = Cpu("AuthenticAMD", 26, 2, "AMD EPYC", frozenset({"avx2", "fma", "avx512f"}))
ZEN5_GUEST = ZEN5._replace(flags=ZEN5.flags | {"hypervisor"})
SKYLAKE_X = Cpu("GenuineIntel", 6, 85, "Xeon", frozenset({"avx", "avx2", "fma", "avx512f"}))
HASWELL_LIKE = SKYLAKE_X._replace(flags=frozenset({"avx", "avx2", "fma"}))
ARM = Cpu()

FLOP = {"scalar": 8, "fma256": 64, "fma512": 128}


class Machine:
    """A processor with counters, as `counters_try` shows it."""

    def __init__(self, rdpmc=True, ns=90.0, scale=None, running=1.0, jump=False, refuse=None):
        self.rdpmc, self.ns, self.running, self.jump = rdpmc, ns, running, jump
        self.scale = scale or {}  # config -> what it counts too much
        self.refuse = refuse or {}  # config -> errno
        self.asked: list[tuple[str, bool, int]] = []

    def __call__(self, events, work, count, rounds, rdpmc):
        for position, (_, config, _, _) in enumerate(events):
            if config in self.refuse:
                raise OSError(self.refuse[config], "refused", position)
        self.asked.append((work, rdpmc, len(events)))
        values = [self.value(kind, config, work, count) for kind, config, _, _ in events]
        if self.jump:
            values[-1] += 1 << 47
        return {
            "values": [values] * rounds,
            "enabled_ns": 1000,
            "running_ns": int(1000 * self.running),
            "rdpmc": rdpmc and self.rdpmc,
            "ns": self.ns,
        }

    def value(self, kind, config, work, count):
        value = 0
        if kind == RAW and config & 0xFF in (0x03, 0xC7) and work in FLOP:
            # On Intel each width is an event of its own: here only that of the work counts,
            # an FMA twice.
            lanes = {"scalar": 0x03, "fma256": 0x18, "fma512": 0x60}[work]
            if config & 0xFF == 0x03:
                value = FLOP[work] * count
            elif config >> 8 == lanes:
                value = {"scalar": 8, "fma256": 16, "fma512": 16}[work] * count
        elif kind == HARDWARE and work in FLOP:
            value = {0: 4, 1: 10, 4: 1}.get(config, 0) * count
        elif (config, work) in ((0x1_0000_0865, "lines"), (2, "pages")):
            value = count
        return int(value * self.scale.get(config, 1))


def prepared(names, machine, cpu=ZEN5, at="auto", **more):
    return perf_events.prepare(names, at, cpu=cpu, try_=machine, **more)


def names(answer):
    return [name for name, _ in answer.metrics]


def test_counters_that_pass_are_described_to_the_engine():
    answer = prepared(["flop", "instructions"], Machine())
    assert answer.metrics == [("flop", "flop"), ("instructions", "count")]
    assert answer.events == [(RAW, 0x1F03, 1, 0), (HARDWARE, 1, 1, 1)]
    assert answer.at_calls and answer.by_rdpmc and answer.notes == []
    assert answer.engine_options()["counter_metrics"] == answer.metrics
    assert "flop fma512 1.0000" in answer.facts["taupy.counters.self_test"]


def test_both_ways_of_reading_are_tested():
    machine = Machine()
    prepared(["flop"], machine)
    assert {("fma256", False, 1), ("fma256", True, 1)} <= set(machine.asked)


@pytest.mark.parametrize("off", [0.98, 1.02, 2.0, 0.0])
def test_a_counter_off_by_more_than_a_percent_is_dropped_and_the_others_kept(off):
    answer = prepared(["flop", "instructions"], Machine(scale={0x1F03: off}))
    assert names(answer) == ["instructions"]
    assert answer.notes[0].startswith("flop: not counted, since known work of 160000 flop")


@pytest.mark.parametrize("off", [0.992, 1.008])
def test_a_counter_off_by_less_is_kept(off):
    assert names(prepared(["flop"], Machine(scale={0x1F03: off}))) == ["flop"]


@pytest.mark.parametrize("fault", [{"running": 0.5}, {"jump": True}])
def test_multiplexed_or_impossible_values_drop_all_counters_of_the_processor(fault):
    answer = prepared(["flop", "instructions", "page_faults"], Machine(**fault))
    assert "flop" not in names(answer) and "instructions" not in names(answer)
    assert "flop, instructions" in answer.notes[0]


def test_in_a_virtual_amd_machine_three_events_are_the_most():
    wanted = ["flop", "instructions", "cycles", "branch_misses"]
    answer = prepared(wanted, Machine(), cpu=ZEN5_GUEST)
    assert names(answer) == wanted[:3]
    assert answer.notes[0].startswith("branch_misses: not counted, since at most")
    assert "--merge-into" in answer.notes[0]
    assert names(prepared(wanted, Machine())) == wanted


def test_a_software_event_takes_no_counter_of_the_processor():
    wanted = ["flop", "instructions", "cycles", "page_faults"]
    assert names(prepared(wanted, Machine(), cpu=ZEN5_GUEST)) == wanted


def test_the_room_of_the_engine_is_heeded():
    answer = prepared(["flop", "instructions", "cycles", "branches"], Machine(), room=3)
    assert names(answer) == ["flop", "instructions", "cycles"]


def test_without_rdpmc_counters_are_read_at_regions_only_and_that_is_reported():
    answer = prepared(["flop"], Machine(rdpmc=False, ns=700))
    assert not answer.at_calls and not answer.by_rdpmc
    assert "regions and phases only" in answer.notes[0] and "700 ns" in answer.notes[0]
    assert answer.facts["taupy.counters.read"] == "regions and phases, by read()"


def test_slow_rdpmc_is_read_at_regions_only():
    assert not prepared(["flop"], Machine(ns=2000)).at_calls


def test_reading_at_calls_can_be_asked_for_and_its_cost_is_reported():
    answer = prepared(["flop"], Machine(rdpmc=False, ns=700), at="calls")
    assert answer.at_calls and "700 ns" in answer.notes[0]


def test_regions_only_can_be_asked_for():
    answer = prepared(["flop"], Machine(), at="regions")
    assert not answer.at_calls and answer.notes == []


def test_intel_flop_weighs_every_width():
    answer = prepared(["flop"], Machine(), cpu=SKYLAKE_X)
    assert answer.events == [
        (RAW, 0x03C7, 1, 0),
        (RAW, 0x04C7, 2, 0),
        (RAW, 0x18C7, 4, 0),
        (RAW, 0x60C7, 8, 0),
        (RAW, 0x80C7, 16, 0),
    ]
    assert "flop fma256 1.0000" in answer.facts["taupy.counters.self_test"]
    assert "flop fma512 1.0000" in answer.facts["taupy.counters.self_test"]


def test_a_width_that_the_processor_lacks_is_not_asked_for():
    (flop,) = [cpu_events.metric("flop", HASWELL_LIKE)]
    assert [event.config >> 8 for event in flop.events] == [0x03, 0x04, 0x18, 0x20]


@pytest.mark.parametrize(
    ("family", "model", "config"),
    [(0x17, 0x01, 0xFF03), (0x17, 0x31, 0x0F03), (0x19, 0x11, 0x1F03), (0x1A, 0x02, 0x1F03)],
)
def test_amd_families_have_their_own_masks(family, model, config):
    cpu = Cpu("AuthenticAMD", family, model)
    assert cpu_events.metric("flop", cpu).events == (Event(RAW, config),)


def test_a_processor_without_an_event_says_so():
    answer = prepared(["flop", "instructions"], Machine(), cpu=ARM)
    assert names(answer) == ["instructions"]
    assert answer.notes[0].startswith("flop: no event")


def test_memory_bytes_are_lines_times_64_and_tested():
    answer = prepared(["bytes_dram_read"], Machine())
    assert answer.events == [(RAW, 0x1_0000_0865, 64, 0)]
    assert "bytes_dram_read lines 1.0000" in answer.facts["taupy.counters.self_test"]
    assert names(prepared(["bytes_dram_read"], Machine(scale={0x1_0000_0865: 0.5}))) == []


def test_what_no_workload_can_test_is_reported():
    answer = prepared(["r76", "flop"], Machine())
    assert answer.facts["taupy.counters.not_self_tested"] == "r76"


def test_an_event_that_does_not_fit_is_left_out_and_the_others_stay():
    answer = prepared(["instructions", "flop"], Machine(refuse={0x1F03: errno.EINVAL}))
    assert names(answer) == ["instructions"] and "fewer" in answer.notes[0]


def test_an_event_that_no_workload_can_test_may_be_refused():
    answer = prepared(["r76"], Machine(refuse={0x76: errno.EACCES}))
    assert not names(answer) and answer.notes[0].startswith("r76: ")


def test_events_that_the_machine_forbids_are_reported_together():
    machine = Machine(refuse={0x1F03: errno.EACCES})
    answer = prepared(["flop", "instructions", "page_faults"], machine)
    assert names(answer) == ["page_faults"]
    assert answer.notes[0].startswith("flop, instructions: ")


@pytest.mark.parametrize(
    ("number", "paranoid", "pmu", "said"),
    [
        (errno.EACCES, "4", True, "perf_event_paranoid is 4"),
        (errno.EPERM, "2", True, "seccomp"),
        (errno.ENOENT, "2", False, "no PMU"),
        (errno.ENOENT, "2", True, "no such event"),
        (errno.EINVAL, "2", True, "fewer"),
        (errno.EMFILE, "2", True, "ulimit -n"),
        (errno.ENOSYS, "", True, "no perf_event_open"),
        (errno.EBUSY, "2", True, "exclusively"),
        (errno.EIO, "2", True, "perf_event_open says"),
    ],
)
def test_each_refusal_says_why_and_what_to_do(tmp_path, number, paranoid, pmu, said):
    (tmp_path / "paranoid").write_text(paranoid)
    if pmu:
        (tmp_path / "cpu").mkdir()
    problem = OSError(number, "reason")
    text = perf_events.why_not(problem, ZEN5_GUEST, tmp_path / "paranoid", tmp_path)
    assert said in text and "\n" not in text


def test_every_metric_has_a_line_with_its_status():
    machine = Machine(refuse={1: errno.ENOENT})
    found = {counter.name: counter for counter in perf_events.available(ZEN5, machine)}
    assert set(found) == set(cpu_events.NAMES)
    assert found["flop"].status == "ok" and found["flop"].unit == "flop"
    assert found["instructions"].status != "ok"
    assert not found["instructions"].status.startswith("instructions")


def test_the_processor_is_read_from_cpuinfo():
    text = (
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n"
        "model name\t: AMD EPYC\nflags\t\t: fpu avx2 hypervisor\n\nprocessor\t: 1\n"
        "vendor_id\t: Other\n"
    )
    cpu = cpu_events.cpu_of(text)
    assert cpu == Cpu("AuthenticAMD", 26, 2, "AMD EPYC", frozenset({"fpu", "avx2", "hypervisor"}))
    assert cpu.virtual
    assert cpu_events.cpu_of("") == Cpu()


@pytest.mark.parametrize("name", ["r1f03", "r100000865", "flop"])
def test_names_of_the_cpu(name):
    assert cpu_events.is_name(name) and cpu_events.metric(name, ZEN5).events


@pytest.mark.parametrize("name", ["raw", "r", "r1F03", "gld", "r12345678901234567"])
def test_names_that_are_none_of_the_cpus(name):
    assert not cpu_events.is_name(name)
    with pytest.raises(KeyError):
        cpu_events.metric(name, ZEN5)
