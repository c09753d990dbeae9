"""Names of the watch's files in a run folder. What is in them is in `heartbeat.py`, `looks.py` and
`lines.py`, without which they can be made, kept and seen to be empty."""

HEARTBEAT, FOUND = "watch", "watch.found"

MEMORY, PEAKS, THREADS = "watch.memory", "watch.peaks", "watch.threads"
LOOKS = (MEMORY, PEAKS, THREADS)

LINES, CODES = "watch.lines", "watch.codes"
OF_LINES = (LINES, CODES)
LINE_SUFFIXES = (".lines", ".codes")
"""Of the files of a process that looks at its own lines."""
