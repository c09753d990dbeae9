"""A kernel's record from its listing: instruction mix, control flow, memory accesses, registers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from taupy.catalog import opcodes
from taupy.catalog.opcodes import UNKNOWN, Opcode
from taupy.model.kernel_code import (
    LEFT_TO_THE_LAUNCH,
    MULTIPLY_ADD,
    Access,
    Count,
    KernelCode,
    LaunchLimits,
    Line,
    Loop,
)
from taupy.static import flow, values
from taupy.static.facts import Live, Resources
from taupy.static.flow import Flow
from taupy.static.listing import Instruction, Listing

_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "F16": 2, "BF16": 2, "64": 8, "F64": 8,
           "128": 16, "256": 32}  # fmt: skip
_MEMORY = ("load", "store", "atomic")
_MULTIPLY_ADDS = frozenset({"DFMA", "FFMA", "FFMA2", "FFMA32I", "HFMA2", "HFMA2_32I"})


@dataclass(frozen=True)
class Circumstances:
    """What is known about a kernel besides its listing.

    Attributes:
        symbols: name -> offset of the routines within it.
        lines: offset -> "file:line".
    """

    module: str
    file: str
    chip: str
    compiler: str = ""
    resources: Resources | None = None
    live: Live | None = None
    symbols: Mapping[str, int] = field(default_factory=dict)
    lines: Mapping[int, str] = field(default_factory=dict)
    launch: LaunchLimits = LEFT_TO_THE_LAUNCH
    is_kernel: bool = True


def kernel(listing: Listing, about: Circumstances) -> KernelCode:
    """The record of a listed function."""
    code = listing.instructions
    control = flow.flow(code, about.symbols)
    followed = values.followed(code, control, about.is_kernel)
    depth = {
        place: control.blocks[block].depth
        for block in control.order
        for place in range(control.blocks[block].start, control.blocks[block].end)
    }
    table = opcodes.table(round(float(about.chip) * 10))
    branches = [code[place] for place in depth if _branches(code[place])]
    divergent = None
    if followed is not None:
        divergent = sum(instruction.offset in followed.divergent for instruction in branches)
    usage = about.resources
    return KernelCode(
        name=listing.name,
        module=about.module,
        file=about.file,
        chip=about.chip,
        compiler=about.compiler,
        registers=usage.registers if usage else None,
        shared_bytes=usage.shared if usage else None,
        stack_bytes=usage.stack if usage else None,
        local_bytes=usage.local if usage else None,
        constants=usage.constants if usage else (),
        peak_live=about.live.registers if about.live else None,
        peak_at=about.live.offset if about.live else None,
        instructions=len(depth),
        blocks=len(control.order),
        branches=len(branches),
        divergent=divergent,
        calls=control.calls,
        indirect=control.indirect,
        irreducible=control.irreducible,
        counts=_counts(code, depth, table),
        accesses=_accesses(code, depth, table, followed),
        loops=_loops(code, control, about.lines),
        lines=_lines(code, depth, table, about.lines),
        launch=about.launch,
        is_kernel=about.is_kernel,
    )


def _branches(instruction: Instruction) -> bool:
    return flow.is_conditional(instruction) and (
        flow.is_jump(instruction) or instruction.name in ("EXIT", "RET")
    )


def what(instruction: Instruction, table: Mapping[str, Opcode]) -> Opcode:
    """The kind of an instruction; arithmetic ones that are used as moves count as moves."""
    opcode = table.get(instruction.name, UNKNOWN)
    if opcode.kind == "unknown":
        return opcode
    if instruction.name == "IMAD" and (
        "MOV" in instruction.modifiers or _multiplies_nothing(instruction)
    ):
        return Opcode("move", opcode.pipe)
    if instruction.name in ("HFMA2", "HADD2") and _multiplies_nothing(instruction):
        return Opcode("move", opcode.pipe)
    if instruction.name == "LDGSTS":
        return Opcode("load", opcode.pipe, "global")
    return opcode


def _multiplies_nothing(instruction: Instruction) -> bool:
    return [text.lstrip("-") for text in instruction.arguments[1:3]] == ["RZ", "RZ"]


def width(instruction: Instruction) -> int:
    """Bytes that each thread moves."""
    if instruction.name in ("LDSM", "STSM", "MOVM"):
        number = next((int(m) for m in instruction.modifiers if m in ("1", "2", "4")), 1)
        return 4 * number
    return next((_WIDTHS[m] for m in reversed(instruction.modifiers) if m in _WIDTHS), 4)


def _detail(instruction: Instruction, opcode: Opcode) -> str:
    if opcode.kind == "tensor":
        return instruction.opcode
    if opcode.kind == "unknown":
        return instruction.name
    if instruction.name in _MULTIPLY_ADDS:
        return MULTIPLY_ADD if opcode.kind != "move" else ""
    return f"{opcode.space} {width(instruction)}" if opcode.kind in _MEMORY else ""


def _counts(
    code: Sequence[Instruction], depth: Mapping[int, int], table: Mapping[str, Opcode]
) -> tuple[Count, ...]:
    number: Counter[tuple[str, str, str, int]] = Counter()
    for place, around in depth.items():
        instruction = code[place]
        opcode = what(instruction, table)
        number[opcode.kind, _detail(instruction, opcode), opcode.pipe, around] += 1
    return tuple(Count(*key, many) for key, many in sorted(number.items()))


def _accesses(
    code: Sequence[Instruction],
    depth: Mapping[int, int],
    table: Mapping[str, Opcode],
    followed: values.Followed | None,
) -> tuple[Access, ...]:
    spilled = _spilled([code[place] for place in depth])
    number: Counter[tuple[str, str, int, str, int | None, int, bool]] = Counter()
    for place, around in depth.items():
        instruction = code[place]
        opcode = what(instruction, table)
        if opcode.kind not in _MEMORY:
            continue
        pattern, stride = _pattern(instruction, followed)
        spill = instruction.offset in spilled
        number[opcode.kind, opcode.space, width(instruction), pattern, stride, around, spill] += 1
    order = sorted(number.items(), key=lambda item: tuple(map(str, item[0])))
    return tuple(Access(*key, many) for key, many in order)


def _pattern(instruction: Instruction, followed: values.Followed | None) -> tuple[str, int | None]:
    address = followed.addresses.get(instruction.offset) if followed else None
    if (
        address is None
        or address.step is None
        or instruction.name in ("LDL", "STL", "LDSM", "STSM")
    ):
        return "unknown", None
    if math.isinf(address.step):
        return "launch", None
    step = int(address.step)
    if step == 0:
        return ("unknown", None) if address.rows else ("same", None)
    return ("contiguous", None) if abs(step) == width(instruction) else ("strided", step)


def _spilled(code: Sequence[Instruction]) -> set[int]:
    """Offsets of instructions that spill registers or reload them.

    If the tool shows the compiler's annotations, these are used; otherwise accesses to fixed stack
    addresses that are both written and read.
    """
    annotated = {instruction.offset for instruction in code if instruction.spill}
    if annotated:
        return annotated
    local = [instruction for instruction in code if instruction.name in ("LDL", "STL")]
    places: dict[str, dict[str, set[str]]] = {}
    for instruction in local:
        place = next((text for text in instruction.arguments if text.startswith("[R1")), "")
        if place:
            places.setdefault(place, {}).setdefault(instruction.name, set()).add("")
    both = {place for place, names in places.items() if len(names) == 2}
    # An indexed array on the stack is also accessed at other addresses.
    if any(
        not any(text.startswith("[R1") for text in instruction.arguments) for instruction in local
    ):
        return set()
    return {instruction.offset for instruction in local if both.intersection(instruction.arguments)}


def _loops(
    code: Sequence[Instruction], control: Flow, lines: Mapping[int, str]
) -> tuple[Loop, ...]:  # fmt: skip
    result = []
    for loop in control.loops:
        start = code[control.blocks[loop.header].start].offset
        places = [
            place
            for block in loop.blocks
            for place in range(control.blocks[block].start, control.blocks[block].end)
        ]
        barriers = sum(code[place].name == "BAR" for place in places)
        result.append(Loop(start, loop.depth, len(places), barriers, lines.get(start)))
    return tuple(result)


def _lines(
    code: Sequence[Instruction],
    depth: Mapping[int, int],
    table: Mapping[str, Opcode],
    lines: Mapping[int, str],
) -> tuple[Line, ...]:
    """Instructions by source line, in line order."""
    spilled = _spilled([code[place] for place in depth])
    by_place: dict[str, Line] = {}
    for place, around in depth.items():
        instruction = code[place]
        if where := lines.get(instruction.offset):
            line = by_place.get(where) or Line(where, 0, 0, 0, 0)
            by_place[where] = Line(
                where,
                depth=max(line.depth, around),
                instructions=line.instructions + 1,
                accesses=line.accesses + (what(instruction, table).kind in _MEMORY),
                spills=line.spills + (instruction.offset in spilled),
            )
    return tuple(sorted(by_place.values(), key=_in_source))


def _in_source(line: Line) -> tuple[str, int]:
    file, _, number = line.place.rpartition(":")
    return file, int(number)
