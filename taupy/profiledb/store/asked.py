"""What a user's own statement reads of a store: its tables and views, and of which trials.

Unlike taupy's statements it may be in any case, name views, take trials from parameters or from
expressions, or be something else than a query. Where in doubt, it reads everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from taupy.profiledb.schema_views import VIEWS
from taupy.profiledb.store.needs import EVERYTHING, SHARED, Evaluate, Needs, NotAQuery, needs

_OF_SEVERAL_TRIALS = frozenset({"comparison"})
"""Views whose rows are made of two trials each."""


def asked(
    sql: str,
    parameters: Sequence[object] | Mapping[str, object],
    tables: frozenset[str],
    evaluate: Evaluate,
) -> Needs:
    """As `needs`, for any text."""
    names = tables.union(VIEWS)
    try:
        read = needs(sql, parameters, names, evaluate)
    except NotAQuery:
        read = dict.fromkeys(names & {*re.findall(r"\w+", sql.lower())}, EVERYTHING)
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
    """The tables that a view reads, except for shared ones, whose rows come with the others."""
    names = {*re.findall(r"\w+", VIEWS[view])}
    inner = [_tables_of(other, tables) for other in VIEWS.keys() & names - {view}]
    return frozenset((tables - SHARED.keys()) & names).union(*inner)
