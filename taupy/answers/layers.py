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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from taupy.answers import answer, layer_facts
from taupy.answers.answer import Nothing
from taupy.answers.layer_sums import (
    TIMES,
    Growth,
    Layers,
    calls_and_passes,
    is_of_layers,
    thread_title,
)
from taupy.model import options
from taupy.model.options import option
from taupy.model.question import EVENTS, VALUES, Condition, Question
from taupy.model.rows import ThreadRow
from taupy.model.sampled import GROWTH
from taupy.model.table import Table
from taupy.network.layers import COUNTED, GROUP, LACKING, OPERATORS, unknown_because
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.layers import facts_of
from taupy.profiledb.trial_facts import metadata_values
from taupy.profiledb.values import values

_OF_A_STEP = 10
_VALIDATION = "(validation)"
_COLUMNS = (
    *TIMES,
    *layer_facts.COLUMNS,
    answer.column_of("layer_type"),
)
_OF_PHASES = ("node", "thread", "share_percent", "own_ns", "gpu_ns", "phase")

By = Literal["layer", "layer_type", "phase", "rank", "step"]


@dataclass(frozen=True)
class Options(options.Asked):
    by: By = options.by(
        get_args(By), "one row, or for ranks one table, for each", renamed={"type": "layer_type"}
    )
    depth: int | None = option(None, "cut names after N parts, and add up", metavar="N", least=1)
    tree: bool = option(False, "as the layers call each other, indented")
    limit: int | None = options.limit(
        f"show N rows; by step, N layers of each step (default: {_OF_A_STEP} for people)"
    )
    whole: bool = options.whole("by step: every step and layer")


PAGES = (Options(),)


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each thread, or rank, that called layers.

    Raises:
        UsageError: by step, of a trial that has no steps or no trace.
    """
    tables = _by_step(db, trial, options) if options.by == "step" else _of_run(db, trial, options)
    if not tables:
        why = (
            "no module of a known framework was called, the plain engine measured it, or it was "
            "run with --no-layers; `taupy trials` describes it"
        )
        if db.trial(trial).source.startswith("import"):
            why = (
                "its file names none (torch.profiler names modules with with_stack=True, "
                "Nsight Systems with NVTX ranges)"
            )
        raise Nothing(f"trial {trial} has no layers: {why}")
    return answer.with_remarks(db, trial, tables)


def question(trial: int, by: str = "layer") -> Question:
    """The call trees of all threads, with their layers."""
    tree = ("thread", "callpath", "parent", "timer", "layer", "layer_type")
    return Question((trial,), by=(*tree, "rank") if by == "rank" else tree, values=VALUES)


def _of_run(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each host thread that called layers, by decreasing time in layers; or one for
    each rank that did, by number."""
    if GROUP not in query.group_names(db, trial):
        return []
    table = values(db, question(trial, options.by))
    why = ""
    if trial not in metadata_values(db, LACKING):  # which older versions did not store
        why = unknown_because(metadata_values(db, OPERATORS).get(trial, COUNTED))
    facts, growth = facts_of(db, trial), _growth(db, trial)
    split = "rank" if options.by == "rank" else "thread"
    kinds: list[str] = [thread.kind for thread in table.row_labels("thread")]
    hosts, streams = (
        table.taken([row for row, kind in enumerate(kinds) if kind == wanted])
        for wanted in ("host", "stream")
    )
    counts = calls_and_passes(hosts)
    gpus: list[tuple[ThreadRow, Table]] = [*streams.parts("thread").items()]
    by_time: list[tuple[float, View]] = []
    for label, part in hosts.parts(split).items():
        if any(layer is not None for layer in part.row_labels("layer")):
            threads: set[ThreadRow] = {*part.row_labels("thread")}
            nodes = {thread.node for thread in threads}
            layers = Layers(part, options.by, options.depth)
            layers.know(threads, facts, growth, counts)
            on_gpu = [
                Layers(other, options.by, options.depth) for of, other in gpus if of.node in nodes
            ]
            view = _view(label, layers, on_gpu, options)
            notes = [why] if why else view.notes
            order = -layers.owned if split == "thread" else label
            by_time.append((order, replace(view, notes=notes)))
    by_time.sort(key=lambda pair: pair[0])
    return [view.first(options.limit) for _, view in by_time]


