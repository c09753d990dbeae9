"""What a reader takes from a file is what an independent count of the raw file finds there."""

from __future__ import annotations

import gzip
import importlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from taupy.formats import registry
from taupy.model.progress import SILENT
from tests.builders import small_profile
from tests.unit.formats import (
    chrome_files,
    ncu_files,
    nsys_files,
    summary_files,
    tau_files,
    test_perfetto,
    test_pprof_proto,
    test_proton,
    test_tau_packed,
    test_tau_sqlite,
)
from tests.unit.formats.tau_files import path, row

SHARED = Path(os.environ.get("TAUPY_SHARED_DATA") or "/nonexistent")


def sums_of(profiles):
    """The same sums as the scripts', from what taupy read."""
    sums = {"calls": 0, "all_calls": 0, "api_calls": 0, "host_ns": 0, "launches": 0, "gpu_ns": 0}
    for profile in profiles:
        for measured in profile.threads:
            tree = measured.tree
            host = measured.thread.kind == "host"
            groups = [set(profile.timers[timer].groups) for timer in tree.timer]
            sums["all_calls"] += sum(tree.calls)
            if host:
                sums["calls"] += sum(
                    calls for calls, of in zip(tree.calls, groups, strict=True) if "TAUPY" not in of
                )
                sums["api_calls"] += sum(
                    calls for calls, of in zip(tree.calls, groups, strict=True) if "CUDA_API" in of
                )
                sums["host_ns"] += sum(tree.exclusive.get("time", ()))
            for name, values in tree.exclusive.items():
                sums[name] = sums.get(name, 0) + sum(value for value in values if value == value)
            sums["launches"] += sum(launch.count for launch in measured.launches)
            sums["gpu_ns"] += sum(launch.time_ns for launch in measured.launches)
    return sums


SPEEDSCOPE = """{"$schema": "https://www.speedscope.app/file-format-schema.json",
"shared": {"frames": [{"name": "a"}, {"name": "b"}]}, "profiles": [
{"type": "evented", "name": "t", "unit": "microseconds", "startValue": 0, "endValue": 9, "events": [
{"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 2},
{"type": "C", "frame": 1, "at": 3}, {"type": "C", "frame": 0, "at": 9}]},
{"type": "sampled", "name": "u", "unit": "microseconds", "startValue": 0, "endValue": 7,
"samples": [[0], [0, 1]], "weights": [3, 4]}]}"""

COLLAPSED = "main;f 10\nmain;f;g 20\ntid:7;/a.py:f:3 4\n"

AUSTIN = "# austin: 3.4.1\n# mode: wall\nP7;T7;a.py:f:3;b.py:g:1 100\nP8;T8;a.py:f:4 7\n"


def text(content):
    return lambda target: target.write_text(content, encoding="utf-8")


def data(content):
    return lambda target: target.write_bytes(content)


def ours(format, profile):
    return lambda target: registry.writer(format).write(profile, target, SILENT)


def perfetto():
    thread = test_perfetto.wire.put_number(1, 5) + test_perfetto.wire.put_text(2, "main")
    track = test_perfetto.packet(test_perfetto.wire.put_bytes(60, thread))
    slices = [(1, 100, "f"), (1, 110, "g"), (2, 130), (2, 200), (1, 300, "f"), (2, 301)]
    return track + b"".join(test_perfetto.event(*one) for one in slices) + b"\0"


def pprof():
    types = (("alloc-samples", "count"), ("wall-time", "\u03bcs"))
    label = [("thread id", 7), ("thread name", "w")]
    samples = [((1,), (3, 20)), ((1,), (4, 30), *label)]
    return test_pprof_proto.message(samples, types, test_pprof_proto.MAIN)


def tau(target):
    rows = [row(".TAU application", 1, 1, 2, 100, "TAU_UTILITY"), row("f", 3, 2, 60, 98)]
    rows += [row("g", 2, 0, 38, 38), path(".TAU application => f", 3, 2, 60, 98)]
    target.mkdir()
    for thread in (0, 1):
        (target / f"profile.0.0.{thread}").write_text(
            tau_files.text([*rows, path("f => g", 2, 0, 38, 38)])
        )


def ranks(target):
    target.mkdir()
    for rank in (0, 1):
        header = {**chrome_files.HEADER, "distributedInfo": {"rank": rank, "world_size": 2}}
        events = chrome_files.steps(20 + rank)
        chrome_files.written(target / f"rank{rank}.json", events, header=header)


def proton(target):
    step = test_proton.node("step", test_proton.on_gpu("k", 700, 2), test_proton.on_gpu("l", 50))
    test_proton.written(target.parent, test_proton.node("ROOT", step)).rename(target)


def pstats(target):
    import cProfile

    profile = cProfile.Profile()
    profile.runcall(sorted, list(range(1000)), key=lambda number: -number)
    profile.dump_stats(target)


