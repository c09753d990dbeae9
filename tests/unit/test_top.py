"""What `taupy top` computes of a run under way."""

from types import SimpleNamespace

import pytest

from taupy.commands.top import _pace, _paces
from taupy.model.profile import Steps

S = 1_000_000_000


def steps(*rows):
    series = Steps("training")
    for start_s, time_s, count in rows:
        series.start_ns.append(int(start_s * S))
        series.time_ns.append(int(time_s * S))
        series.count.append(count)
        series.number.append(1)
    return series


@pytest.mark.parametrize(
    ("rows", "pace"),
    [
        ([(5, 0.5, 1)], 2),
        ([(0, 1, 1), (20, 1, 1), (21, 1, 1)], 1),  # the first one is long ago
        ([(0, 30, 60)], 2),  # many steps that became one row
        ([(0, 0, 1)], 1e9),
        ([(0, 0.5, 1), (1, 0.5, 1)], 2 / 1.5),  # what lies between steps counts
    ],
)
def test_steps_per_second_are_those_of_the_last_ten_seconds(rows, pace):
    assert _pace(steps(*rows)) == pytest.approx(pace)


def test_a_thread_without_steps_has_no_pace():
    place = SimpleNamespace(node=0, name="Main", thread=0)
    thread = SimpleNamespace(thread=place, steps=[Steps("training")])
    assert list(_paces(SimpleNamespace(threads=[thread]))) == []
    thread.steps = [steps((0, 1, 2), (1, 1, 2))]
    (said,) = _paces(SimpleNamespace(threads=[thread]))
    assert said == "node 0, Main: 4 steps of training have ended, lately 2.00 a second"
