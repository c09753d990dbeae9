"""Store and read facts about network layers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from taupy.model.profile import LayerFacts
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.text import storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_NUMBERS = (
    *("parameters", "parameter_bytes", "input_varies", "output_varies"),
    *("output_bytes", "calls", "flop", "backward_passes", "backward_flop"),
)
_TEXTS = ("input", "output")
_COLUMNS = ", ".join((*_NUMBERS, *_TEXTS))


def add_layers(
    connection: sqlite3.Connection,
    trial: int,
    layers: Sequence[LayerFacts],
    timers: Sequence[int],
    nodes: Collection[int],
) -> None:
    """Insert the layers of these nodes; `timers` are the ids of the profile's timers."""
    marks = ", ".join("?" * (len(_NUMBERS) + len(_TEXTS)))
    connection.executemany(
        f"INSERT INTO layer (trial_id, node, timer_id, {_COLUMNS}, unknown)"
        f" VALUES ({trial}, ?, ?, {marks}, ?) ON CONFLICT DO NOTHING",
        (
            (
                layer.node,
                timers[layer.timer],
                *(getattr(layer, name) for name in _NUMBERS),
                *map(_stored, (layer.input, layer.output)),
                storable(" ".join(layer.unknown)),
            )
            for layer in layers
            if layer.node in nodes
        ),
    )


def _stored(text: str | None) -> str | None:
    return None if text is None else storable(text)


def layers_of(db: ProfileDB, trial: int) -> dict[tuple[int, int], LayerFacts]:
    """Facts by node and timer id; the facts' own `timer` is that id."""
    rows = db.rows(
        f"SELECT node, timer_id, {_COLUMNS}, unknown FROM layer WHERE trial_id = ?"
        " ORDER BY node, timer_id",
        (trial,),
    )
    return {(node, timer): _facts(node, timer, *rest) for node, timer, *rest in rows}


def facts_of(db: ProfileDB, trial: int) -> dict[tuple[int, str], LayerFacts]:
    """Facts by node and the name of the timer: `layer1.0.conv1 [Conv2d]`."""
    names = dict(
        db.rows(
            "SELECT id, name FROM timer WHERE id IN"
            " (SELECT timer_id FROM layer WHERE trial_id = ?)",
            (trial,),
        )
    )
    return {(node, names[timer]): facts for (node, timer), facts in layers_of(db, trial).items()}


def _facts(node: int, timer: int, *rest: object) -> LayerFacts:
    *values, unknown = rest
    named = dict(zip((*_NUMBERS, *_TEXTS), values, strict=True))
    for name in ("input_varies", "output_varies"):
        named[name] = bool(named[name])
    return LayerFacts(timer, node, **named, unknown=tuple(str(unknown).split()))  # type: ignore[arg-type]
