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

from dataclasses import dataclass
from typing import Literal, get_args

from taupy.answers import answer
from taupy.answers.answer import Nothing, option
from taupy.model.question import EVENTS, Condition, Question
from taupy.model.rows import ThreadRow
from taupy.model.sampled import GROWTH
from taupy.network.layers import COUNTED, LACKING, OPERATORS, unknown_because
from taupy.pprof import layers
from taupy.pprof.view import View
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.layers import facts_of
from taupy.profiledb.trial_facts import metadata_values
from taupy.profiledb.values import values

_OF_A_STEP = 10

By = Literal["layer", "layer_type", "phase", "rank", "step"]


@dataclass(frozen=True)
class Options(answer.Asked):
    by: By = answer.by(
        get_args(By), "one row, or for ranks one table, for each", renamed={"type": "layer_type"}
    )
    depth: int | None = option(None, "cut names after N parts, and add up", metavar="N", least=1)
    tree: bool = option(False, "as the layers call each other, indented")
    limit: int | None = answer.limit(
        f"show N rows; by step, N layers of each step (default: {_OF_A_STEP} for people)"
    )
    whole: bool = answer.whole("by step: every step and layer")


PAGES = (Options(tree=True),)


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each thread, or rank, that called layers.

    Raises:
        UsageError: by step, of a trial that has no steps or no trace.
    """
    tables = _by_step(db, trial, options) if options.by == "step" else _of_run(db, trial, options)
    if not tables:
        raise Nothing(
            f"trial {trial} has no layers: no module of a known framework was called, the plain "
            "engine measured it, or it was run with --no-layers; `taupy trials` describes it"
        )
    return answer.with_remarks(db, trial, tables)


def _of_run(db: ProfileDB, trial: int, options: Options) -> list[View]:
    assert options.by != "step"
    table = values(db, layers.question(trial, options.by))
    why = ""
    if trial not in metadata_values(db, LACKING):  # which older versions did not store
        why = unknown_because(metadata_values(db, OPERATORS).get(trial, COUNTED))
    beside = layers.Beside(facts_of(db, trial), _growth(db, trial), why)
    choice = layers.LayerOptions(options.by, options.depth, options.tree)
    return [view.first(options.limit) for view in layers.views(table, choice, beside)]


def _by_step(db: ProfileDB, trial: int, options: Options) -> list[View]:
    from taupy.pprof import layer_steps
    from taupy.profiledb.launch_steps import with_streams
    from taupy.profiledb.stamped import stamped

    limit = options.limit
    if limit is None and not options.whole and not options.tree:
        limit = _OF_A_STEP
    spans = stamped(db, trial)
    layer_steps.check(trial, spans)
    spans = with_streams(db, trial, spans)
    table = values(db, layers.question(trial))
    choice = layers.LayerOptions("layer", options.depth, options.tree)
    return layer_steps.views(table, spans, choice, limit, whole=options.whole)


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
