"""Match kernels of two trials without operators by the order in which they were launched.

Kernels of different GPUs have different names, but one program launches the same kinds of work in
the same order. Works are paired one by one (`call_order.py`), by name where both sides have it, and
between two such pairs by the kind of work. Kernels that are mostly each other's partners are then
taken as the same. Where a GPU needs another number of kernels for a call, this errs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from taupy.analysis.call_order import MOST_CALLS, paired
from taupy.analysis.match import K, Key, is_kernel

_KINDS = (
    ("communication", r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter"),
    ("attention", r"flash|fmha|attn|attention"),
    ("convolution", r"conv|fprop|dgrad|wgrad|winograd|implicit|miopen|cudnn"),
    ("norm", r"norm|bn_(fw|bw)"),
    ("softmax", r"softmax"),
    ("product", r"gemm|gemv|xmma|cijk|cutlass|nvjet|matmul|split_?k"),
    ("optimizer", r"multi_tensor|adam|sgd"),
    ("reduction", r"reduce"),
    ("random", r"philox|distribution|dropout|random"),
    ("fill", r"memset|fill"),
    ("move", r"memcpy|copy|cat|transpose|index|gather|scatter|embedding"),
    ("elementwise", r"elementwise|pointwise"),
)
_EXPRESSIONS = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS]


def kind_of_work(kernel: str) -> str | None:
    """What a kernel does, by its name; None if that does not say it."""
    return next((kind for kind, test in _EXPRESSIONS if test.search(kernel)), None)


def matched_by_order(
    sides: Sequence[Sequence[Sequence[K]]], keys: Sequence[Mapping[K, Key]]
) -> dict[Hashable, Key]:
    """Identities of kernels that only one of two sides has -> the key that they share.

    Args:
        sides: of each process, the kernels in the order of their launches.
        keys: of each side's kernels, so far.
    """
    names = [{key.identity: key for key in side.values()} for side in keys]
    shared = names[0].keys() & names[1].keys()
    counts: list[Counter[Hashable]] = [Counter(), Counter()]
    partners: Counter[tuple[Hashable, Hashable]] = Counter()

    def kind(identity: Hashable) -> Hashable:
        own = names[0].get(identity) or names[1][identity]
        alone = identity not in shared and is_kernel(own)
        return (alone and kind_of_work(own.timer)) or identity

    for processes in zip(*sides, strict=False):
        first, second = (
            [of_side[kernel].identity for kernel in kernels if kernel in of_side][:MOST_CALLS]
            for kernels, of_side in zip(processes, keys, strict=True)
        )
        counts[0].update(first)
        counts[1].update(second)
        for at, other in paired(first, second, (lambda identity: identity, kind)):
            if first[at] != second[other]:
                partners[first[at], second[other]] += 1
    groups: dict[Hashable, set[tuple[int, Hashable]]] = {}
    for (one_name, other_name), times in partners.items():
        if 2 * times > min(counts[0][one_name], counts[1][other_name]):
            pair = (0, one_name), (1, other_name)
            members = {*pair}.union(*(groups.get(member, ()) for member in pair))
            groups.update(dict.fromkeys(members, members))
    joined: dict[Hashable, Key] = {}
    for members in {id(group): group for group in groups.values()}.values():
        label = " = ".join(
            " + ".join(sorted(names[side][own].short_name for at, own in members if at == side))
            for side in (0, 1)
        )
        first_key = names[0][min((own for at, own in members if at == 0), key=str)]
        key = Key(("order", label), label, label, None, None, first_key.groups, "order")
        joined.update((own, key) for _, own in members)
    return joined
