"""Sends matched with receives: what one rank sent to another, under one tag, in order.

They are matched like collectives of two ranks. If a rank did not wait for an operation when it
issued it (`isend`, `irecv`), only its beginning is known: the end is that of a later `wait()`, and
the rank may have computed until then. So it waits for nobody, but others can wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from taupy.model.collectives import NOT_ENDED, NOT_WAITED_FOR, Collectives
from taupy.ranks.data import Matched, Ranks

_LEAST_ERROR_NS = 1e6
_RESIDUALS = 4


def as_pair(
    job: Ranks,
    matched: Matched,
    members: Mapping[int, Collectives],
    left: Mapping[int, Mapping[tuple[str, int], float]],
) -> Matched | None:
    """The sends and receives with what is known of waiting in them; None if they do not fit each
    other, or if the clocks of both ranks cannot be compared.

    Args:
        matched: by number only.
        members: what both ranks recorded.
        left: rank -> collective -> when the rank left it, by which clocks are aligned.
    """
    first, second = members
    host_of = {rank.number: rank.host for rank in job.ranks}
    is_one_host = host_of[first] is not None and host_of[first] == host_of[second]
    if not is_one_host and not left[first].keys() & left[second].keys():
        return None
    matched.error_ns = sum(job.clocks[rank].residual_ns for rank in members if rank in job.clocks)
    operations = [dict(zip(kept.number, kept.operation, strict=True)) for kept in members.values()]
    moved = [dict(zip(kept.number, kept.bytes, strict=True)) for kept in members.values()]
    first_sends = next(iter(operations[0].values())).endswith("send")
    sender, receiver = (0, 1) if first_sends else (1, 0)
    tolerance = max(_LEAST_ERROR_NS, _RESIDUALS * matched.error_ns)
    if (matched.ended[receiver] < matched.requested[sender] - tolerance).any() or any(
        moved[0][number] != moved[1][number] for number in matched.number
    ):
        job.apart.append(f"what was sent and received in {matched.communicator} does not fit")
        return None
    matched.not_waited_for = np.array(
        [[_is_not_waited_for(of[number]) for number in matched.number] for of in operations], bool
    ).reshape(matched.requested.shape)
    matched.not_waited_for[sender] |= matched.ended[sender] < matched.requested[receiver]
    matched.ended[matched.not_waited_for] = np.nan
    took = float(np.nansum(matched.ended[receiver] - matched.requested[receiver]))
    rank = matched.ranks[receiver]
    job.received_ns[rank] = job.received_ns.get(rank, 0.0) + took
    return matched


def _is_not_waited_for(operation: str) -> bool:
    return operation.partition(":")[2] in NOT_WAITED_FOR


def note_open(job: Ranks) -> None:
    """Note the sends and receives that ranks waited for and that never ended."""
    for rank in job.ranks:
        for kept in rank.communicators:
            for number, operation, ended in zip(
                kept.number, kept.operation, kept.ended_ns, strict=True
            ):
                if kept.is_pair and ended == NOT_ENDED and not _is_not_waited_for(operation):
                    job.never_ended.append(
                        f"{operation} {number} of {kept.communicator} never ended on rank "
                        f"{rank.number}"
                    )