CASES = {
    "chrome": [lambda target: chrome_files.written(target, chrome_files.steps(50))],
    "ranks": [ranks],
    "perfetto": [data(perfetto())],
    "pprof": [data(pprof()), ours("pprof", small_profile())],
    "collapsed": [text(COLLAPSED)],
    "speedscope": [text(SPEEDSCOPE)],
    "austin": [text(AUSTIN)],
    "pstats": [pstats],
    "hatchet": [ours("hatchet", small_profile())],
    "proton": [proton],
    "tau": [tau],
    "nsys": [lambda target: nsys_files.training(target)],
    "nsys_stats": [text(summary_files.KERNELS)],
    "nvprof": [text(summary_files.SUMMARY)],
    "ncu_rep": [lambda target: ncu_files.report(
        target, [("k(float*)", (8, 1, 1), (128, 1, 1), {"gpu__time_duration.sum": 500.0})] * 3)],
    "ncu_csv": [lambda target: ncu_files.long_csv(target, *(
        ncu_files.long_rows([("gpu__time_duration.sum", "nsecond", f"{500 + id}"),
                             ("dram__bytes.sum", "byte", "1,000")], id=id) for id in range(3)))],
    "tau_xml": [text(tau_files.SNAPSHOT)],
    "tau_sqlite": [test_tau_sqlite.make],
    "tau_packed": [data(test_tau_packed.SMALL), data(gzip.compress(test_tau_packed.SMALL))],
}  # fmt: skip
"""Format -> what writes a file of it."""

OF_TAU = {"calls": ("all_calls", 1), "exclusive": ("time", 1000)}

# What a script counts -> what taupy has instead, times a factor.
RENAMED = {
    "perfetto": {"slices": ("calls", 1), "ns": ("host_ns", 1)},
    "pprof": {"wall-time": ("time", 1), "calls": ("all_calls", 1)},
    "collapsed": {"weight": ("samples", 1)},
    "speedscope": {"weight": ("time", 1)},
    "austin": {"us": ("time", 1000)},
    "hatchet": {"calls": ("all_calls", 1)},
    "proton": {"gpu_ns": ("time", 1), "calls": ("all_calls", 1)},
    "tau": OF_TAU,
    "tau_xml": OF_TAU,
    "tau_sqlite": OF_TAU,
    "tau_packed": OF_TAU,
    "ncu_csv": {"gpu__time_duration.sum": ("time", 1), "dram__bytes.sum": ("bytes_dram", 1)},
}


def test_every_format_that_is_read_has_a_script():
    scripts = {script.replace("_", "-") for script in CASES}
    assert scripts == {reader.name for reader in registry.readers()}


def compare(script, file, profiles):
    counted = importlib.import_module(f"tests.formats.{script}").count(file)
    assert counted and any(counted.values())
    found = sums_of(profiles)
    renamed = RENAMED.get(script, {})
    for name, value in counted.items():
        other, factor = renamed.get(name, (name, 1))
        assert found.get(other, 0) == pytest.approx(value * factor, rel=1e-12, abs=0.5), name


def read(script, file):
    format = script.replace("_", "-")
    return list(registry.reader(format).read(file, SILENT))


WRITTEN = [(script, number) for script, made in CASES.items() for number in range(len(made))]


@pytest.mark.parametrize(("script", "number"), WRITTEN)
def test_the_sums_of_a_reader_are_those_of_the_raw_file(tmp_path, script, number):
    file = tmp_path / "file"
    CASES[script][number](file)
    compare(script, file, read(script, file))


@pytest.mark.parametrize(("script", "number"), WRITTEN)
def test_a_reader_that_loses_a_thread_is_noticed(tmp_path, script, number):
    file = tmp_path / "file"
    CASES[script][number](file)
    profiles = read(script, file)
    largest = max(
        profiles[-1].threads, key=lambda thread: sum(thread.tree.exclusive.get("time", [0]))
    )
    rest = [thread for thread in profiles[-1].threads if thread is not largest]
    with pytest.raises(AssertionError):
        compare(script, file, [*profiles[:-1], replace(profiles[-1], threads=rest)])


@pytest.mark.parametrize(
    "name", ["bert_h100", "bert_mi300", "hta_alexnet", "qwen_h100", "qwen_mi300"]
)
def test_public_traces_are_read_whole(name):
    file = SHARED / "traces" / f"{name}.json.gz"
    if not file.exists():
        pytest.skip("TAUPY_SHARED_DATA names no data")
    compare("chrome", file, read("chrome", file))


@pytest.mark.parametrize("name", ["py311_recursion", "py311_exceptions", "py311_pytau_api"])
def test_profiles_of_tau_are_read_whole(name):
    folders = [found.parent for found in (SHARED / "tau" / name).rglob("profile.0.0.0")]
    if not folders:
        pytest.skip("TAUPY_SHARED_DATA names no data")
    for folder in folders:
        compare("tau", folder, read("tau", folder))