def _by_step(db: ProfileDB, trial: int, options: Options) -> list[View]:
    from taupy.answers import layer_steps
    from taupy.profiledb.launch_steps import with_streams
    from taupy.profiledb.stamped import stamped

    limit = options.limit
    if limit is None and not options.whole and not options.tree:
        limit = _OF_A_STEP
    spans = stamped(db, trial)
    layer_steps.check(trial, spans)
    spans = with_streams(db, trial, spans)
    table = values(db, question(trial))
    layers_of = partial(Layers, by=options.by, depth=options.depth)
    return layer_steps.views(table, spans, layers_of, options.tree, limit, options.whole)


def _growth(db: ProfileDB, trial: int) -> Growth:
    grown = Condition("event", (GROWTH,))
    by = ("thread", "layer", "layer_type")
    table = values(db, Question((trial,), (), by, where=(grown,), values=EVENTS))
    rows = zip(*map(table.row_labels, by), table.column("event.total"), strict=True)
    return {
        (thread, layer, kind): 1024 * float(kib or 0)
        for thread, layer, kind, kib in rows
        if layer is not None
    }


def _view(
    place: ThreadRow | int, layers: Layers, on_gpu: Sequence[Layers], options: Options
) -> View:
    """The table of a thread, or of a rank, given by its number."""
    order = layers.nested() if options.tree else dict.fromkeys(layers.numbers, 0)
    if not options.tree:
        own = {label: layers.value(label, "exclusive") for label in order}
        order = dict.fromkeys(sorted(order, key=own.__getitem__, reverse=True), 0)
    named = answer.column_of("layer" if options.by == "rank" else options.by)
    columns = _COLUMNS if named.name == "layer" else _COLUMNS[:-1]
    title, names, numbers = _placed(place)
    cells = [
        (*numbers, *_cells(label, layers, on_gpu)[: len(columns)], "  " * around + label)
        for label, around in order.items()
    ]
    where = [Column(name, "int", audience="machines") for name in names]
    notes = layer_facts.notes([*layers.described.values()])
    inside = (
        layers.value(label, "inclusive", layers.validation) for label in filter(is_of_layers, order)
    )
    if _VALIDATION in order and any(inside):
        notes = [
            *notes,
            f"row {_VALIDATION}: outside of layers; what it takes in them is in its column",
        ]
    view = View(f"LAYERS OF {title}", (*where, *columns, named), cells, notes)
    if options.by != "phase":
        return view
    return replace(view, notes=()).only(lambda column, _: column.name in _OF_PHASES)


def _placed(place: ThreadRow | int) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    """The title of a thread or rank, and its columns with their values."""
    if isinstance(place, int):
        return f"RANK {place}", ("rank",), (place,)
    return thread_title(place), ("node", "thread"), (place.node, place.thread)


def _cells(label: str, layers: Layers, on_gpu: Sequence[Layers]) -> tuple[Cell, ...]:
    """The cells from the share on; time outside layers has own times only."""
    own = layers.value(label, "exclusive")
    share = 100 * own / layers.whole if layers.whole else None
    if not is_of_layers(label):
        on_gpus = sum(launches.value(label, "exclusive") for launches in on_gpu)
        return share, own, *[None] * 4, on_gpus or None, *[None] * (len(_COLUMNS) - 7)
    recompute = layers.value(label, "inclusive", layers.recomputed)
    within = layers.within[label]
    backward = sum(layers.value(inner, "exclusive", layers.backward) for inner in within)
    forward = layers.value(label, "inclusive", layers.forward)
    gpu = sum(launches.value(label, "inclusive") for launches in on_gpu) if on_gpu else None
    calls, kind = layers.calls.get(label), layers.types.get(label)
    validation = layers.value(label, "inclusive", layers.validation) or None
    passes = forward, validation, backward or None, recompute or None
    times = share, own, *passes, gpu, calls
    return *times, *layers.described[label].cells(), kind
