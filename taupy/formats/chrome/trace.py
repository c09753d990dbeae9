"""Read Chrome trace JSON, plain or gzipped, from torch.profiler (Kineto), viztracer and others.

A thread's slices become its call paths according to their nesting; slices that overlap are split
(`slices.py`). GPU slices (kernels, copies, memsets) become streams, each slice under the runtime
call that launched it. The call is found by its `correlation`, else by the operator with the same
`External id`, else by the arrow (`ac2g`) between them. Counters become user events. `write.py`
writes traces, `json_events.py` parses the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from taupy.formats.chrome.capture import Capture
from taupy.formats.chrome.read import TraceReader
from taupy.formats.chrome.write import write
from taupy.formats.json_events import Events
from taupy.formats.reading import refusal
from taupy.formats.registry import Format
from taupy.formats.tracks import TIMELINE
from taupy.model.profile import Profile
from taupy.model.progress import Progress

_EVENT: Final = re.compile(rb'"ph"\s*:\s*"[A-Za-z(),]"')


def recognises(path: Path, first: bytes) -> bool:
    text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{"):
        return b'"traceEvents"' in text
    return text.startswith(b"[") and _EVENT.search(text) is not None


def read(path: Path, progress: Progress, capture: Capture | None = None) -> Iterator[Profile]:
    """The only trial of a trace; incomplete if the trace is truncated.

    Args:
        capture: of a CUDA graph that the trace launches.

    Raises:
        FormatError: the file is not JSON, contains no events with a time, or is malicious; or the
            capture is of another graph.
    """
    events = Events(path, progress)
    reader = TraceReader(path.name)
    for event in events:
        reader.add(event)
        if not events.count & 0xFFFFF and not reader.anything:
            raise refusal(path, "traceEvents", f"no event with a time in {events.count} events")
    if not reader.anything:
        cut = f", cut off at {events.cut_off}" if events.cut_off else ""
        raise refusal(path, "traceEvents", f"no event with a time in {events.count} events{cut}")
    yield reader.profile(path, events, progress, capture)


FORMAT = Format(
    name="chrome",
    title="Chrome trace JSON (torch.profiler, viztracer)",
    suffixes=(".trace.json", ".pt.trace.json"),
    recognises=recognises,
    read=read,
    write=write,
    holds=TIMELINE | {"devices", "metadata"},
)
