"""Which forks have left no part."""

from taupy.record.forks import Fork, lost_forks, take_forks
from taupy.record.part_data import ENDED, Part


def _part(pid, start_ns, forked=True, **metadata):
    metadata = {name.replace("_", "."): text for name, text in metadata.items()}
    return Part(
        "x", "native", pid, 1, 0, ENDED, forked, 0.0, start_ns, start_ns + 1, 0, [], [],
        metadata, {},
    )  # fmt: skip


def _lost(forks, *parts, reached=(), running=()):
    lost, late = lost_forks(forks, parts, reached, running.__contains__)
    assert not late or running
    return lost


def test_notes_are_taken_out_of_the_metadata():
    part = _part(7, 0, taupy_fork_0="8 100", taupy_fork_1="x 1", taupy_fork_2="9", other="fact")
    assert take_forks(part) == [Fork(7, 8, 100)]
    assert part.metadata == {"other": "fact"}


def test_a_fork_with_a_part_is_not_lost():
    assert _lost([Fork(7, 8, 100)], _part(8, 101)) == ""


def test_a_part_that_was_not_forked_or_is_older_is_not_the_forks():
    forks = [Fork(7, 8, 100)]
    assert "process 8 forked by 7)" in _lost(forks, _part(8, 101, forked=False))
    assert "process 8 forked by 7)" in _lost(forks, _part(8, 99))


def test_an_id_that_is_used_again_has_a_part_for_each_fork():
    forks = [Fork(7, 8, 100), Fork(7, 8, 300)]
    assert _lost(forks, _part(8, 301), _part(8, 101)) == ""
    assert _lost(forks, _part(8, 101)).startswith("1 forked process left no part (process 8 ")


def test_a_process_that_is_accounted_for_is_not_lost():
    assert _lost([Fork(7, 8, 100)], reached={8}) == ""


def test_a_running_one_may_come_later_and_is_not_called_lost():
    """It had no processor until the run was stored."""
    forks = [Fork(7, 8, 100), Fork(7, 9, 100)]
    lost, late = lost_forks(forks, [], (), {8}.__contains__)
    assert lost.startswith("1 forked process left no part (process 9 forked by 7)")
    assert late.startswith("1 forked process had left no part when this was stored, and still ran")
    assert "(process 8 forked by 7): what it measures is added later" in late


def test_unknown_ids_stand_for_parts_that_nobody_noted():
    forks = [Fork(7, 0, 100), Fork(7, 0, 110), Fork(7, 9, 120)]
    assert _lost(forks, _part(5, 101), _part(6, 111), _part(9, 121)) == ""
    assert "(process unknown, forked by 7)" in _lost(forks, _part(5, 101), _part(9, 121))


def test_eight_are_named():
    lost = _lost([Fork(7, pid, 1) for pid in range(100, 112)])
    assert lost.startswith("12 forked processes left no part (process 100 forked by 7; 101 ")
    assert "; 107 forked by 7; ...)" in lost
