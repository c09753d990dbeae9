"""Entrances of doors, which `lint-imports` does not see, since they are found by name."""

from typing import get_args

import pytest

from taupy.doors import Entrance, door


@pytest.mark.parametrize("entrance", get_args(Entrance))
def test_behind_each_entrance_is_a_module(entrance):
    if entrance.startswith("store"):
        pytest.importorskip("psycopg")
    assert door(entrance).__doc__
