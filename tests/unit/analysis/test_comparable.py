"""What speaks against comparing two trials."""

from __future__ import annotations

import pytest

from taupy.analysis.comparable import differences, kind_of, within

SAME = {
    "Application": "mnist",
    "Command Line": "/usr/bin/python3.11 train.py --epochs 2",
    "Hostname": "node7",
    "GPU Name": "NVIDIA H200",
    "Python Version": "3.11.7",
    "taupy.engine": "native",
    "State": "complete",
    "Process ID": "77",
    "CPU MHz": "2600.1",
}


def differing(first, second):
    found = differences([[{**SAME, **first}], [{**SAME, **second}]])
    return [(one.kind, one.name, one.values) for one in found]


def test_two_runs_of_one_thing_do_not_differ():
    passing = {
        "Process ID": "78",
        "Starting Timestamp": "1",
        "Peak Resident Memory (KiB)": "9",
        "CPU Time User (s)": "3.1",
        "Git Commit": "abc",
        "SLURM_JOB_ID": "4",
        "taupy.overhead.call_ns": "17.1",
        "CPU MHz": "2650.0",
        "repeat.run": "2 of 5",
        "CWD": "/elsewhere",
        "Threads": "7",  # of the program's own making
        "taupy.counters.reading_ns": "51",
    }
    assert differing({}, passing) == []


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("arguments", "Command Line", "python train.py --epochs 3"),
        ("arguments", "Application", "resnet"),
        ("input", "batch size", "64"),
        ("machine", "Hostname", "node8"),
        ("machine", "CPU Type", "Xeon"),
        ("machine", "GPU Name", "NVIDIA A100"),
        ("machine", "GPU[0] Name", "NVIDIA A100"),
        ("machine", "OMP_NUM_THREADS", "8"),
        ("clocks", "CPU MHz", "1200"),
        ("clocks", "GPU Clock", "1410 MHz"),
        ("clocks", "GPU 0 SM Clock", "1410000000 Hz"),
        ("machine", "GPU 0 Power Limit", "500 W"),
        ("machine", "GPU 1 MIG Mode", "on"),
        ("versions", "GPU 0 Driver Version", "570.1"),
        ("versions", "BLAS", "OpenBLAS"),
        ("versions", "Python Version", "3.12.1"),
        ("versions", "CUDA Driver Version", "570.1"),
        ("versions", "torch version", "2.5"),
        ("instrumentation", "taupy.engine", "python"),
        ("instrumentation", "taupy.option.depth", "9"),
        ("instrumentation", "taupy.health.throttled", "3 routines"),
        ("versions", "trace cuda_driver_version", "12090"),
        ("versions", "distributed nccl_version", "2.20"),
        ("instrumentation", "trace with_stack", "1"),
        ("machine", "trace host_name", "node7"),
        ("machine", "distributed world_size", "8"),
        ("input", "trace batch", "64"),
        ("outcome", "State", "incomplete"),
        ("outcome", "Exit Code", "1"),
    ],
)
def test_a_fact_that_differs_is_reported_with_its_kind(kind, name, value):
    was = {"Command Line": "train.py --epochs 2"}.get(name, SAME.get(name, ""))
    now = value.removeprefix("python ")
    assert differing({}, {name: value}) == [(kind, name, (was, now))]
    assert kind_of(name) == kind


@pytest.mark.parametrize("name", ["trace trace_id", "trace traceName", "distributed rank"])
def test_what_names_a_capture_is_no_input(name):
    assert differing({name: "D74EA3"}, {name: "B4754C"}) == []


def test_a_command_line_is_what_comes_after_the_interpreter():
    other = "/opt/venv/bin/python /home/me/train.py --epochs 2"
    assert differing({}, {"Command Line": other}) == []


def test_what_varies_within_a_side_is_noise():
    first = [{**SAME, "CPU MHz": mhz} for mhz in ("1200", "3500")]
    second = [{**SAME, "CPU MHz": mhz} for mhz in ("3400", "3600")]
    assert differences([first, second]) == []
    apart = [{**SAME, "CPU MHz": mhz} for mhz in ("800", "900")]
    assert [difference.kind for difference in differences([apart, second])] == ["clocks"]


def test_a_result_of_the_program_is_no_input():
    first = [{**SAME, "loss": loss} for loss in ("0.31", "0.32", "0.30")]
    second = [{**SAME, "loss": loss} for loss in ("0.29", "0.33", "0.35")]
    assert differences([first, second]) == []
    assert within(first) == []


def test_three_sides_are_distinguished():
    sides = [[SAME], [SAME], [{**SAME, "Hostname": "node9"}]]
    (one,) = differences(sides)
    assert one.values == ("node7", "node7", "node9")
    assert one.text == "other machine: Hostname was node7, is node7 / node9"


def test_differing_runs_within_a_side_are_reported():
    runs = [SAME, {**SAME, "batch size": "32"}, {**SAME, "Python Version": "3.12.0"}]
    assert {(one.kind, one.name) for one in within(runs)} == {
        ("input", "batch size"),
        ("versions", "Python Version"),
    }
    assert within([SAME]) == []


def test_a_sweep_within_a_side_is_reported():
    runs = [{**SAME, "batch_size": size} for size in ("16", "32", "64")]
    assert [one.name for one in within(runs)] == ["batch_size"]


def test_of_other_gpus_single_facts_are_left_out():
    first = {**SAME, "GPUs": "H200", "GPU 0 Core Clock": "1980", "GPU 0 Driver Version": "1"}
    second = {**SAME, "GPUs": "A100", "GPU 0 Core Clock": "1410", "GPU 0 Driver Version": "2"}
    assert [difference.name for difference in differences([[first], [second]])] == ["GPUs"]
    slower = {**first, "GPU 0 Core Clock": "1410"}
    assert [difference.name for difference in differences([[first], [slower]])] == [
        "GPU 0 Core Clock"
    ]
