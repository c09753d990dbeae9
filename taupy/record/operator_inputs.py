"""Calls of operators by the sizes and types of their inputs, from a part.

The engine has a call path for each (`_native/operators.h`), which the profile merges.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from taupy.collectors import gpu_layout
from taupy.model.profile import OperatorInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from taupy.model.profile import ThreadProfile
    from taupy.record.gpu_part import GpuPart
    from taupy.record.part_data import Part, PartThread

_GPU_WORK = (
    gpu_layout.KERNEL, gpu_layout.MEMCPY, gpu_layout.MEMCPY_PEER, gpu_layout.MEMSET
)  # fmt: skip


class _Key(NamedTuple):
    row: int
    signature: str


def inputs_of(part: Part, thread: PartThread, row_of: Sequence[int]) -> list[OperatorInput]:
    """Those of a thread.

    Args:
        row_of: for each row of the part, its row in the thread's tree.
    """
    sums: dict[_Key, list[int]] = defaultdict(lambda: [0, 0])
    for row, signature in _signed(part, thread):
        called = sums[_Key(int(row_of[row]), signature)]
        called[0] += int(thread.calls[row])
        called[1] += int(thread.inclusive[row])
    return [OperatorInput(*key, calls, ns, 0, 0) for key, (calls, ns) in sums.items()]


def _signed(part: Part, thread: PartThread) -> Iterator[tuple[int, str]]:
    """Rows of operators whose inputs are known, and what these are."""
    import numpy as np

    has_inputs = np.array([routine.inputs is not None for routine in part.routines] + [False])
    routines = np.asarray(thread.routine)
    for row in np.flatnonzero(has_inputs[routines]).tolist():
        signature = part.routines[int(routines[row])].inputs
        if signature is not None:
            yield row, signature


def add_gpu_work(
    work_of: GpuPart,
    part: Part,
    threads: Sequence[ThreadProfile],
    row_of: Sequence[Sequence[int]],
) -> None:
    """Add the GPU work that operators launched themselves, not through another operator; inputs of
    those that launched none are left out, unless none did.

    Args:
        threads: of the part, in its order.
        row_of: of each, as for `inputs_of`.
    """
    launched: dict[tuple[int, _Key], list[int]] = defaultdict(lambda: [0, 0])
    for work in work_of.work:
        owner = part.places.find(work.node) if part.places and work.kind in _GPU_WORK else None
        if owner is None:
            continue
        number, row = owner
        thread = part.threads[number]
        while row > 0 and "OPERATOR" not in part.routines[thread.routine[row]].group:
            row = int(thread.parent[row])
        signature = part.routines[thread.routine[row]].inputs if row > 0 else None
        if signature is not None:
            own_sum = launched[number, _Key(int(row_of[number][row]), signature)]
            own_sum[0] += work.launches
            own_sum[1] += work.time
    for number, measured in enumerate(threads if launched else ()):
        measured.inputs = [
            own._replace(launches=sums[0], gpu_ns=sums[1])
            for own in measured.inputs
            if (sums := launched.get((number, _Key(own.row, own.signature)))) is not None
        ]
