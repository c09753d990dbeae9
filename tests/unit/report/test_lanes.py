"""Bars of ranks, worker processes and further threads."""

from __future__ import annotations

from taupy.analysis.places import Tree
from taupy.model.rows import ThreadRow
from taupy.report.lanes import lanes
from tests.builders import wide_profile
from tests.growth import is_linear


def test_bars_of_threads_that_come_and_go_take_linear_time():
    single, paths = Tree.of_profile(wide_profile(1))

    def shown(threads: int) -> None:
        columns = {
            name: [*getattr(single, name)] * threads
            for name in ("timer", "parent", "calls", "exclusive")
        }
        rows = [ThreadRow(0, 0, number, "host", "") for number in range(threads)]
        tree = single._replace(threads=rows, thread=range(threads), **columns)
        (bars,) = lanes(tree, {}, paths, None, with_c=False)
        assert len(bars.lanes) == threads - 1

    assert is_linear(shown, 700)
