"""Limits on the contents of foreign files, in one table for all formats.

They guard against invalid files and files that exhaust memory; no profiler writes anything larger,
or the format's own readers do not accept it.
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
"""A larger time stamp is invalid."""
SLICE_NS: Final = 1 << 53
"""104 days; a longer slice is invalid."""
SUM: Final = (1 << 62) - 1
"""The largest sum: adding two of them does not overflow 64 bits."""
VALUE: Final = 1e30
"""A larger number is not a measurement."""
FRAMES: Final = 1_000_000
"""Different frames of a file (`collapsed`, `austin`)."""
DOCUMENT_BYTES: Final = 1 << 30
"""Size of a file that is read as a whole (TAU's XML, Hatchet)."""

# --- slices that overlap

SPLIT: Final = 32
"""The most open slices that one slice splits; the rest of deeper ones counts at the top level."""
SPLITS: Final = 3_000_000
"""After this many splits on one timeline, a slice splits at most two others."""

# --- JSON

JSON_DEPTH: Final = 100
TRACE_VALUE: Final = 32 << 20
"""Characters of an event or header value; no trace has longer ones."""
TRACE_MENDED: Final = 1 << 14
"""How many characters of a broken event are searched for its closing bracket."""
TRACE_BLANK: Final = 64
"""Consecutive pieces without an event; a file with more is rejected, to save time."""
TRACE_BROKEN: Final = 100_000
"""Unreadable events; a file with more is not a trace."""
TRACE_NAME: Final = 1 << 16
"""Characters of an event's name."""
TRACE_DEPTH: Final = 10_000
"""Depth of a stack."""
DEVICES: Final = 1 << 16
SPEEDSCOPE_FRAMES: Final = 10_000_000
SPEEDSCOPE_PLACE: Final = 10**9
"""Number of a node, context or thread."""
HATCHET_DEPTH: Final = 100_000

# --- binary

PSTATS_BYTES: Final = 128 << 20
"""Enough for half a million routines of about 200 bytes each, more than any program has."""
PSTATS_SECONDS: Final = 1 << 32
MARSHAL_DEPTH: Final = 20
PACKET_BYTES: Final = 64 << 20
"""Size of one packet of a Perfetto trace."""
PPROF_BYTES: Final = 256 << 20
"""Size of the uncompressed file."""
PPROF_ENTRIES: Final = 2_000_000
"""Strings, functions, or locations: more than any program has."""
PPROF_DEPTH: Final = 200_000
PPROF_VISITED: Final = 40_000_000
"""Frames of all stacks together."""
PPROF_CELLS: Final = 16_000_000
"""Call paths of a thread times sample types."""
SQLITE_CHECKED: Final = 64 << 20
"""Bytes; a smaller database is checked for damage as a whole, a larger one only where it is
read."""
SQLITE_VALUE: Final = 16 << 20
"""Bytes of a text, blob or row."""
SQLITE_DEFAULT: Final = 1000
"""Characters of a column's default value, which stands for nothing in any number of rows."""
AUSTIN_FACTS: Final = 100

# --- TAU

TAU_PATH: Final = 60_000
"""Bytes of a call path's name: pprof reads lines of 64 KiB, packed names have 16-bit lengths."""
TAU_NAME_LINES: Final = 200
TAU_GAP: Final = 100
"""Characters between two attributes of a header."""
TAU_ARROWS: Final = 16
"""Occurrences of ` => ` within one routine's name."""

# --- NVIDIA

GROUPS: Final = 64
"""Groups of launches of one kernel on one stream; all further launches form one group."""
NSYS_STRINGS: Final = 2_000_000
"""Strings of a table without a primary key; with one there is no limit."""
NSYS_FACTS: Final = 2000
NCU_MESSAGE: Final = 256 << 20
NCU_STRINGS: Final = 4_000_000
NCU_METRICS: Final = 2000
"""Metrics of one file; all sections of ncu together have some 800."""
NCU_CELLS: Final = 8_000_000
"""Groups of launches times metrics."""
NCU_WHOLE: Final = 1 << 50
NCU_COLUMNS: Final = 20_000
NCU_LINES: Final = 1000
"""Lines of one row."""
NCU_SURVEYED: Final = 100_000
"""Rows that are examined for the file's decimal and thousands separators."""
NCU_LOOKED: Final = 64 << 20
"""Bytes of the program's own output before ncu's first header."""
NCU_JOINED: Final = 200_000
"""Launches of one file with which the launches of other files are joined."""
