"""The facts of a GPU, asked of a driver that plays an H200."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from taupy.collectors import device, nvml
from taupy.cuda import driver
from taupy.model.gpu import Device, Fact

SOURCE = Path(__file__).with_name("fake_cuda.c")


@pytest.fixture(scope="session")
def played(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the library that plays the driver")
    target = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", str(target), str(SOURCE)], check=True)
    return target


@pytest.fixture
def gpu(played, monkeypatch):
    library = ctypes.CDLL(str(played))
    monkeypatch.setattr(driver, "_library", lambda: library)
    monkeypatch.setattr(nvml, "problem", lambda: "not asked here")


@pytest.mark.usefixtures("gpu")
def test_a_gpu_with_all_that_the_driver_tells():
    (found,) = device.devices(node=2)
    assert (found.node, found.ordinal, found.name, found.compute_capability) == (
        2, 0, "NVIDIA H200", "9.0",
    )  # fmt: skip
    assert found.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    facts = {fact.name: (fact.value, fact.unit) for fact in found.facts}
    assert facts["Multiprocessors"] == (132, "")
    assert facts["Memory Size"] == (150_754_820_096, "B")
    # 3201 MHz, both edges, 6144 bit wide: 4.9 TB/s.
    assert facts["Memory Bandwidth"] == (2 * 3_201_000_000 * 6144 // 8, "B/s")
    assert facts["Max Warps/MP"] == (64, "")
    assert facts["PCI Address"] == ("0000:1b:00.0", "")
    assert facts["CUDA Driver API Version"] == ("13.0", "")
    assert "Constant Memory" not in facts  # this driver does not tell: absent is not 0


@pytest.mark.usefixtures("gpu")
def test_only_the_gpus_that_were_used_and_are_there():
    assert device.devices(0, [0, 7]) == device.devices(0)
    assert device.devices(0, []) == []


@pytest.mark.usefixtures("gpu")
def test_tau_writes_the_facts_as_metadata_of_the_node():
    facts = device.metadata(device.devices(node=1))
    assert facts[1]["GPU[0] Name"] == "NVIDIA H200"
    assert facts[1]["GPU[0] Core Clock"] == "1980000000 Hz"
    assert facts[1]["GPU[0] UUID"].startswith("GPU-0001")


@pytest.mark.usefixtures("gpu")
def test_a_used_gpu_is_known_again_and_keeps_its_place():
    (here,) = device.devices(0)
    seen = Device(3, 5, "NVIDIA H200", here.uuid, "9.0", (Fact("Multiprocessors", 132),))
    (found,) = device.completed([seen])
    assert (found.node, found.ordinal, found.facts) == (3, 5, here.facts)
    other = Device(0, 0, "gone", "GPU-ffff", "9.0")
    assert device.completed([other]) == [other]


def test_no_driver_means_no_devices(monkeypatch):
    def nobody():
        raise driver.CudaError("there is no CUDA driver on this machine")

    monkeypatch.setattr(driver, "_library", nobody)
    assert device.devices(0) == []
    assert driver.device_count() == 0
