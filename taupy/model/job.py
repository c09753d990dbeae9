"""Ranks of a parallel job: their node numbers, and a node's metadata about its rank."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RANK, RANKS, ATTEMPT, EXIT = "Rank", "Ranks", "Attempt", "Exit Code"
"""Metadata of nodes: the rank that a process belongs to, the number of ranks, the attempt of the
job, from 1, and the exit code of the rank's own process."""

HOST, STARTED, ENDED = "Hostname", "Starting Timestamp", "Ending Timestamp"
"""Metadata of nodes: the host, and when the process began and ended by its clock [us]."""

PROCESS = (HOST, "Process ID", STARTED)
"""Metadata of nodes that identify a process uniquely."""

_NODES = 10_000_000
"""Node numbers per attempt: those of the second attempt begin at this number."""


def node_of(rank: int, attempt: int) -> int:
    """The node of the process that the launcher started as this rank."""
    return rank + max(attempt - 1, 0) * _NODES


def rank_of(node: int, facts: Mapping[str, str]) -> tuple[int, int]:
    """Rank and attempt of a node; processes started by a rank count as ranks of their own.

    Args:
        facts: the metadata of the node.
    """
    rank, attempt = _number(facts.get(RANK)), _number(facts.get(ATTEMPT)) or 1
    if rank is not None and node == node_of(rank, attempt):
        return rank, attempt
    return node, attempt


def is_rank(node: int, facts: Mapping[str, str]) -> bool:
    """Whether a node is a rank's own process, not one that a rank started."""
    rank = _number(facts.get(RANK))
    return rank is not None and node == node_of(rank, _number(facts.get(ATTEMPT)) or 1)


def are_others(first: Mapping[str, str], second: Mapping[str, str]) -> bool:
    """Whether two sets of a node's metadata are known to come from different processes."""
    return any(name in first and name in second and first[name] != second[name] for name in PROCESS)


def exit_code(facts: Mapping[int, Mapping[str, str]]) -> int | None:
    """The job's exit code: that of the first failed rank of the last attempt; None if unknown."""
    codes: dict[int, list[int]] = {}
    for _, of_node in sorted(facts.items()):
        code = of_node.get(EXIT, "")
        if _number(code.removeprefix("-")) is not None:
            codes.setdefault(_number(of_node.get(ATTEMPT)) or 1, []).append(int(code))
    return next(filter(None, codes[max(codes)]), 0) if codes else None


def missing(facts: Mapping[int, Mapping[str, str]]) -> dict[int, list[int]]:
    """The missing ranks of a job, by attempt; attempts that lack none are omitted.

    Args:
        facts: the metadata of each node.
    """
    here: dict[int, set[int]] = {}
    size: dict[int, int] = {}
    for of_node in facts.values():
        rank, ranks = _number(of_node.get(RANK)), _number(of_node.get(RANKS))
        if rank is not None and ranks is not None:
            attempt = _number(of_node.get(ATTEMPT)) or 1
            here.setdefault(attempt, set()).add(rank)
            size[attempt] = max(size.get(attempt, 0), min(ranks, _NODES))
    lacking = {attempt: sorted({*range(size[attempt])} - here[attempt]) for attempt in here}
    return {attempt: ranks for attempt, ranks in sorted(lacking.items()) if ranks}


def lines_of(lacking: Mapping[int, list[int]]) -> list[str]:
    """The missing ranks, one line per attempt."""
    return [
        ("ranks " if len(ranks) > 1 else "rank ")
        + spans(ranks)
        + (" are" if len(ranks) > 1 else " is")
        + " missing"
        + (f" in attempt {attempt}" if attempt > 1 or len(lacking) > 1 else "")
        for attempt, ranks in lacking.items()
    ]


def spans(numbers: Iterable[int]) -> str:
    """Ascending numbers as text: `1-3, 7`."""
    pieces: list[list[int]] = []
    for number in numbers:
        if pieces and number == pieces[-1][-1] + 1:
            pieces[-1].append(number)
        else:
            pieces.append([number])
    return ", ".join(
        str(piece[0]) if len(piece) == 1 else f"{piece[0]}-{piece[-1]}" for piece in pieces
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None
