"""Data-flow analysis of how values differ between the threads of a warp: which branches may
diverge, and the stride between the addresses of neighbouring threads.

A value has the form `step * threadIdx.x + a uniform part`. Where two paths with different values
join, the value is uniform only if the branch above did not diverge. Values from memory at varying
addresses, from atomics, or from operations that are not modelled vary in an unknown way. Blocks are
assumed to be a multiple of 32 threads wide; in narrower blocks, a warp contains several rows.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from taupy.static.flow import Flow, is_conditional, is_jump
from taupy.static.listing import Instruction

MOST_INSTRUCTIONS = 20_000
"""Longer functions are not analysed: it would take minutes."""

MOST_ROUNDS = 40

_TEXTS = 1 << 15
"""Size of the caches of parsed operands: compilers emit the same ones again and again."""


class Value(NamedTuple):
    """Attributes:
    step: the difference between neighbouring threads; 0 if uniform, infinite if only the launch
        determines it, None if unknown.
    constant: the uniform part, if it is a known number.
    rows: whether it also depends on threadIdx.y or z.
    """

    step: float | None
    constant: int | None = None
    rows: bool = False

    @property
    def varies(self) -> bool:
        return self.step != 0 or self.rows


SAME = Value(0)
UNKNOWN = Value(None)
_ZERO = Value(0, 0)
_THREAD = Value(1, 0)

_REGISTER = re.compile(r"U?R(?:Z|\d+)|U?P(?:T|\d)")
_TERM = re.compile(r"([+-]?)\s*(?:0x([0-9a-f]+)|(U?R(?:Z|\d+))(?:\.(X\d+|\w+))?(?:\.\w+)*)")
_SPECIAL = {
    "SR_TID.X": _THREAD,
    "SR_LANEID": Value(1),
    "SR_TID.Y": Value(0, None, True),
    "SR_TID.Z": Value(0, None, True),
}
_VARYING_SPECIAL = ("SR_TID", "SR_LANEMASK", "SR_EQMASK", "SR_LTMASK", "SR_GEMASK", "SR_GTMASK",
                    "SR_LEMASK")  # fmt: skip
_WARP_WIDE = frozenset({"VOTE", "VOTEU", "REDUX", "CREDUX", "R2UR", "S2UR", "ELECT"})
_LOADS = frozenset({"LDG", "LDS", "LDC", "ULDC", "LDCU"})
_MATRICES = frozenset({"LDSM", "LDT", "LDTM", "TEX", "TLD", "TLD4", "HMMA", "IMMA", "DMMA", "BMMA",
                       "HGMMA", "IGMMA", "QGMMA", "BGMMA", "QMMA", "OMMA"})  # fmt: skip
_NEVER_SAME = _MATRICES | {"ATOM", "ATOMG", "ATOMS", "SHFL", "MATCH"}
_FLAG_FIRST = frozenset({"LOP3", "ULOP3", "SHFL", "ATOM", "ATOMG", "ATOMS", "MATCH", "ELECT"})
"""Instructions whose result follows a predicate."""

_NO_RESULT = frozenset({"ST", "STG", "STL", "STS", "RED", "REDG", "BRA", "EXIT", "RET", "CALL",
                        "BAR", "BSSY", "BSYNC", "WARPSYNC", "NOP", "MEMBAR", "STSM", "DEPBAR",
                        "LDGDEPBAR", "JMP", "BREAK", "YIELD"})  # fmt: skip

State = dict[str, Value]
"""Registers, and words of the stack by their address as instructions write it: `[R1+0x10]`. Local
memory is each thread's own, so that a word that was not seen written is unknown."""

_WORD = re.compile(r"\[R1(?:\.\w+)*(?:\+(-?)0x([0-9a-f]+))?\]")
_STACK = "[R1"
_ARGUMENTS = {f"R{number}": UNKNOWN for number in range(255) if number != 1}  # R1: the stack


@dataclass
class Followed:
    """Attributes:
    divergent: offsets of branches that may diverge.
    addresses: offset of an instruction that accesses memory -> its address.
    """

    divergent: set[int] = field(default_factory=set)
    addresses: dict[int, Value] = field(default_factory=dict)


