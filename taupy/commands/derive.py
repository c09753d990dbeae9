"""List, define, show and delete derived metrics.

    taupy derive                            list all; which are available in the latest trial
    taupy derive show ipc [TRIAL]           one in detail: expression, unit, metrics it needs
    taupy derive add misses_per_call "cache_misses / calls"
    taupy derive add --unit us/call --description "a call takes" mean_call "time / calls"
    taupy derive delete misses_per_call
    taupy derive sql warps_per_inst [TRIAL] the SQL that computes it, for other tools

A derived metric works wherever a metric does: taupy pprof --metric ipc, --where "ipc < 1". Values
are computed on demand: the sums first, then the ratio. Units are checked: adding different ones
is an error; a rate is per second. A division by zero gives no value. Definitions are predefined,
or come from the project ([tool.taupy.derived] in pyproject.toml) or the database; a later source
in this list overrides an earlier one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from taupy.catalog import cpu_events
from taupy.catalog.counters import BY_NAME, COUNTED_LAUNCHES
from taupy.collectors.requested import metric_sources
from taupy.commands import options
from taupy.commands.messages import say
from taupy.errors import MissingMetric, NoSuchTrial, TaupyError, UsageError
from taupy.model import expression
from taupy.model.formula import bound
from taupy.model.metric import TIME
from taupy.pprof import terminal
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import derived, derived_sql, metrics, selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.derived import Definition
from taupy.profiledb.meaning import COUNTS, TrialMetrics
from taupy.profiledb.opening import editable

_COLUMNS = (
    Column("name", heading="Name"),
    Column("expression", heading="Derived as"),
    Column("unit", heading="Unit"),
    Column("in_trial", heading="In the trial"),
    Column("source", heading="Defined", spare=True),
    Column("description", heading="What it is", spare=True),
)
_FACTS = (Column("name", heading="What"), Column("value", heading="Is"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="ACTION", help="see above")
    parser.add_argument("--trial", metavar="TRIAL", help="the trial to use (default: latest)")
    parser.add_argument("--unit", default="", metavar="UNIT", help="for `add`: the expected unit")
    parser.add_argument(
        "--description", default="", metavar="TEXT", help="for `add`: a description"
    )
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    words = list(args.words)
    action = words.pop(0) if words else "list"
    if action not in _ACTIONS:
        raise UsageError(
            f"'{action}' is not an action: write taupy derive list, show, add, delete or sql"
        )
    if (args.unit or args.description) and action != "add":
        raise UsageError("--unit and --description apply to `taupy derive add NAME EXPRESSION`")
    writes = action in ("add", "delete")
    with editable(options.database_or_store(args)) if writes else options.opened(args) as db:
        return _ACTIONS[action](db, words, args)


def _list(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    if words:
        raise UsageError("taupy derive list takes no names; taupy derive show NAME shows one")
    trial = _trial(db, args.trial)
    of_trial = None if trial is None else TrialMetrics(db, trial)
    rows: list[tuple[Cell, ...]] = []
    for definition in derived.definitions(db).values():
        unit, availability = definition.unit, ""
        if of_trial is not None:
            try:
                unit, availability = of_trial.meaning(definition.name)[0].unit, "yes"
            except MissingMetric:
                availability = "no"
            except TaupyError as problem:
                availability = f"no: {problem}"
        rows.append(
            (
                definition.name,
                definition.expression,
                unit,
                availability,
                definition.source,
                definition.description,
            )
        )
    notes = [] if trial is None else [f"units and availability are those of trial {trial}"]
    terminal.show(View("DERIVED METRICS:", _COLUMNS, rows, notes), form=args.form)
    return 0


def _show(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    if len(words) not in (1, 2):
        raise UsageError("write: taupy derive show NAME [TRIAL]")
    definition = _definition(db, words[0])
    facts: list[tuple[str, str]] = [
        ("Name", definition.name),
        ("Derived as", definition.expression),
        ("Defined", definition.source),
    ]
    if definition.description:
        facts.append(("Is", definition.description))
    trial = _trial(db, words[1] if len(words) > 1 else args.trial)
    if trial is not None:
        try:
            resolved = metrics.resolve(db, trial, definition.name)
            facts += [
                (f"Unit in trial {trial}", resolved.unit),
                ("Adds up", "yes" if resolved.additive else "no: a ratio of sums"),
            ]
        except TaupyError as problem:
            facts.append((f"In trial {trial}", f"no: {problem}"))
    terminal.show(View(f"DERIVED METRIC {definition.name}:", _FACTS, facts), form=args.form)
    return 0


def _add(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    if len(words) != 2:
        raise UsageError('write: taupy derive add NAME "EXPRESSION"')
    name, text = words
    _refuse_measured(db, name)
    before = derived.definitions(db).get(name)
    _refuse_units(db, text, args.unit)
    definition = derived.define(db, name, text, args.unit, args.description)
    trial = _trial(db, args.trial)
    line = f"{definition.name} = {definition.expression}"
    if trial is None:
        say(line)
    else:
        try:
            resolved = metrics.resolve(db, trial, name)
            say(f"{line} [{resolved.unit}]")
        except MissingMetric as problem:
            say(f"{line}; note: {problem}")
        except TaupyError:
            derived.forget(db, name)
            if before is not None and before.source == "database":
                derived.define(db, *before[:4])
            raise
    if before is not None:
        say(f"this replaces {before.expression} ({before.source})")
    return 0


def _refuse_units(db: ProfileDB, text: str, unit: str) -> None:
    """Check units even if no trial has the metrics yet: those of counters are known.

    Raises:
        UsageError: different units are added or compared, or `--unit` does not match.
    """
    units = {TIME.name: TIME.unit, **metric_sources(), **COUNTS, **cpu_events.UNITS}
    units |= {counter.name: counter.unit for counter in BY_NAME.values()}
    definitions = derived.definitions(db)

    def expanded(node: expression.Node, level: int) -> expression.Node:
        def meant(name: expression.Name) -> expression.Node:
            if name.name in units:
                return name
            definition = definitions.get(name.name)
            if definition is None or level > _DEEPEST:
                raise LookupError(name.name)  # known only in a trial
            return expanded(expression.parse(definition.expression), level + 1)

        return expression.replaced(node, meant)

    try:
        tree = expanded(expression.parse(text), 0)
    except LookupError:
        return
    if not any(f"{function}(" in expression.written(tree) for function in expression.LENIENT):
        bound(tree, units, unit)


_DEEPEST = 20


def _refuse_measured(db: ProfileDB, name: str) -> None:
    """
    Raises:
        UsageError: the name belongs to a measured metric, in this database or in taupy.
    """
    if derived.is_measured(db, name):
        what = "of a measured metric of this database"
    elif name in ("time", "cpu_time", "calls", "subroutines", COUNTED_LAUNCHES):
        what = "of a metric that taupy measures itself"
    elif name in BY_NAME or name in cpu_events.NAMES:
        what = "of a counter (`taupy avail` lists them)"
    else:
        return
    raise UsageError(f"'{name}' is the name {what}: choose another name")


def _delete(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    if len(words) != 1:
        raise UsageError("write: taupy derive delete NAME")
    derived.forget(db, words[0])
    say(f"deleted: {words[0]}")
    return 0


def _sql(db: ProfileDB, words: Sequence[str], args: argparse.Namespace) -> int:
    if len(words) not in (1, 2):
        raise UsageError("write: taupy derive sql NAME [TRIAL]")
    trial = _trial(db, words[1] if len(words) > 1 else args.trial)
    if trial is None:
        raise NoSuchTrial("the database has no trial to take units from")
    terminal.write(derived_sql.statement(db, trial, words[0]) + "\n")
    return 0


_ACTIONS = {"list": _list, "show": _show, "add": _add, "delete": _delete, "sql": _sql}


def _definition(db: ProfileDB, name: str) -> Definition:
    by_name = derived.definitions(db)
    definition = by_name.get(name) or by_name.get(derived.of_legacy_name(name) or "")
    if definition is None:
        names = ", ".join(by_name)
        raise MissingMetric(f"there is no derived metric '{name}' (available: {names})")
    expression.parse(definition.expression)
    return definition


def _trial(db: ProfileDB, wanted: str | None) -> int | None:
    """The selected trial; None for the latest one of an empty database."""
    if wanted is None and not db.trials():
        return None
    return selector.trial(db, wanted or selector.LATEST).id
