"""What code settles of its launches, and the routines that it calls by address."""

from __future__ import annotations

import tarfile
from dataclasses import replace

import pytest

from taupy.analysis import kernel_advice, kernel_occupancy
from taupy.model.kernel_code import LaunchLimits
from taupy.static import elf, notes, reading
from taupy.static.reading import Request
from tests.in_process import taupy
from tests.kernel_codes import code
from tests.unit.static.test_reading import KERNELS, NEEDED


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`launches.cubin`, and `cache`, a folder of Triton's."""
    place = tmp_path_factory.mktemp("launches")
    with tarfile.open(KERNELS / "launches.tar.xz") as archive:
        archive.extractall(place, filter="data")
    return place


def cubin_of_triton(folder):
    (path,) = (folder / "cache").rglob("*.cubin")
    return path


def by_name(path, **request):
    return {code.short_name: code for code in reading.kernels([str(path)], Request(**request))}


def test_launch_bounds_and_fixed_blocks_stand_in_the_code(folder):
    own = elf.read(folder / "launches.cubin").launches
    assert own["bounded"] == LaunchLimits(most_threads=192)
    assert own["free_to_choose"] == LaunchLimits()
    assert elf.read(cubin_of_triton(folder)).launches["row_sum"] == LaunchLimits(block=128)


def test_triton_notes_the_shared_memory_of_its_launches(folder, tmp_path):
    assert notes.dynamic_shared(cubin_of_triton(folder)) == 16
    assert notes.dynamic_shared(folder / "launches.cubin") is None
    for damaged in ("", "[]", '{"shared": "much", "num_warps": 4}', '{"shared": 1}', "{"):
        (tmp_path / "x.json").write_text(damaged)
        assert notes.dynamic_shared(tmp_path / "x.cubin") is None


def test_only_blocks_that_can_be_launched_are_proposed():
    bounded = replace(code(registers=32), launch=LaunchLimits(most_threads=192))
    assert kernel_occupancy.at(bounded, 192) and not kernel_occupancy.at(bounded, 224)
    fixed = replace(code(registers=32), launch=LaunchLimits(block=96))
    assert [fit.block for fit in kernel_advice.ranked(fixed, (64, 96)) if fit.occupancy] == [96]
    best = kernel_occupancy.best(fixed)
    assert best and best.block == 96


def test_what_triton_noted_counts_unless_the_launch_is_known():
    most = 160 << 10
    triton = replace(code(registers=32), chip="8.0", launch=LaunchLimits(128, None, most))
    assert kernel_occupancy.at(triton, 128) == kernel_occupancy.at(triton, 128, dynamic=most)
    limited, free = kernel_occupancy.at(triton, 128), kernel_occupancy.at(triton, 128, dynamic=0)
    assert limited and free and limited.share < free.share


@pytest.mark.slow
@NEEDED
def test_a_folder_of_triton_s_is_read_with_its_notes(folder):
    assert by_name(folder / "cache")["row_sum"].launch == LaunchLimits(128, None, 16)
    shown = taupy("static", folder / "cache", "--kernel", "row_sum", "--chip", "8.0")
    assert "the code requires blocks of 128 threads" in shown.stdout
    assert "with 16 B of dynamic shared memory, as recorded by Triton" in shown.stdout


@pytest.mark.slow
@NEEDED
def test_routines_that_are_called_by_address_count(folder):
    """88 instructions stand in the section; 16 of them fill up its end."""
    record = by_name(folder / "launches.cubin")["by_pointer"]
    assert "?" in record.calls
    assert record.instructions == 72
    assert record.number("special") == 2  # two square roots' first guesses: MUFU.RSQ


@pytest.mark.slow
@NEEDED
def test_functions_of_their_own_are_read_on_request(folder, tmp_path):
    """A cubin whose kernel is marked as a function that cannot be launched."""
    file = folder / "launches.cubin"
    data = bytearray(file.read_bytes())
    header = elf._HEADER.unpack_from(data)
    starts = range(header[6], header[6] + header[12] * header[11], header[11])
    sections = [elf._SECTION.unpack_from(data, start) for start in starts]
    symbols = next(section for section in sections if section[1] == elf._SYMTAB)
    number = next(f.number for f in elf.read(file).functions if f.name == "bounded")
    data[symbols[4] + number * elf._SYMBOL.size + 5] &= ~elf._ENTRY
    changed = tmp_path / "changed.cubin"
    changed.write_bytes(data)
    assert "bounded" not in by_name(changed)
    assert not by_name(changed, functions=True)["bounded"].is_kernel
    shown = taupy("static", changed, "--functions")
    assert "KERNELS AT REST: 2 kernels, 1 function\n" in shown.stdout
