"""The engine's structures in a part, as NumPy reads them (`_native/calltree.h`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from taupy.model.collectives import STRETCH_PLACES
from taupy.model.metric import OF_STEPS, STATED

Array = np.ndarray[Any, Any]
"""Records of a part, or a column of them."""

_METRICS_AT_MOST = 4

NODE = np.dtype(
    [
        ("key", "<u8"),
        ("parent", "<u8"),
        ("last", "<u8"),
        ("t0", "<u8"),
        ("inclusive", "<i8"),
        ("calls", "<u8"),
        ("resumes", "<u8"),
        ("depth", "<u4"),
        ("region", "u1"),
        ("flags", "u1"),
        ("sibling", "<i2"),
    ]
)
"""A call path. Addresses are those of the measured process, times are ticks."""

METRICS = np.dtype(("<u8", (_METRICS_AT_MOST, 2)))
"""Next to a node: for each further metric, its value at the last entry, and inclusive value."""

MEASURED_NODE = np.dtype([*NODE.descr, ("metrics", METRICS)])
"""A call path in a part with further metrics."""

THREAD = np.dtype(
    [
        ("root", MEASURED_NODE),
        ("hidden", MEASURED_NODE),
        ("cursor", "<u8"),
        ("hide", "<u8"),
        ("index", "<u8"),
        ("native_id", "<u8"),
        ("ended_ticks", "<u8"),
        ("cpu_start_ns", "<i8"),
        ("cpu_ns", "<i8"),
        ("due_ticks", "<u8"),
        ("looked_ticks", "<u8"),
        ("name", "S64"),
    ]
)
"""A thread's block; the process's own fields follow."""

STEP = np.dtype(
    [
        ("number", "<u8"),
        ("count", "<u8"),
        ("start", "<u8"),
        ("ticks", "<u8"),
        ("longest", "<u8"),
        ("samples", "<u8"),
        ("phases", "<u8", (12,)),
        ("values", "<f8", (32,)),
        ("metrics", "<f8", (len(OF_STEPS) + _METRICS_AT_MOST + len(STATED),)),
    ]
)
"""A row of steps (`_native/step_rows.h`)."""

COMMUNICATOR = np.dtype(
    [
        ("place", "<u8"),
        ("size", "<u8"),
        ("begun", "<u8"),
        ("stride", "<u8"),
        ("name", "S64"),
        ("ranks", "S160"),
    ]
)
"""A process group (`_native/collectives.h`)."""

COLLECTIVE = np.dtype(
    [
        ("is_used", "<u4"),
        ("operation", "<u4"),
        ("communicator", "<u8"),
        ("number", "<u8"),
        ("bytes", "<u8"),
        ("asked", "<u8"),
        ("begun", "<u8"),
        ("ended", "<u8"),
        ("cause", "<u8"),
    ]
)
"""One collective."""

COLLECTIVE_SUM = np.dtype(
    [
        ("communicator", "<u4"),
        ("operation", "<u4"),
        ("count", "<u8"),
        ("ended", "<u8"),
        ("ticks", "<u8"),
        ("longest", "<u8"),
        ("bytes", "<u8"),
        ("unsized", "<u8"),
        ("cause", "<u8"),
    ]
)
"""The sums for one communicator, operation and call path."""

STRETCH = np.dtype(
    [
        *((name, "<u8") for name in ("is_used", "thread", "start", "end")),
        ("own", [("node", "<u8"), ("ticks", "<u8")], (STRETCH_PLACES,)),
    ]
)
"""What a thread did between two collectives (`_native/stretches.h`)."""

LAYER = np.dtype(
    [
        ("key", "<u8"),
        *((name, "<i8") for name in ("parameters", "parameter_bytes", "output_bytes")),
        *((name, "<u8") for name in ("calls", "operators", "flop")),
        *((name, "<u8") for name in ("backward_passes", "backward_operators", "backward_flop")),
        ("period", "<u8"),
        *((name, "<u4") for name in ("is_unsized", "backward_is_unsized")),
        *((name, "<u4") for name in ("input_varies", "output_varies")),
        *(("input", "S160"), ("output", "S160"), ("unknown", "S512")),
    ]
)
"""Parameters, shapes and operations of a layer (`_native/layer_facts.h`)."""

SPAN = np.dtype([("node", "<u8"), ("start", "<u8"), ("end", "<u8")])
"""Start and end of a layer or phase (`_native/spans.h`)."""

LINE_SUMS = np.dtype([(name, "<u8") for name in ("key", "first", "number")])
"""The lines of a routine, whose records follow (`_native/line_events.h`)."""

LINE_RECORD = np.dtype([(name, "<u8") for name in ("count", "own", "inclusive")])
"""A line of it."""

LINE_NODE = np.dtype(
    [
        ("node", "<u8"),
        ("sums", "<u8"),
        ("open", "<i8"),
        *((name, "<u8") for name in ("own", "inclusive")),
        *((name, "<u4") for name in ("is_inner", "goes_on")),
        *((name, "<u8") for name in ("calls", "apart")),
    ]
)
"""A call path of a routine with exact lines."""

LINES_APART = np.dtype([(name, "<u8") for name in ("node", "caller", "next", "unused")])
"""A call path whose time is not that of the lines that called it."""

HIDDEN_BYTES = MEASURED_NODE.itemsize
"""Offset from a thread to its hidden node, which represents unrecorded call paths."""
