"""Which calls of two runs belong together: by order, when some are missing."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from taupy.analysis.call_order import common_subsequence, paired


def longest(first, second):
    lengths = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, one in enumerate(first):
        for j, two in enumerate(second):
            lengths[i + 1][j + 1] = (
                lengths[i][j] + 1 if one == two else max(lengths[i][j + 1], lengths[i + 1][j])
            )
    return lengths[-1][-1]


def test_random_sequences_have_a_longest_common_subsequence():
    draw = random.Random(41)
    for _ in range(500):
        first, second = ([draw.randrange(4) for _ in range(draw.randrange(16))] for _ in range(2))
        pairs = common_subsequence(first, second)
        assert len(pairs) == longest(first, second)
        assert all(first[one] == second[two] for one, two in pairs)
        assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))


def layers(draw, number=24):
    """A transformer's calls, layer by layer: (operator, inputs, what it does at this place)."""
    names = ["norm", "mm", "mm", "mm", "rotate", "rotate", "attention", "mm", "add", "norm",
             "mm", "mm", "silu", "mul", "mm", "add"]  # fmt: skip
    sizes = [64, 64, 32, 32, 32, 32, 64, 64, 64, 64, 256, 256, 256, 256, 128, 64]
    calls = [("embedding", 8, 0)]
    for _ in range(number):
        calls += [(name, size, 0) for name, size in zip(names, sizes, strict=True)]
    return [(*call[:2], at) for at, call in enumerate([*calls, ("norm", 64, 0), ("mm", 512, 0)])]


@pytest.mark.parametrize("removed, most_wrong", [(0.02, 0.02), (0.1, 0.06)])
@pytest.mark.parametrize("seed", range(5))
def test_missing_calls_hardly_pair_any_call_wrongly(seed, removed, most_wrong):
    draw = random.Random(seed)
    every = layers(draw)
    some = [call for call in every if draw.random() >= removed]
    assert len(some) < len(every)
    pairs = paired(every, some, [lambda call: call[:2]])
    assert len(pairs) == len(some)
    wrong = sum(every[one][2] != some[two][2] for one, two in pairs)
    assert wrong <= most_wrong * len(some)
    in_turn = sum(one[2] != two[2] for one, two in zip(every, some, strict=False))
    assert in_turn > 0.5 * len(some), "the k-th of one with the k-th of the other"


def test_what_a_key_leaves_is_paired_between_the_same_pairs_by_the_next():
    first = [("cudnn", "conv"), ("relu", "relu"), ("cudnn", "conv"), ("fill", "zeros")]
    second = [("relu", "relu"), ("miopen", "conv"), ("miopen", "conv"), ("add", "add")]
    keys = [lambda call: call[0], lambda call: call[1]]
    assert paired(first, second, keys) == [(1, 0), (2, 1)]
