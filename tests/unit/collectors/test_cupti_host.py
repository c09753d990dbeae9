"""Which CUPTI is taken, and what is said where none can be."""

import os
import subprocess
import sys

import pytest

from taupy.collectors import cupti_host, cupti_paths
from taupy.collectors.cupti_host import CuptiError, CuptiHost, CuptiUnavailable, libraries
from taupy.collectors.cupti_paths import OVERRIDE


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No library anywhere, unless a test puts one there."""
    monkeypatch.setattr(cupti_host, "_mapped", lambda: iter(()))
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", OVERRIDE):
        monkeypatch.delenv(name, raising=False)
    every = cupti_paths.libraries
    monkeypatch.setattr(
        cupti_paths,
        "libraries",
        lambda folders: [path for path in every(folders) if str(tmp_path) in path],
    )
    return tmp_path


def library(path, content=b"no library"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def test_without_a_library_the_remedy_is_named(nowhere):
    assert list(libraries()) == []
    with pytest.raises(CuptiUnavailable, match="pip install nvidia-cuda-cupti==13"):
        CuptiHost.open()


def test_the_named_one_goes_before_wheels_and_those_before_the_toolkit(nowhere, monkeypatch):
    toolkit = library(nowhere / "cuda/extras/CUPTI/lib64/libcupti.so.13")
    old = library(nowhere / "site/nvidia/cuda_cupti/lib/libcupti.so.12")
    new = library(nowhere / "site/nvidia/cu13/lib/libcupti.so.13")
    named = library(nowhere / "mine/libcupti.so")
    monkeypatch.setenv("CUDA_HOME", str(nowhere / "cuda"))
    wheels = list(libraries())[:2]
    assert set(wheels) == {old, new}
    assert list(libraries()) == [*wheels, toolkit]
    monkeypatch.setenv(OVERRIDE, named)
    assert list(libraries()) == [named, *wheels, toolkit]
    monkeypatch.setattr(cupti_host, "_mapped", lambda: iter((old,)))
    assert list(libraries()) == [old, named, new, toolkit]  # each once


def test_a_file_that_is_no_library_is_distinguished_from_none(nowhere, monkeypatch):
    path = library(nowhere / "mine/libcupti.so.13")
    monkeypatch.setenv(OVERRIDE, path)
    with pytest.raises(CuptiUnavailable, match="cannot be used as CUPTI"):
        CuptiHost.open()
    monkeypatch.setenv(OVERRIDE, str(nowhere / "missing.so"))
    with pytest.raises(CuptiUnavailable, match="CUPTI is not installed"):
        CuptiHost.open()


def test_a_library_of_something_else_is_refused(nowhere):
    import _ctypes

    with pytest.raises(CuptiUnavailable, match="cannot be used as CUPTI"):
        CuptiHost(_ctypes.__file__)


class Played:
    """A libcupti that answers with its version and refuses the rest."""

    def __init__(self, version):
        self.version = version

    def cuptiGetVersion(self, reference):
        reference._obj.value = self.version
        return 0

    def cuptiProfilerHostGetSupportedChips(self, reference):
        return 999

    def cuptiGetResultString(self, code, reference):
        reference._obj.value = b"CUPTI_ERROR_UNKNOWN"
        return 0


@pytest.fixture
def played(monkeypatch):
    def host(version, driver):
        monkeypatch.setattr(cupti_host.ctypes, "CDLL", lambda *_: Played(version))
        monkeypatch.setattr(cupti_host, "_start_driver", lambda: driver)
        return CuptiHost("/nowhere/libcupti.so.13")

    return host


def test_a_cupti_that_needs_a_driver_is_not_asked_without_one(played):
    assert played(130100, driver=False).version_text == "13.1"
    assert played(130400, driver=True).version_text == "13.4"
    with pytest.raises(CuptiUnavailable, match=r"CUPTI 13.4, which needs a driver"):
        played(130400, driver=False)


def test_a_gpu_is_not_asked_for_without_a_driver(played):
    with pytest.raises(CuptiUnavailable, match="no NVIDIA driver here"):
        played(130000, driver=False).device_chip()


def test_a_refusal_says_the_code_and_what_it_means(played):
    with pytest.raises(CuptiError, match=r"SupportedChips: CUPTI_ERROR_UNKNOWN \(999\): an inte"):
        played(130000, driver=True).chips()


ASK = """
from taupy.collectors.cupti_host import CuptiHost
with CuptiHost.open().chip("GH100") as chip:
    for base in chip.base_metrics():
        print(base, *chip.submetrics(base), chip.properties(f"{base}.sum").unit)
    print(chip.submetrics("nothing"), chip.properties("nothing"), chip.passes(["dram__bytes.sum"]))
"""


@pytest.mark.parametrize(
    "version", ["1206", "1208", "1209", "1300", "1301", "1302", "1303", "1305"]
)
def test_each_version_is_asked_with_structures_of_its_own_sizes(played_gpu, version):
    """What the played CUPTI answers where each structure is as long as in that version."""
    told = {"LD_LIBRARY_PATH": str(played_gpu), "TAUPY_CUPTI": str(played_gpu / "libcupti.so.13")}
    done = subprocess.run(
        [sys.executable, "-c", ASK], env={**os.environ, **told, "FAKE_CUPTI": version},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "dram__bytes .avg .max .sum byte",
        "lts__t_sector_hit_rate .pct .ratio ",
        "sm__inst_executed .avg .max .sum byte",
        "sm__throughput .avg.pct_of_peak_sustained_elapsed %",
        "[] None 2",
    ]
