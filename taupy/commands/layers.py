"""Show where the time of a network goes, layer by layer.

    taupy layers                      the trial stored last
    taupy layers 12 --tree            as the layers call each other
    taupy layers --by layer_type      one row per class of layers
    taupy layers --by rank            one table for each rank, with all its threads
    taupy layers --by phase           one row per phase, in layers and outside
    taupy layers --by step            step by step, after taupy run --trace=host
    taupy layers --depth 2            encoder.layers instead of encoder.layers.0.self_attn

A layer is a module of a model, such as `encoder.layers.3`. Own times add up to the time of the
thread, or of the rank's threads; `(no layer)` is the time outside all layers.
"""

from __future__ import annotations

import argparse

from taupy.commands import options, running
from taupy.errors import UsageError
from taupy.model.question import EVENTS, Condition, Question
from taupy.model.rows import ThreadRow
from taupy.model.sampled import GROWTH
from taupy.network.layers import COUNTED, OPERATORS, unknown_because
from taupy.pprof import layers, terminal
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.layers import facts_of
from taupy.profiledb.trial_facts import metadata_values
from taupy.profiledb.values import values

_STEP = "step"
_OF_A_STEP = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    running.add_trial_argument(parser)
    options.add_by_argument(
        parser,
        ("layer", "layer_type", "phase", "rank", _STEP),
        "one row, or for ranks one table, for each",
        _renamed,
    )
    parser.add_argument(
        "--depth", type=options.count, metavar="N", help="cut names after N parts, and add up"
    )
    parser.add_argument(
        "--tree", action="store_true", help="as the layers call each other, indented"
    )
    options.add_limit_argument(
        parser, f"show N rows; by step, N layers of each step (default: {_OF_A_STEP} for people)"
    )
    parser.add_argument("--all", action="store_true", help="by step: every step and layer")
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def _renamed(by: str) -> str:
    """`type` is the old name of the dimension `layer_type`."""
    return "layer_type" if by == "type" else by


def run(args: argparse.Namespace) -> int:
    if args.depth == 0:
        raise UsageError("--depth must be at least 1")
    if args.by == _STEP:
        return _by_step(args)
    with running.selected_trial(args) as (db, trial):
        by: layers.By = "type" if args.by == "layer_type" else args.by
        table = values(db, layers.question(trial.id, by))
        why = metadata_values(db, OPERATORS).get(trial.id, COUNTED)
        beside = layers.Beside(facts_of(db, trial.id), _growth(db, trial.id), unknown_because(why))
        views = layers.views(table, layers.Choice(by, args.depth, args.tree), beside)
        views = running.with_window(db, trial.id, views)
    if not views:
        raise UsageError(_none(trial.id))
    terminal.show_all([view.first(args.limit) for view in views], args.form)
    return 0


def _none(trial: int) -> str:
    return (
        f"trial {trial} has no layers: no module of a known framework was called, the plain engine "
        "measured it, or it was run with --no-layers; `taupy trials` describes it"
    )


def _by_step(args: argparse.Namespace) -> int:
    from taupy.pprof import layer_steps
    from taupy.profiledb.launch_steps import with_streams
    from taupy.profiledb.stamped import stamped

    for_people = args.form == "text" and not args.all
    limit = _OF_A_STEP if for_people and not args.tree and args.limit is None else args.limit
    with running.selected_trial(args) as (db, trial):
        spans = stamped(db, trial.id)
        layer_steps.check(trial.id, spans)
        spans = with_streams(db, trial.id, spans)
        table = values(db, layers.question(trial.id))
        choice = layers.Choice("layer", args.depth, args.tree)
        views = layer_steps.views(table, spans, choice, limit, whole=not for_people)
        views = running.with_window(db, trial.id, views)
    if not views:
        raise UsageError(_none(trial.id))
    terminal.show_all(views, args.form)
    return 0


def _growth(db: ProfileDB, trial: int) -> dict[tuple[ThreadRow, str, str], float]:
    """Growth of resident memory [bytes], by thread, layer and class."""
    grown = Condition("event", (GROWTH,))
    by = ("thread", "layer", "layer_type")
    table = values(db, Question((trial,), (), by, where=(grown,), values=EVENTS))
    rows = zip(*map(table.row_labels, by), table.column("event.total"), strict=True)
    return {
        (thread, layer, kind): 1024 * float(kib or 0)
        for thread, layer, kind, kib in rows
        if layer is not None
    }