def followed(code: Sequence[Instruction], flow: Flow, is_kernel: bool = True) -> Followed | None:
    """Analyse a function until nothing changes; None if it is too long or takes too many rounds.
    A kernel's arguments are uniform, those of other functions unknown."""
    if len(code) > MOST_INSTRUCTIONS:
        return None
    states: dict[int, State] = {} if is_kernel else {0: dict(_ARGUMENTS)}
    result = Followed()
    changed = set(flow.order)
    for _ in range(MOST_ROUNDS):
        if not changed:
            return result
        for block in flow.order:
            if block in changed:
                changed.discard(block)
                changed |= _walk(code, flow, block, states, result)
    return None


def _walk(
    code: Sequence[Instruction], flow: Flow, block: int, states: dict[int, State], result: Followed
) -> set[int]:
    """Analyse one block; return the blocks whose initial state has changed as a result."""
    state = dict(states.setdefault(block, {}))
    changed: set[int] = set()
    body = flow.blocks[block]
    for place in range(body.start, body.end):
        instruction = code[place]
        if address := _address(instruction.arguments):
            result.addresses[instruction.offset] = address_value(address, state)
        if is_conditional(instruction) and _splits(instruction, state):
            result.divergent.add(instruction.offset)
        if instruction.name == "CALL" and not is_jump(instruction):
            changed |= _called(flow, instruction, states, state)
        _step(instruction, state)
    for goal in body.to:
        split = code[flow.blocks[flow.above[goal]].end - 1].offset in result.divergent
        if _merged(states, goal, state, split):
            changed.add(goal)
    return changed


def _called(
    flow: Flow, call: Instruction, states: dict[int, State], state: State
) -> set[int]:  # fmt: skip
    """Pass the caller's state to a routine; registers are unknown after its return."""
    routine = flow.routines.get(call.arguments[-1].strip("`()"))
    goals = flow.routines.values() if routine is None else (routine,)  # by address: any of them
    changed = {goal for goal in goals if _merged(states, goal, state, False)}
    state.update({name: UNKNOWN for name in state if name[0] in "R[" and name != "R1"})
    return changed


def _merged(states: dict[int, State], goal: int, state: State, split: bool) -> bool:
    """Merge a state into a block's initial state; return whether that changed it."""
    before = states.get(goal)
    if before is None:
        states[goal] = dict(state)
        return True
    changed = False
    for name, value in state.items():
        if before.get(name) is value and (not split or value is UNKNOWN):
            continue  # a shortcut for nearly all registers; the code below gives the same result
        joined = _joined(before[name], value, split) if name in before else value
        if joined != before.get(name):
            before[name] = joined
            changed = True
    return changed


def _joined(left: Value, right: Value, split: bool) -> Value:
    if left == right and (left.constant is not None or not split):
        return left
    if split or left.step != right.step:
        return left if left == right and left.varies else UNKNOWN
    return Value(left.step, None, left.rows or right.rows)


def _splits(instruction: Instruction, state: State) -> bool:
    if {"DIV", "CONV"} & set(instruction.modifiers):
        return False
    names = [instruction.predicate.lstrip("!")] if instruction.predicate else []
    names += _flags(instruction.arguments)
    return _any_varies([name for name in names if not name.startswith("U")], state)


def _any_varies(names: Sequence[str], state: State) -> bool:
    return any(state.get(name, SAME).varies for name in names)


class _Operand(NamedTuple):
    """Attributes:
    register: empty for numbers and other uniform operands, such as constants.
    fixed: the value, if there is no register.
    part: whether it is only a byte or a half of the register.
    """

    register: str
    fixed: Value = SAME
    negative: bool = False
    part: bool = False


