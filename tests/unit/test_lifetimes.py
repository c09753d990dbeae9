"""Times that answers give add up to no more than the lifetimes of the threads they are of."""

from __future__ import annotations

from collections import defaultdict

import pytest

from taupy.answers import layers, phases, places
from taupy.answers.answer import Nothing
from taupy.model.question import Condition, Question
from taupy.model.thread_groups import groups_of
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.unit.test_widths import PROFILES


def _rows(answer, db, trial, options):
    """The rows of an answer's tables, by column."""
    try:
        views = answer.views(db, trial, options)
    except Nothing:
        return
    for view in views:
        names = [column.name for column in view.columns]
        yield from (dict(zip(names, row, strict=True)) for row in view.rows)


@pytest.mark.parametrize("number", range(len(PROFILES)))
def test_times_add_up_to_no_more_than_the_lifetimes_of_threads(number, tmp_path):
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        trial = add_profile(db, PROFILES[number]())
        host = (Condition("kind", ("host",)),)
        table = values(
            db, Question((trial,), by=("thread", "callpath"), where=host,
                         values=("inclusive", "exclusive")),
        )  # fmt: skip
        threads = table.row_labels("thread")
        lives, spent = defaultdict(float), defaultdict(float)
        for thread, inclusive, exclusive in zip(
            *(threads, table.column("inclusive", "time"), table.column("exclusive", "time")),
            strict=True,
        ):
            lives[thread] = max(lives[thread], inclusive or 0)
            spent[thread] += exclusive or 0
        assert spent == lives
        of_group = defaultdict(float)
        for thread, group in zip(
            lives, groups_of([*lives], query.node_facts(db, trial)), strict=True
        ):
            of_group[group] += lives[thread]
        placed = defaultdict(float)
        for row in _rows(places, db, trial, places.Options(whole=True)):
            placed[row["threads_group"]] += row["time_ns"]
        assert placed == {group: of_group[group] for group in placed} and placed
        asked = [
            *((phases, phases.Options(by=by)) for by in ("trial", "node", "thread", "layer")),
            (layers, layers.Options()),
        ]
        for answer, options in asked:
            rows = list(_rows(answer, db, trial, options))
            times = [row["time_ns" if answer is phases else "own_ns"] or 0 for row in rows]
            assert sum(times) <= sum(lives.values())
