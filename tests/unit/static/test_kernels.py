"""Kernels of our own on seven chips, counted by hand (tests/data/kernels/expected.py)."""

from __future__ import annotations

import lzma
import re
import subprocess
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from taupy.analysis.kernel_occupancy import at
from taupy.catalog.occupancy import occupancy
from taupy.errors import TaupyError
from taupy.static import reading, tools
from tests.data.kernels.expected import CHIPS, EXPECTED, OTHERWISE, TENSOR

pytestmark = pytest.mark.slow

KERNELS = Path(__file__).parents[2] / "data/kernels"

try:
    TOOLS = tools.find()
except TaupyError as problem:
    pytest.skip(f"needs NVIDIA's disassembler: {problem}", allow_module_level=True)


@pytest.fixture(scope="module")
def cubins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cubins")
    with tarfile.open(KERNELS / "cubins.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def codes(cubins):
    """chip -> name -> record"""
    request = reading.Request(sources=True)
    found = {chip: {} for chip in CHIPS}
    for code in reading.kernels([str(cubins)], request, TOOLS):
        found[code.chip][code.name] = code
    assert request.remarks == []
    return found


def cases():
    for name, expected in EXPECTED.items():
        for chip in CHIPS:
            if float(chip) >= float(expected.since):
                yield pytest.param(name, chip, id=f"{name}-{chip}")


@pytest.mark.parametrize(("name", "chip"), list(cases()))
def test_a_kernel_has_what_its_source_says(codes, name, chip):
    code, expected = codes[chip][name], EXPECTED[name]
    mix = Counter()
    for one in code.counts:
        mix[f"{one.kind} at {one.depth}"] += one.number
    assert {kind: mix[kind] for kind in expected.mix} == expected.mix
    reached = Counter()
    for one in code.accesses:
        if one.space != "constant":
            reached[(*one[:5], one.depth)] += one.number
    assert reached == expected.reaches
    assert tuple(loop.depth for loop in code.loops) == expected.loops
    assert code.divergent == expected.divergent
    assert code.block_shared_bytes == expected.shared
    assert (code.unknown, code.spills, code.irreducible) == ([], 0, 0)


def test_what_a_thread_keeps_in_local_memory_is_its_own(tmp_path):
    """An address or a condition that comes from there is not the same in all threads, and a pointer
    that was spilled keeps its stride."""
    cubin = tmp_path / "own_memory.cubin"
    cubin.write_bytes(lzma.decompress((KERNELS / "own_memory.cubin.xz").read_bytes()))
    found = {code.name: code for code in reading.kernels([str(cubin)], reading.Request(), TOOLS)}
    stores = {
        name: {(one.pattern, one.stride) for one in code.accesses
               if (one.what, one.space) == ("store", "global")}
        for name, code in found.items()
    }  # fmt: skip
    assert stores["stack_index"] == {("unknown", None)}  # 36 bytes apart, if its loop has run
    assert stores["spill_stride"] == {("strided", 64)}
    assert found["stack_branch"].divergent > 0


@pytest.mark.parametrize(("name", "opcode"), TENSOR.items())
def test_matrix_instructions_go_by_shape_and_types(codes, name, opcode):
    for chip in CHIPS:
        if float(chip) >= float(EXPECTED[name].since):
            found = [one.detail for one in codes[chip][name].counts if one.kind == "tensor"]
            assert found == [OTHERWISE.get((name, chip), opcode)], chip


@pytest.mark.parametrize("chip", CHIPS)
def test_registers_that_are_written_out_are_spills_and_arrays_are_not(codes, chip):
    # 100 values are live, and 32 registers are all there are. Blackwell's compiler keeps most
    # of them elsewhere.
    spilling = codes[chip]["spilling"]
    assert spilling.registers == 32
    assert spilling.spills >= 10 and spilling.spill_bytes >= 4 * spilling.spills
    assert {one.space for one in spilling.accesses if one.spill} == {"local"}
    array = codes[chip]["local_array"]
    assert array.stack_bytes == 64 * 4 and array.spills == 0
    stack = sorted(
        (one.what, one.depth, one.number) for one in array.accesses if one.space == "local"
    )
    assert stack == [("load", 0, 1), ("store", 1, 1)]


@pytest.mark.parametrize("chip", CHIPS)
def test_calls_atomics_and_constant_banks_are_reported(codes, chip):
    calling = codes[chip]["calling"]
    assert any("other" in name for name in calling.calls)
    reached = {(one.what, one.space) for one in codes[chip]["atomics"].accesses}
    assert {("atomic", "shared"), ("atomic", "global")} <= reached
    assert dict(codes[chip]["constants"].constants).get(3) == 64 * 4


@pytest.mark.parametrize("chip", CHIPS)
def test_live_registers_fit_into_those_that_are_allocated(codes, chip):
    for code in codes[chip].values():
        assert code.peak_live is not None and 0 < code.peak_live <= code.registers, code.name
        assert 0 <= code.peak_at < 16 * code.instructions * 4


def test_source_lines_are_those_of_the_source(codes):
    text = (KERNELS / "kernels.cu").read_text().splitlines()
    loop = codes["8.0"]["one_loop"].loops[0].line
    assert "sum += x[j * 256 + threadIdx.x]" in text[int(loop.rpartition(":")[2]) - 1]
    lines = codes["8.0"]["saxpy"].lines
    assert sum(line.instructions for line in lines) == codes["8.0"]["saxpy"].instructions


@pytest.mark.parametrize("chip", CHIPS)
def test_registers_shared_memory_and_stack_are_those_of_cuobjdump(codes, cubins, chip):
    """Read here by other words of the line, and kernel by kernel."""
    file = cubins / f"sm_{chip.replace('.', '')}.cubin"
    told = subprocess.run(
        [TOOLS.cuobjdump, "-res-usage", file], capture_output=True, text=True, check=True
    ).stdout
    found = re.findall(r"Function (\w+):\n\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", told)
    assert {name for name, *_ in found} == set(codes[chip])
    for name, *numbers in found:
        code = codes[chip][name]
        assert [code.registers, code.stack_bytes, code.shared_bytes] == list(map(int, numbers))


def test_block_sizes_fit_as_nvidias_calculator_says(codes):
    """`at` by the same numbers as the table of tests/unit/catalog."""
    code = codes["8.0"]["spilling"]
    assert at(code, 1024).blocks == occupancy("8.0", 1024, 32, 0).blocks == 2
    tile = codes["9.0"]["one_bank"]  # 4 KiB and 1 KiB for the system: 228 KiB hold 45, warps 64
    assert at(tile, 32).blocks == 32 and at(tile, 32, dynamic=40 << 10).blocks == 5


def test_every_instruction_of_ours_is_known(codes):
    unknown = {
        name for of_chip in codes.values() for one in of_chip.values() for name in one.unknown
    }
    assert unknown == set()
    assert all(one.instructions == sum(count.number for count in one.counts)
               for of_chip in codes.values() for one in of_chip.values())  # fmt: skip
