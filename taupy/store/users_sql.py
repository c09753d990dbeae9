"""What a user's own statement reads from a store: tables, views, and the trials of each.

Unlike taupy's own statements, it may use any case, name views, take trials from parameters or
expressions, or not be a query. In doubt, it is assumed to read everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from taupy.profiledb.schema_views import VIEWS
from taupy.store.needs import (
    EVERYTHING,
    REFERRING,
    SHARED,
    Evaluate,
    Needs,
    NotAQuery,
    needs,
)

_OF_SEVERAL_TRIALS = frozenset({"comparison"})
"""Views whose rows combine two trials."""


def needs_of_text(
    sql: str,
    parameters: Sequence[object] | Mapping[str, object],
    tables: frozenset[str],
    evaluate: Evaluate,
) -> Needs:
    """Like `needs`, but for any text."""
    names = tables.union(VIEWS, REFERRING)
    try:
        read = needs(sql, parameters, names, evaluate, shared_alone=True)
    except NotAQuery:
        read = dict.fromkeys(names & {*re.findall(r"\w+", sql.lower())}, EVERYTHING)
        for name in read.keys() & REFERRING.keys():
            del read[name]
            read.update(dict.fromkeys(REFERRING[name], EVERYTHING))
    for view in read.keys() & VIEWS.keys():
        trials = read.pop(view)
        if view in _OF_SEVERAL_TRIALS:
            trials = EVERYTHING
        for table in _tables_of(view, tables):
            before = read.get(table, set())
            both = EVERYTHING in (before, trials)
            read[table] = EVERYTHING if both else {*(before or ()), *(trials or ())}
    return {table: ids for table, ids in read.items() if table not in SHARED or ids}


@cache
def _tables_of(view: str, tables: frozenset[str]) -> frozenset[str]:
    """The tables that a view reads, except shared ones, whose rows are copied with the others."""
    names = {*re.findall(r"\w+", VIEWS[view])}
    inner = [_tables_of(other, tables) for other in VIEWS.keys() & names - {view}]
    return frozenset((tables - SHARED.keys()) & names).union(*inner)
