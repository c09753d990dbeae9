"""Metrics of calls: sources in C that are asked for by name."""

from __future__ import annotations

import pytest

engine = pytest.importorskip("taupy._native.engine")


@pytest.mark.parametrize("names", [["cpu_times"], ["cpu_time", "", "x"]])
def test_a_name_that_no_source_has_is_refused_and_nothing_is_measured(names):
    with pytest.raises(ValueError, match=r"cpu_times|: $"):
        engine.start({"metrics": names})
    assert not engine.active()


def test_every_source_can_be_asked_for_by_its_name_and_is_stored_with_its_unit(runner):
    sources = engine.metric_sources()
    assert sources["cpu_time"] == "ns"
    program = "def work():\n    return sum(range(10**6))\nwork()\n"
    trial = runner.run(program, "native", "--metrics", ",".join(sources))
    found = dict(trial.sql("SELECT name, unit FROM metric WHERE name <> 'time'"))
    assert found == sources
