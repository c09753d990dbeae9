"""Points of a timeline: how samples are summed up, joined and read back."""

import math
from dataclasses import astuple
from pathlib import Path

import pytest

from taupy.collectors import sampled_timelines, sampler
from taupy.collectors.requested import interval_ns, local_rank
from taupy.collectors.sampled_points import Points
from taupy.errors import TaupyError, UsageError
from taupy.state import values as records
from taupy.state.folder import open_run
from taupy.watch import beside


def filled(count, most, values=lambda n: [float(n)], length=10):
    points = Points(len(values(0)), most)
    for n in range(count):
        points.add(n * length, (n + 1) * length, values(n))
    return points


def test_samples_stay_as_they_are_while_there_is_room():
    points = filled(5, 8)
    assert list(points.mean[0]) == list(points.low[0]) == [0, 1, 2, 3, 4]
    assert (list(points.start), list(points.end)) == ([0, 10, 20, 30, 40], [10, 20, 30, 40, 50])
    assert points.samples_a_point == 1 and list(points.count) == [1] * 5


@pytest.mark.parametrize("count", [9, 16, 17, 31, 64, 1000])
def test_neighbours_become_one_point_when_there_are_too_many(count):
    points = filled(count, 8)
    assert len(points.count) <= 8 and sum(points.count) == count
    assert all(points.end[n] == points.start[n + 1] for n in range(len(points.count) - 1))
    assert (points.start[0], points.end[-1]) == (0, count * 10)
    at = 0
    for n, size in enumerate(points.count):
        expected = range(at, at + size)
        assert points.mean[0][n] == pytest.approx(sum(expected) / size)
        assert (points.low[0][n], points.high[0][n]) == (expected[0], expected[-1])
        at += size
    sums = points.sums[0]
    assert (sums.count, sums.minimum, sums.maximum) == (count, 0, count - 1)
    assert sums.total == count * (count - 1) / 2


def test_the_mean_of_a_point_is_by_time():
    points = Points(1, 2)
    for start, end, value in ((0, 30, 1.0), (30, 40, 5.0), (40, 50, 9.0)):
        points.add(start, end, [value])
    assert list(points.mean[0]) == [2.0, 9.0]


def test_what_is_no_number_is_left_out():
    points = filled(4, 2, lambda n: [math.nan if n % 2 else 4.0, math.nan])
    assert list(points.mean[0]) == [4.0, 4.0] and points.sums[0].count == 2
    assert all(math.isnan(one) for one in points.mean[1]) and points.sums[1].count == 0


def test_gaps_are_added_up():
    points = Points(1)
    points.add(0, 10, [1.0])
    points.add(12, 22, [1.0])  # a little late
    points.add(122, 132, [1.0])
    assert points.gaps_ns == 100


@pytest.mark.parametrize(
    ("text", "ns"),
    [("1ms", 10**6), ("100us", 10**5), ("0.5 ms", 500_000), ("2", 2 * 10**6), ("1s", 10**9),
     ("60\u00b5s", 60_000), ("50000ns", 50_000), (5, 5 * 10**6)],
)  # fmt: skip
def test_intervals_are_times(text, ns):
    assert interval_ns(text) == ns


@pytest.mark.parametrize("text", ["", "fast", "-1ms", "1us", "0", "2 hours", "61s", "nan"])
def test_intervals_that_are_none_are_refused(text):
    with pytest.raises(UsageError):
        interval_ns(text)


def test_the_rank_on_this_machine(monkeypatch):
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
        monkeypatch.delenv(name, raising=False)
    assert local_rank() == 0
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", "3")
    assert local_rank() == 3


def kept(folder, *gpus):
    (folder / sampled_timelines.KEPT).write_bytes(records.dumps(list(gpus)))


def gpu(points, channels, uuid="GPU-1", ordinal=0):
    return {
        "uuid": uuid,
        "ordinal": ordinal,
        "facts": ("GH100", 1000, "ns"),
        "said": [],
        "channels": channels,
        "samples_a_point": 1,
        "sums": [[*astuple(sums)] for sums in points.sums],
        **{name: getattr(points, name).tobytes() for name in ("start", "end", "count")},
        **{n: [one.tobytes() for one in getattr(points, n)] for n in ("mean", "low", "high")},
    }


def test_what_was_kept_has_the_programs_number_of_the_gpu(tmp_path):
    kept(tmp_path, gpu(filled(3, 8), [("sm_active", "%")], ordinal=2))
    (found,) = sampled_timelines.timelines(open_run(str(tmp_path)), {"GPU-1": 5})
    assert [(event.name, event.count, event.mean) for event in found.events] == [
        ("GPU[5] sm_active", 3, 1)
    ]
    assert found.samples[0].name == "GPU[5] sm_active" and len(found.samples[0]) == 3
    assert sampled_timelines.timelines(open_run(str(tmp_path)), {}) == []
    assert (
        sampled_timelines.timelines(open_run(str(tmp_path)), None)[0].events[0].name
        == "GPU[2] sm_active"
    )


def test_nothing_sampled_a_sampler_that_failed_and_damaged_samples_are_distinguished(tmp_path):
    kept(tmp_path)
    assert sampled_timelines.timelines(open_run(str(tmp_path)), None) is None
    (tmp_path / sampled_timelines.KEPT).write_bytes(b"nonsense")
    with pytest.raises(TaupyError, match="cannot be read"):
        sampled_timelines.timelines(open_run(str(tmp_path)), None)
    (tmp_path / sampled_timelines.KEPT).unlink()
    with pytest.raises(TaupyError, match="the sampler of GPUs failed"):
        sampled_timelines.timelines(open_run(str(tmp_path)), None)


def children():
    """Of this process, those that ended and were not waited for among them."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {number for task in tasks for number in task.read_text().split()}


def test_an_answer_comes_from_a_process_beside_us():
    before = children()  # other tests may have left some
    answer = beside.begin("tests.unit.collectors.answers", ["one", "two"])
    assert sampler._heard(answer, 20) == "one two"
    assert children() <= before
