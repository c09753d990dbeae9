"""How much a foreign file may contain. No profiler writes anything larger, or no reader accepts it.

One table for all formats: bounds against files that lie or exhaust memory, and widths of the
formats' own numbers and texts.
"""

from __future__ import annotations

from typing import Final

# --- all formats

LONGEST_LINE: Final = 16 << 20
"""Bytes; no text format that taupy reads has longer lines."""
LONGEST_NAME: Final = 1 << 20
"""Characters of one name."""
INTEGER: Final = (1 << 63) - 1
"""The largest number of 64 bits."""
EXACT: Final = 1 << 53
"""Whole numbers up to here are exact as doubles."""
STAMP_NS: Final = 1 << 61
"""A moment beyond is none."""
SLICE_NS: Final = 1 << 53
"""104 days; a longer slice is none."""
SUM: Final = (1 << 62) - 1
"""Of a sum: two of them still fit 64 bits."""
VALUE: Final = 1e30
"""A number beyond is no measurement."""
FRAMES: Final = 1_000_000
"""Different frames of a file (`collapsed`, `austin`)."""
DOCUMENT_BYTES: Final = 1 << 30
"""Of a file that is read as a whole (TAU's XML, Hatchet)."""

# --- slices that overlap

SPLIT: Final = 32
"""So many open slices are split by one; the rest of deeper ones counts at the top."""
SPLITS: Final = 3_000_000
"""So many splits are worth their time; then two go on, and the others count at the top."""

# --- JSON

JSON_DEPTH: Final = 100
TRACE_VALUE: Final = 32 << 20
"""Characters; a longer event or header value is in no trace."""
TRACE_MENDED: Final = 1 << 14
"""Characters of a broken event whose end is looked for by its brackets."""
TRACE_BLANK: Final = 64
"""Pieces without an event in them; more is not a trace but an attempt to waste time."""
TRACE_BROKEN: Final = 100_000
"""So many unreadable events say that this is something else."""
TRACE_NAME: Final = 1 << 16
"""Characters of an event's name."""
TRACE_DEPTH: Final = 10_000
"""Of stack frames."""
DEVICES: Final = 1 << 16
SPEEDSCOPE_FRAMES: Final = 10_000_000
SPEEDSCOPE_PLACE: Final = 10**9
"""Of a node, context or thread."""
HATCHET_DEPTH: Final = 100_000

# --- binary

PSTATS_BYTES: Final = 128 << 20
"""A routine takes about 200; no program has half a million of them."""
PSTATS_SECONDS: Final = 1 << 32
MARSHAL_DEPTH: Final = 20
PACKET_BYTES: Final = 64 << 20
"""Of Perfetto's packets."""
PPROF_BYTES: Final = 256 << 20
"""Unpacked."""
PPROF_ENTRIES: Final = 2_000_000
"""Strings, functions, locations: more than any program has."""
PPROF_DEPTH: Final = 200_000
PPROF_VISITED: Final = 40_000_000
"""Frames of all stacks."""
PPROF_CELLS: Final = 16_000_000
"""Call paths of a thread times sample types."""
SQLITE_CHECKED: Final = 64 << 20
"""Bytes; a larger file is checked as far as it is read, a smaller one as a whole."""
AUSTIN_FACTS: Final = 100

# --- TAU

TAU_PATH: Final = 60_000
"""Bytes; pprof reads lines of 64 KiB, packed names have 16-bit lengths."""
TAU_NAME_LINES: Final = 200
TAU_GAP: Final = 100
"""Characters between two attributes of a header."""
TAU_ARROWS: Final = 16
"""` => ` within one name."""
PACKED_TEXT: Final = 0xFFFF
"""Bytes: lengths have 16 bits."""
PACKED_SAMPLES: Final = (1 << 31) - 1

# --- NVIDIA

GROUPS: Final = 64
"""Of one kernel on one stream; further ones are one group, whatever their configuration."""
NSYS_STRINGS: Final = 2_000_000
"""Of a table without a key; a table with one has as many as it likes."""
NSYS_FACTS: Final = 2000
NCU_MESSAGE: Final = 256 << 20
NCU_STRINGS: Final = 4_000_000
NCU_METRICS: Final = 2000
"""Of one file; all sections of ncu together have some 800."""
NCU_CELLS: Final = 8_000_000
"""Groups of launches times metrics."""
NCU_WHOLE: Final = 1 << 50
NCU_COLUMNS: Final = 20_000
NCU_LINES: Final = 1000
"""Of one row."""
NCU_SURVEYED: Final = 100_000
"""Rows by which the marks of numbers are told."""
NCU_LOOKED: Final = 64 << 20
"""Bytes of a talkative program's output before ncu's first header."""
NCU_JOINED: Final = 200_000
"""Launches of one file that others join."""
