"""Where libcupti is looked for, and what CUPTI's answers mean."""

from __future__ import annotations

import pytest

from taupy.collectors.cupti_errors import cause, cupti_version, driver_version
from taupy.collectors.cupti_paths import libraries
from taupy.record.gpu_part import GpuPart
from taupy.record.gpu_verdict import failure, verdict


def make(folder, *names):
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()


def test_wheels_come_before_toolkits_and_newer_ones_before_older(tmp_path, monkeypatch):
    site, cuda = tmp_path / "site", tmp_path / "cuda"
    make(site / "nvidia/cuda_cupti/lib", "libcupti.so.12", "libpcsamplingutil.so")
    make(site / "nvidia/cu13/lib", "libcupti.so.13", "libnvperf_host.so")
    make(cuda / "extras/CUPTI/lib64", "libcupti.so", "libcupti.so.12", "libcupti.so.2024.3.2")
    for name in ("CUDA_PATH", "CUDA_ROOT", "TAUPY_CUPTI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_HOME", str(cuda))
    found = [path for path in libraries([str(site), "/nowhere"]) if path.startswith(str(tmp_path))]
    assert found == [
        str(site / "nvidia/cu13/lib/libcupti.so.13"),
        str(site / "nvidia/cuda_cupti/lib/libcupti.so.12"),
        str(cuda / "extras/CUPTI/lib64/libcupti.so.12"),
        str(cuda / "extras/CUPTI/lib64/libcupti.so"),
    ]


def test_the_one_that_was_named_comes_first(monkeypatch):
    monkeypatch.setenv("TAUPY_CUPTI", "/my/libcupti.so.13")
    assert libraries([])[0] == "/my/libcupti.so.13"


def test_versions_are_those_of_cuda():
    assert [cupti_version(n) for n in (24, 26, 130001, 130101, 130500, 0)] == [
        "12.6", "12.8", "13.0", "13.1", "13.5", "unknown",
    ]  # fmt: skip
    assert driver_version(12080) == "12.8"


@pytest.mark.parametrize(
    ("code", "word"),
    [(35, "NVreg_RestrictProfilingToAdminUsers"), (39, "nsys"), (40, "vGPU"), (43, "MIG"),
     (26, "dcgmi"), (999, "CUDA initialised"), (123, "CUPTI answers 123 SOMETHING")],
)  # fmt: skip
def test_every_known_answer_has_its_cause(code, word):
    assert word in cause(code, "SOMETHING")


def test_a_failure_names_step_versions_and_library():
    line = failure(
        {"error.step": "subscribe", "error.code": "39", "error.text": "X", "cupti.version": "26",
         "cupti.library": "/lib/libcupti.so.12", "driver.cuda": "12080"}
    )  # fmt: skip
    for word in ("could not subscribe", "39", "12.8", "/lib/libcupti.so.12"):
        assert word in line


def a_part(tmp_path, **counters):
    return GpuPart(tmp_path / "x.gpu", 1, 0, counters)


def test_only_an_expected_capture_that_is_empty_is_spoken_of(tmp_path):
    assert verdict("auto", [], set()) is None
    assert verdict("auto", [], {"not initialised"}) is None
    assert verdict("auto", [a_part(tmp_path, launches=0)], set()) is None
    assert "launched nothing" in (verdict("yes", [a_part(tmp_path, launches=0)], set()) or "")
    assert "never initialised" in (verdict("yes", [], {"not initialised"}) or "")
    assert "never loaded" in (verdict("yes", [], set()) or "")
    assert "another tool" in (verdict("auto", [], {"other tool"}) or "")
    assert "5 launches seen" in (verdict("auto", [a_part(tmp_path, launches=5)], set()) or "")