@lru_cache(_TEXTS)
def _operand(text: str) -> _Operand:
    plain = text.removesuffix(".reuse").strip("|")
    negative = plain.startswith(("-", "~"))
    plain = plain.lstrip("-~!|+")
    if match := _REGISTER.match(plain):
        part = plain[match.end() :].startswith((".H", ".B"))
        if match[0] in ("RZ", "URZ"):
            return _Operand("", SAME if part else _ZERO)
        return _Operand(match[0], SAME, negative, part)
    if re.match(r"0x[0-9a-f]+\Z|\d+\Z", plain):
        number = int(plain, 0)
        return _Operand("", Value(0, -number if negative else number))
    return _Operand("")


def value(text: str, state: Mapping[str, Value]) -> Value:
    """The value of an operand."""
    register, fixed, negative, part = _operand(text)
    if not register:
        return fixed
    held = state.get(register, SAME)
    if part:
        held = UNKNOWN if held.varies else SAME
    return _times(held, -1) if negative else held


@lru_cache(_TEXTS)
def _address(arguments: tuple[str, ...]) -> str | None:
    """The operand that is an address."""
    return next((text for text in arguments if text.endswith("]")), None)


@lru_cache(_TEXTS)
def _numbers(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The operands that are not predicates."""
    return tuple(text for text in arguments if not re.match(r"!?U?P(T|\d)", text))


@lru_cache(_TEXTS)
def _flags(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The predicates among operands."""
    return tuple(text.lstrip("!") for text in arguments if re.match(r"!?U?P\d\Z", text))


def _sum(values: Sequence[Value]) -> Value:
    if any(term.step is None for term in values):
        return UNKNOWN
    step = sum(term.step or 0 for term in values)
    constants = [term.constant for term in values]
    constant = None if None in constants else sum(term or 0 for term in constants)
    if math.isnan(step):
        return UNKNOWN
    return Value(step, constant, any(term.rows for term in values))


def _times(term: Value, factor: int) -> Value:
    if term.step is None or factor == 0:
        return _ZERO if factor == 0 else UNKNOWN
    constant = None if term.constant is None else term.constant * factor
    return Value(term.step * factor, constant, term.rows)


def _product(left: Value, right: Value) -> Value:
    for first, second in ((left, right), (right, left)):
        if first.step == 0 and first.constant is not None and not first.rows:
            return _times(second, first.constant)
    if not left.varies and not right.varies:
        return SAME
    if left.step is None or right.step is None or (left.step and right.step):
        return UNKNOWN
    rows = left.rows or right.rows
    return Value(math.inf if left.step or right.step else 0, None, rows)


@lru_cache(_TEXTS)
def _terms(text: str) -> tuple[tuple[str, Value, int], ...]:
    """The terms of an address: registers or numbers, each with its factor."""
    terms = []
    for sign, number, name, modifier in _TERM.findall(text[text.rindex("[") + 1 : -1]):
        scale = int(modifier[1:]) if re.match(r"X\d", modifier) else 1
        fixed = Value(0, int(number, 16)) if number else SAME
        terms.append((name, fixed, -scale if sign == "-" else scale))
    return tuple(terms)


def address_value(text: str, state: Mapping[str, Value]) -> Value:
    """The value of an address such as `[R2.64+UR4+0x10]` or `desc[UR4][R2.64]`."""
    return _sum(
        [
            _times(value(name, state) if name else fixed, scale)
            for name, fixed, scale in _terms(text)
        ]
    )


def _step(instruction: Instruction, state: State) -> None:
    """Apply the effect of an instruction to the registers and the stack."""
    if instruction.name in ("STL", "ST"):
        _keep(instruction, state)
    if instruction.name in _NO_RESULT or not instruction.arguments:
        return
    targets, sources = _apart(instruction.name, instruction.modifiers, instruction.arguments)
    if not targets:
        return
    result = _result(instruction, sources, state)
    guard = state.get(instruction.predicate.lstrip("!"), SAME) if instruction.predicate else None
    kept = _words(instruction, len(targets)) if instruction.name == "LDL" else []
    for place, name in enumerate(targets):
        new = state.get(kept[place], UNKNOWN) if kept else result
        if place and not kept and not name.startswith(("P", "UP")) and new.step not in (0, None):
            new = UNKNOWN
        if name.startswith(("P", "UP")):
            new = _flag(instruction, sources, state, result)
        if guard is not None and name in state:
            new = _joined(state[name], new, guard.varies)
        elif guard is not None and guard.varies and not new.varies:
            new = UNKNOWN
        state[name] = new
        if name == "R1":  # the words have other addresses now
            for word in [word for word in state if word.startswith(_STACK)]:
                del state[word]


def _keep(instruction: Instruction, state: State) -> None:
    """Note what a store leaves on the stack; at an unknown address, it may be anywhere there."""
    number = 4 if "128" in instruction.modifiers else 2 if "64" in instruction.modifiers else 1
    words = _words(instruction, number)
    if not words:
        state.update({word: UNKNOWN for word in state if word.startswith(_STACK)})
        return
    text = instruction.arguments[-1].removesuffix(".reuse")
    registers = [text] * number if text == "RZ" else _wide(text, "STL", instruction.modifiers)
    guard = state.get(instruction.predicate.lstrip("!"), SAME) if instruction.predicate else None
    for word, register in zip(words, registers, strict=True):
        new = value(register, state)
        if guard is not None:
            new = _joined(state.get(word, UNKNOWN), new, guard.varies)
        state[word] = new


def _words(instruction: Instruction, number: int) -> list[str]:
    """The words of the stack that an instruction reads or writes; none if that is not known."""
    match = _WORD.fullmatch(_address(instruction.arguments) or "")
    parts = {"U8", "S8", "U16", "S16", "8", "16"} & set(instruction.modifiers)
    if match is None or parts or instruction.name == "ST":
        return []
    first = int(match[2] or "0", 16) * (-1 if match[1] else 1)
    return [f"{_STACK}{first + 4 * at:+d}]" for at in range(number)]


@lru_cache(_TEXTS)
def _apart(
    name: str, modifiers: tuple[str, ...], arguments: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The registers written, predicates last, and the operands read."""
    registers: list[str] = []
    flags: list[str] = []
    place = 0
    for place, text in enumerate(arguments):
        match = _REGISTER.fullmatch(text)
        flag = text.startswith(("P", "UP"))
        second = place == 1 and name in _FLAG_FIRST and not registers
        if match is None or (place and not flag and not second):
            break
        if flag:
            flags += [] if text.endswith("PT") else [text]
        elif not text.endswith("RZ"):
            registers += _wide(text, name, modifiers)
    else:
        place += 1
    return (*registers, *flags), arguments[place:]


def _wide(text: str, name: str, modifiers: Sequence[str]) -> list[str]:
    """The registers of a result that takes several."""
    number = 1
    if {"64", "WIDE", "F64"} & set(modifiers) or name in ("DADD", "DMUL", "DFMA"):
        number = 2
    elif "128" in modifiers or name in _MATRICES:
        number = 4
    match = re.fullmatch(r"(U?R)(\d+)", text)
    if match is None or number == 1:
        return [text]
    return [f"{match[1]}{int(match[2]) + at}" for at in range(number)]


def _flag(
    instruction: Instruction, sources: tuple[str, ...], state: State, result: Value
) -> Value:  # fmt: skip
    """A predicate: the same for all threads if all its inputs are."""
    if instruction.name == "LOP3":  # whether any bit of the result is set
        varies = result.varies or _any_varies(_flags(sources), state)
    elif instruction.name in _WARP_WIDE or instruction.name in ("PLOP3", "UPLOP3"):
        varies = instruction.name == "PLOP3" and _any_varies(_flags(sources), state)
    else:
        varies = any(value(text, state).varies for text in sources if "[" not in text)
    return UNKNOWN if varies else SAME


def _result(instruction: Instruction, sources: tuple[str, ...], state: State) -> Value:
    name = instruction.name
    if name in ("S2R", "CS2R", "S2UR", "CS2UR"):
        text = sources[0] if sources else ""
        plain = SAME if not text.startswith(_VARYING_SPECIAL) else UNKNOWN
        return _SPECIAL.get(text, plain)
    if name in _NEVER_SAME:
        return UNKNOWN
    if name in ("LDL", "LD"):  # an address of local memory is another word in each thread
        return UNKNOWN
    if name in _LOADS:
        address = _address(sources)
        return UNKNOWN if address and address_value(address, state).varies else SAME
    if name in _WARP_WIDE:
        return SAME
    if name == "HFMA2" and [text.lstrip("-") for text in sources[:2]] == ["RZ", "RZ"]:
        return _halves(sources[2:])
    values = [value(text, state) for text in _numbers(sources)]
    followed = _RULES.get(name.removeprefix("U"), _other)(instruction, values)
    if name in ("SEL", "FSEL", "USEL"):
        return UNKNOWN if _any_varies(_flags(sources), state) else followed
    return followed


def _halves(texts: Sequence[str]) -> Value:
    """A 32-bit number, written by the compiler as two in half precision, the lower one last."""
    try:
        high, low = (struct.unpack("<H", struct.pack("<e", float(text)))[0] for text in texts)
    except (ValueError, OverflowError):
        return SAME
    return Value(0, high << 16 | low)


def _other(instruction: Instruction, values: Sequence[Value]) -> Value:
    return UNKNOWN if any(value.varies for value in values) else SAME


def _moved(instruction: Instruction, values: Sequence[Value]) -> Value:
    return values[0] if values else SAME


def _added(instruction: Instruction, values: Sequence[Value]) -> Value:
    return _sum(values)


def _multiplied(instruction: Instruction, values: Sequence[Value]) -> Value:
    if "HI" in instruction.modifiers or len(values) < 3:
        return _other(instruction, values)
    return _sum((_product(values[0], values[1]), values[2]))


def _scaled(instruction: Instruction, values: Sequence[Value]) -> Value:
    """LEA: the first operand shifted by the last, plus the second."""
    if "HI" in instruction.modifiers or len(values) < 3 or values[-1].constant is None:
        return _other(instruction, values)
    return _sum((_times(values[0], 1 << min(values[-1].constant, 63)), values[1]))


def _shifted(instruction: Instruction, values: Sequence[Value]) -> Value:
    if len(values) < 2 or values[1].constant is None or not 0 <= values[1].constant < 64:
        return _other(instruction, values)
    if "L" in instruction.modifiers and "HI" not in instruction.modifiers:
        return _times(values[0], 1 << values[1].constant)
    wide = values[2] if len(values) > 2 and values[0] == _ZERO else values[0]
    # All threads of a warp have the same threadIdx.x / 32.
    if wide == _THREAD and values[1].constant >= 5:
        return SAME
    return _other(instruction, values)


_AND, _OR, _XOR = 0xC0, 0xFC, 0x3C
_ALL_BITS = 0xFFFFFFFF


def _bits(instruction: Instruction, values: Sequence[Value]) -> Value:
    """LOP3 of a value and a number. It is known if only bits below the step change, or if a mask is
    applied to a multiple of threadIdx.x in a warp of 32 consecutive threads."""
    if len(values) < 4 or values[1].constant is None or not isinstance(values[0].step, int):
        return _other(instruction, values)
    value, number, table = values[0], values[1].constant & _ALL_BITS, values[3].constant
    if not value.step or table not in (_AND, _OR, _XOR):
        return _other(instruction, values)
    step = value.step & -value.step  # the largest power of two that divides it
    changed = number ^ _ALL_BITS if table == _AND else number
    if changed < step:  # the lower bits, which are uniform
        return Value(value.step, None, value.rows)
    if table == _AND and value == (step, 0, False):
        lanes = 31 * step
        return SAME if not number & lanes else Value(step) if number & lanes == lanes else UNKNOWN
    return _other(instruction, values)


_RULES = {
    "MOV": _moved,
    "IADD": _added,
    "IADD3": _added,
    "IADD64": _added,
    "VIADD": _added,
    "IMAD": _multiplied,
    "LEA": _scaled,
    "SHF": _shifted,
    "LOP3": _bits,
}
