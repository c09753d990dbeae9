"""How values differ between the threads of a warp, on code written by hand."""

import pytest

from taupy.static import flow, values
from taupy.static.listing import Instruction, arguments
from taupy.static.values import SAME, UNKNOWN, Value


def followed(text):
    """The analysis of a few lines as nvdisasm prints them."""
    code = []
    for number, line in enumerate([*text.strip().splitlines(), "EXIT"]):
        line = line.strip()
        guard = line.split()[0] if line.startswith("@") else ""
        name, _, operands = line.removeprefix(guard).strip().partition(" ")
        first, *modifiers = name.split(".")
        code.append(
            Instruction(16 * number, first, tuple(modifiers), arguments(operands),
                        guard.removeprefix("@"), frozenset(), False)
        )  # fmt: skip
    return values.followed(code, flow.flow(code, {}))


def address(text):
    """The address of the store at the end, from R0."""
    return followed(f"{text}\nSTG.E [R0], R9").addresses[16 * len(text.strip().splitlines())]


@pytest.mark.parametrize(
    "result",
    [
        "SHFL.DOWN PT, R0, R4, 0x1, 0x1f",
        "SHFL.IDX P2, R0, R4, R5, 0x1f",
        "ATOMG.E.ADD.STRONG.GPU PT, R0, desc[UR4][R6.64], R5",
        "ATOMS.ADD R0, [R6], R5",
        "MATCH.ANY R0, R4",
        "MATCH.ALL PT, R0, R4",
    ],
)
def test_what_threads_exchange_differs_between_them(result):
    assert address(f"MOV R0, 0x10\nS2R R4, SR_TID.X\n{result}") == UNKNOWN


def test_an_exchange_leaves_the_registers_beside_its_result():
    assert address("S2R R0, SR_TID.X\nSHFL.DOWN PT, R12, R0, 0x1, 0x1f").step == 1
    assert address("MOV R0, 0x10\nATOMS.ADD R255, [R6], R5") == Value(0, 16)


THREADS = "S2R R4, SR_TID.X\nIMAD.SHL.U32 R4, R4, 0x20, RZ\n"


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("LOP3.LUT R0, R4, 0x8, RZ, 0xfc, !PT", Value(32)),  # | 8: all threads alike
        ("LOP3.LUT R0, R4, 0x1f, RZ, 0x3c, !PT", Value(32)),  # ^ 31
        ("LOP3.LUT R0, R4, 0xffffffe0, RZ, 0xc0, !PT", Value(32)),  # & ~31
        ("LOP3.LUT R0, R4, 0x28, RZ, 0xfc, !PT", UNKNOWN),  # | 40: not of every thread
        ("LOP3.LUT R0, R4, 0x3e0, RZ, 0xc0, !PT", Value(32)),  # the lane times 32
        ("LOP3.LUT R0, R4, 0x400, RZ, 0xc0, !PT", SAME),  # which warp
        ("LOP3.LUT R0, R4, 0x60, RZ, 0xc0, !PT", UNKNOWN),
        ("LOP3.LUT R0, R4, 0x8, RZ, 0x96, !PT", UNKNOWN),  # another table
    ],
)
def test_bits_of_a_multiple_of_the_thread_are_followed(operation, expected):
    assert address(THREADS + operation) == expected


@pytest.mark.parametrize(("mask", "splits"), [("0x20", False), ("0x1", True)])
def test_a_branch_by_a_bit_of_the_thread_splits_within_a_warp_only(mask, splits):
    result = followed(f"S2R R4, SR_TID.X\nLOP3.LUT P0, RZ, R4, {mask}, RZ, 0xc0, !PT\n@P0 EXIT")
    assert (32 in result.divergent) == splits


STACK = "IADD3 R1, R1, -0x40, RZ\n" + THREADS
SPILLED = STACK + "STL [R1+0x8], R4\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (SPILLED + "LDL R0, [R1+0x8]", Value(32, 0)),
        (SPILLED + "LDL.LU R0, [R1+0xc]", UNKNOWN),  # written elsewhere, or never
        (STACK + "STL.64 [R1+0x8], R4\nLDL R0, [R1+0x8]", Value(32, 0)),
        (STACK + "MOV R5, 0x10\nSTL.64 [R1], R4\nLDL.64 R8, [R1]\nMOV R0, R9", Value(0, 16)),
        (SPILLED + "STL.128 [R1], RZ\nLDL R0, [R1+0x8]", Value(0, 0)),
        (SPILLED + "STL [R7], R9\nLDL R0, [R1+0x8]", UNKNOWN),  # an array, at any of its elements
        (SPILLED + "ST.E [R6.64], R9\nLDL R0, [R1+0x8]", UNKNOWN),  # through a pointer
        (SPILLED + "STL.U8 [R1+0x9], R9\nLDL R0, [R1+0x8]", UNKNOWN),
        (SPILLED + "IADD3 R1, R1, -0x40, RZ\nLDL R0, [R1+0x8]", UNKNOWN),  # another frame
        (STACK + "LDL R0, [R7]", UNKNOWN),  # the same address in all threads, each with its own
        (STACK + "LD.E R0, [R6.64]", UNKNOWN),  # may be local
        (STACK + "LDG.E R0, [R6.64]", SAME),
    ],
)
def test_local_memory_is_each_threads_own(lines, expected):
    assert address(lines) == expected


def test_a_branch_on_what_an_array_of_the_thread_holds_may_split():
    loaded = "LDL R5, [R7]\nISETP.NE.AND P0, PT, R5, RZ, PT\n@P0 BRA `(.L_1)\nEXIT"
    assert followed(loaded).divergent == {32}
    assert not followed(loaded.replace("LDL", "LDG.E")).divergent


def test_the_register_that_a_load_fills_is_an_operand_of_its_own():
    """nvdisasm until 13.0 writes no comma behind it."""
    assert arguments("R25[R1+0x110]") == ("R25", "[R1+0x110]")
    assert arguments("R6,[R3+0x8]") == ("R6", "[R3+0x8]")
    assert arguments("R2,desc[UR4][R2.64]") == ("R2", "desc[UR4][R2.64]")
    assert arguments("c[0x0][0x160],R4") == ("c[0x0][0x160]", "R4")
