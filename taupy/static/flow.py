"""Control flow of a function: basic blocks, dominators, loops and their nesting.

Blocks end at jumps and exits, not at calls and barriers. Loops are natural loops: the target of a
back edge dominates its source (Aho, Lam, Sethi, Ullman, Compilers, 2nd edition, 9.6); dominators as
in Cooper, Harvey, Kennedy, A Simple, Fast Dominance Algorithm, 2001.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from taupy.static.listing import Instruction

_TARGET = re.compile(r"-?0x[0-9a-f]+\Z")
_ENDS = frozenset({"EXIT", "RET", "BRX", "BRXU", "JMX", "JMXU", "KILL", "RTT"})
_JUMPS = frozenset({"BRA", "JMP"})
ANY = "?"
"""The callee of a call of a computed address."""

_COMPUTED = frozenset({"BRX", "BRXU", "JMX", "JMXU"})


@dataclass(slots=True)
class Block:
    """A basic block: instructions that run one after another.

    Attributes:
        start, end: positions in the list of instructions; the end is exclusive.
        to: its successors.
        depth: number of loops around it.
    """

    start: int
    end: int
    to: list[int] = field(default_factory=list)
    depth: int = 0


@dataclass(slots=True)
class LoopBody:
    """A loop: its header, all its blocks, and its depth, 1 for an outermost loop."""

    header: int
    blocks: set[int]
    depth: int = 1


@dataclass
class Flow:
    """Attributes:
    order: reachable blocks in reverse postorder.
    above: block -> its immediate dominator; the entry's is itself.
    irreducible: back edges into a loop with several entries.
    indirect: whether there are jumps to computed addresses.
    calls: names of the callees, `ANY` for a computed address.
    routines: name -> first block, for routines within the function.
    """

    blocks: list[Block]
    order: list[int]
    above: dict[int, int]
    loops: list[LoopBody]
    irreducible: int
    indirect: bool
    calls: tuple[str, ...]
    routines: dict[str, int]


def flow(code: Sequence[Instruction], symbols: Mapping[str, int]) -> Flow:
    """The control flow of a function.

    Args:
        symbols: name -> offset of the routines within it, by the names used in calls. A call of
            a computed address may call any of them.
    """
    at = {instruction.offset: place for place, instruction in enumerate(code)}
    names = _calls(code)
    callable_names = symbols if ANY in names else names
    routines = {name: at[symbols[name]] for name in callable_names if symbols.get(name) in at}
    routines = {name: place for name, place in routines.items() if place}  # 0: the function itself
    called = list(routines.values())
    blocks, number = _blocks(code, at, called)
    _connect(code, at, blocks, number)
    starts = [0, *dict.fromkeys(number[place] for place in called)] if blocks else []
    indirect = _connect_computed(code, blocks, starts)
    order = _reachable(blocks, starts)
    above = _dominators(blocks, order, starts)
    loops, irreducible = _loops(blocks, order, above)
    return Flow(
        blocks,
        order=order,
        above=above,
        loops=loops,
        irreducible=irreducible,
        indirect=indirect,
        calls=names,
        routines={name: number[place] for name, place in routines.items()},
    )


def target(instruction: Instruction) -> int | None:
    """The target offset of a jump; None if it has none."""
    texts = [text for text in instruction.arguments if _TARGET.match(text)]
    return int(texts[-1], 16) if texts else None


def is_jump(instruction: Instruction) -> bool:
    """Whether this is a jump to a fixed offset. A call to an offset within the function counts,
    too: as the compiler uses it, it never returns."""
    return instruction.name in _JUMPS or (
        instruction.name == "CALL"
        and "subroutine-call" not in instruction.attributes
        and target(instruction) is not None
    )


def is_conditional(instruction: Instruction) -> bool:
    """Whether execution may continue with the next instruction: a predicate precedes the
    instruction or is among its operands."""
    if instruction.predicate and instruction.predicate not in ("PT", "UPT"):
        return True
    return instruction.name in _JUMPS and (
        not {"DIV", "CONV"}.isdisjoint(instruction.modifiers)
        or any(re.match(r"!?U?P\d", argument) is not None for argument in instruction.arguments)
    )


def _calls(code: Sequence[Instruction]) -> tuple[str, ...]:
    """The names of all callees, ANY for computed addresses."""
    names = []
    for instruction in code:
        if instruction.name == "CALL" and not is_jump(instruction):
            plain = instruction.arguments[-1].strip("`()") if instruction.arguments else ""
            by_register = len(instruction.arguments) > 1 or re.match(r"U?R\d", plain)
            names.append(ANY if by_register else plain)
    return tuple(names)


def _blocks(
    code: Sequence[Instruction], at: Mapping[int, int], called: Sequence[int]
) -> tuple[list[Block], dict[int, int]]:
    """The blocks, and a mapping: position of a first instruction -> number of its block."""
    leaders = {0, *called} if code else set()
    for place, instruction in enumerate(code):
        if is_jump(instruction) or instruction.name in _ENDS:
            leaders.add(place + 1)
            goal = at.get(target(instruction) or 0) if is_jump(instruction) else None
            if goal is not None:
                leaders.add(goal)
    starts = sorted(place for place in leaders if place < len(code))
    ends = [*starts[1:], len(code)]
    blocks = [Block(start, end) for start, end in zip(starts, ends, strict=True)]
    return blocks, {start: number for number, start in enumerate(starts)}


def _connect(
    code: Sequence[Instruction],
    at: Mapping[int, int],
    blocks: Sequence[Block],
    number: Mapping[int, int],
) -> None:
    for place, block in enumerate(blocks):
        last = code[block.end - 1]
        ends = last.name in _ENDS or is_jump(last)
        if is_jump(last) and (goal := at.get(target(last) or 0)) is not None:
            block.to.append(number[goal])
        if (not ends or is_conditional(last)) and place + 1 < len(blocks):
            block.to.append(place + 1)


def _connect_computed(
    code: Sequence[Instruction], blocks: Sequence[Block], starts: Sequence[int]
) -> bool:
    """Connect jumps to computed addresses, to which a `switch` is compiled, with all blocks that
    have no other predecessor, except padding at the end of the function."""
    computed = [jump for jump in blocks if code[jump.end - 1].name in _COMPUTED]
    if computed:
        reached = {*starts, *(goal for block in blocks for goal in block.to)}
        for place, block in enumerate(blocks):
            if place not in reached and place not in block.to and code[block.start].name != "NOP":
                for jump in computed:
                    jump.to.append(place)
    return bool(computed)


def _reachable(blocks: Sequence[Block], starts: Sequence[int]) -> list[int]:
    """Reverse postorder from the entry and from each routine that is called."""
    seen: set[int] = set()
    done: list[int] = []
    for start in reversed(starts):
        if start in seen:
            continue
        seen.add(start)
        stack = [(start, iter(blocks[start].to))]
        while stack:
            place, rest = stack[-1]
            goal = next((successor for successor in rest if successor not in seen), None)
            if goal is None:
                stack.pop()
                done.append(place)
            else:
                seen.add(goal)
                stack.append((goal, iter(blocks[goal].to)))
    return done[::-1]


def _dominators(
    blocks: Sequence[Block], order: Sequence[int], starts: Sequence[int]
) -> dict[int, int]:
    rank = {block: place for place, block in enumerate(order)}
    before: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for goal in blocks[block].to:
            before[goal].append(block)
    above = {start: start for start in starts}
    changed = True
    while changed:
        changed = False
        for block in order:
            reached = [predecessor for predecessor in before[block] if predecessor in above]
            if block in starts or not reached:
                continue
            best = reached[0]
            for predecessor in reached[1:]:
                best = _common(above, rank, best, predecessor)
            if above.get(block) != best:
                above[block] = best
                changed = True
    return above


def _common(above: Mapping[int, int], rank: Mapping[int, int], first: int, second: int) -> int:
    while first != second:
        if rank[first] > rank[second]:
            first, second = second, first
        if above[second] == second:
            return first  # different entries without a common dominator: use the earlier one
        second = above[second]
    return first


def _loops(
    blocks: Sequence[Block], order: Sequence[int], above: Mapping[int, int]
) -> tuple[list[LoopBody], int]:
    rank = {block: place for place, block in enumerate(order)}
    before: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for goal in blocks[block].to:
            before[goal].append(block)
    bodies: dict[int, set[int]] = {}
    irreducible = 0
    for block in order:
        for goal in blocks[block].to:
            if rank[goal] > rank[block]:
                continue
            if _dominates(above, goal, block):
                bodies.setdefault(goal, {goal}).update(_body(before, goal, block))
            else:
                irreducible += 1
    loops = [LoopBody(header, body) for header, body in bodies.items()]
    for loop in loops:
        loop.depth = sum(loop.header in other.blocks for other in loops)
    for block in order:
        blocks[block].depth = sum(block in loop.blocks for loop in loops)
    loops.sort(key=lambda loop: blocks[loop.header].start)
    return loops, irreducible


def _dominates(above: Mapping[int, int], upper: int, lower: int) -> bool:
    while lower != upper and above[lower] != lower:
        lower = above[lower]
    return lower == upper


def _body(before: Mapping[int, Sequence[int]], header: int, tail: int) -> set[int]:
    """The blocks from which the tail can be reached without passing the header."""
    inside, left = {tail}, [tail]
    while left:
        block = left.pop()
        if block != header:
            new = [earlier for earlier in before[block] if earlier not in inside]
            inside.update(new)
            left += new
    return inside
