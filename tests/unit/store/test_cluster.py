"""Sums of parts, added as one engine would have added them."""

from taupy.store.cluster import combined


def test_sums_of_parts_add_up_in_the_order_of_keys():
    one = [(None, 2, 7), (1, 2, None)]
    other = [(1, 2), (5, 40)]
    assert combined([one, other, []], keys=1) == [(None, 1, 2, 7), (1, 5, 42, None)]
    assert combined([[(4,), (None,)], [(3,), (None,)]], keys=0) == [(7,), (None,)]
    assert combined([[], []], keys=1) == []
    assert combined([[(2**62,)], [(2**62,)]], keys=0) is None
