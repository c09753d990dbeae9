"""Datasheets answer to drivers' names, and only to those that they are of."""

from __future__ import annotations

import pytest

from taupy.catalog import datasheets


@pytest.mark.parametrize(
    ("driver", "gpu"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40 GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"),
        ("A100-PCIE-40GB", "A100 PCIe 40 GB"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("Tesla V100-PCIE-32GB", "V100 PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GeForce RTX 5090", "GeForce RTX 5090"),
        ("NVIDIA L40S", "L40S"),
        ("AMD Instinct MI300X VF", "MI300X"),
    ],
)
def test_a_drivers_name_finds_its_datasheet(driver, gpu):
    assert datasheets.datasheet(driver).gpu == gpu


@pytest.mark.parametrize(
    "driver",
    [
        "NVIDIA GeForce RTX 4060 Laptop GPU",
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA GeForce RTX 4070 SUPER",
        "NVIDIA GeForce RTX 5070 Ti",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "AMD Instinct MI300A",
        "",
    ],
)
def test_another_variant_has_other_peaks_and_gets_none(driver):
    assert datasheets.datasheet(driver) is None


def test_every_datasheet_answers_to_the_name_that_we_print():
    for sheet in datasheets.DATASHEETS:
        assert sheet in datasheets.candidates(sheet.gpu), sheet.gpu


def test_a_word_that_means_several_models_gives_them_all():
    assert [sheet.gpu for sheet in datasheets.candidates("v100")] == ["V100 SXM2", "V100 PCIe"]
    assert len(datasheets.candidates("A100")) == 4
    assert datasheets.candidates("Z80") == []


def test_peaks_follow_from_multiprocessors_and_clock():
    """FP32: SMs x cores x 2 x clock. Documents round, H100's clocks differ by the load."""
    cores = {"6.0": 64, "7.0": 64, "7.5": 64, "8.0": 64}
    for sheet in datasheets.DATASHEETS:
        if sheet.clock_hz is None:
            continue
        lanes = cores.get(sheet.compute_capability, 128)
        computed = sheet.multiprocessors * lanes * 2 * sheet.clock_hz
        assert sheet.peaks["fp32"] == pytest.approx(computed, rel=0.03), sheet.gpu


def test_ceilings_name_their_document_and_unit():
    found = datasheets.ceilings(datasheets.datasheet("Tesla V100-SXM2-16GB"))
    by_name = {each.name: each for each in found}
    assert by_name["DRAM"].value == 900e9
    assert by_name["fp32"].value / by_name["DRAM"].value == pytest.approx(17.4444, abs=5e-5)
    assert by_name["L2"].value == 2048 * 1530e6
    assert "tensor bf16" not in by_name  # Volta has none
    assert all(each.reference and each.source == "datasheet" for each in found)
    assert {each.unit for each in found} == {"flop/s", "B/s"}
    a100 = {
        ceiling.name: ceiling
        for ceiling in datasheets.ceilings(datasheets.datasheet("A100-PCIE-40GB"))
    }
    assert a100["tensor int8"].unit == "op/s"
    assert a100["fp32"].value / a100["DRAM"].value == pytest.approx(12.5402, abs=5e-5)


def test_published_rates_are_reports_of_models_that_are_there():
    gpus = {sheet.gpu for sheet in datasheets.DATASHEETS}
    assert {each.gpu for each in datasheets.PUBLISHED} <= gpus
    v100 = datasheets.ceilings(datasheets.datasheet("Tesla V100-SXM2-16GB"), "report")
    values = {each.name: each.value for each in v100}
    assert values["tensor fp16"] / values["DRAM"] == pytest.approx(129.6803, abs=5e-5)
    assert values["launch"] == 4.2e-6
    assert {each.source for each in v100} == {"report"}
