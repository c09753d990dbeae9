"""Stacks that are written: one for each call path, without a climb for each."""

from __future__ import annotations

from array import array
from pathlib import Path
from random import Random

import pytest

from taupy.formats import collapsed
from taupy.model.forest import preorder
from taupy.model.profile import CallTree
from taupy.model.progress import SILENT
from tests.builders import wide_profile


class Looked(list):
    """A list that counts the looks at its rows."""

    looks = 0

    def __getitem__(self, row):
        self.looks += 1
        return super().__getitem__(row)


def _in_order(tree: CallTree, order: list[int]) -> CallTree:
    place = {row: number for number, row in enumerate(order)}
    columns = (tree.timer, tree.calls, tree.subroutines)
    timer, calls, subroutines = (array("q", [column[row] for row in order]) for column in columns)
    parent = array("q", [place.get(tree.parent[row], -1) for row in order])
    values = [
        {name: array("q", [column[row] for row in order]) for name, column in of.items()}
        for of in (tree.inclusive, tree.exclusive)
    ]
    return CallTree(timer, parent, calls, subroutines, *values)


@pytest.mark.parametrize("orderly", [True, False], ids=["preorder", "any order"])
def test_each_call_path_is_written_with_all_its_callers(tmp_path: Path, orderly: bool):
    profile = wide_profile(400, timers=60)
    (measured,) = profile.threads
    order = preorder(measured.tree.parent)
    if not orderly:  # callers come first, but siblings are far from each other
        order = sorted(order, key=lambda row: (len(bin(row + 1)), Random(row).random()))
    tree = measured.tree = _in_order(measured.tree, order)
    expected = []
    for row, value in enumerate(tree.exclusive["time"]):
        frames, above = [], row
        while above >= 0:
            frames.insert(0, profile.timers[tree.timer[above]].full_name)
            above = tree.parent[above]
        expected.append(f"thread 0.0.0 [ns];{';'.join(frames)} {value}")
    collapsed.write(profile, tmp_path / "t.collapsed", SILENT)
    assert (tmp_path / "t.collapsed").read_text().splitlines() == expected


def test_a_caller_is_looked_at_once_and_not_for_each_path_below_it(tmp_path: Path):
    profile = wide_profile(2000, timers=60)
    (measured,) = profile.threads
    tree = measured.tree = _in_order(measured.tree, preorder(measured.tree.parent))
    tree.timer, tree.parent = Looked(tree.timer), Looked(tree.parent)
    collapsed.write(profile, tmp_path / "t.collapsed", SILENT)
    assert tree.timer.looks + tree.parent.looks <= 3 * len(tree)
