"""Facts of layers in a part: convert the records of `_native/layer_facts.h` to the model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from taupy.errors import FormatError
from taupy.model.profile import LayerFacts
from taupy.record.engine_layout import LAYER
from taupy.state import container

_LARGEST = (1 << 62) - 1
_COUNTS = (
    *("parameters", "parameter_bytes", "output_bytes", "calls", "flop"),
    *("backward_passes", "backward_flop"),
)


def facts(data: Any, start: int, routine_at: Mapping[int, int]) -> LayerFacts | None:
    """The facts in one record; `timer` is a routine of the part, `node` is 0.

    None if its routine is not in the part, because the process was killed before writing it.

    Raises:
        FormatError: no process can have measured such values.
    """
    (record,) = np.frombuffer(data, LAYER, 1, start)
    if any(not -1 <= int(record[name]) <= _LARGEST for name in _COUNTS):
        raise FormatError("a layer with impossible numbers")
    routine = routine_at.get(int(record["key"]))
    if routine is None:
        return None
    return LayerFacts(
        routine,
        0,
        parameters=_if_known(record["parameters"]),
        parameter_bytes=_if_known(record["parameter_bytes"]),
        input=_text(record["input"]) or None,
        output=_text(record["output"]) or None,
        input_varies=bool(record["input_varies"]),
        output_varies=bool(record["output_varies"]),
        output_bytes=_if_known(record["output_bytes"]),
        calls=int(record["calls"]),
        flop=_flop(record, ""),
        backward_passes=int(record["backward_passes"]),
        backward_flop=_flop(record, "backward_"),
        unknown=tuple(sorted(_text(record["unknown"]).split())),
    )


def _flop(record: Any, prefix: str) -> int | None:
    """Operations with a formula; None if there were none, or if they are not all."""
    is_known = record[f"{prefix}operators"] and not record[f"{prefix}is_unsized"]
    return int(record[f"{prefix}flop"]) if is_known else None


def _if_known(number: Any) -> int | None:
    return None if number < 0 else int(number)


def _text(bytes_: Any) -> str:
    return container.text(bytes(bytes_).split(b"\0", 1)[0])


def placed(layers: Sequence[LayerFacts], node: int, timer_of: Sequence[int]) -> list[LayerFacts]:
    """The same facts with the node's number and positions of timers, one per timer."""
    by_timer = {timer_of[layer.timer]: layer for layer in layers}
    return [replace(layer, node=node, timer=timer) for timer, layer in by_timer.items()]
