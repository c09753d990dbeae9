"""A trial in which every text attacks its reader, and checks that no output contains the attack."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any

from taupy.model.profile import LineTime, Metric, OperatorInput, Profile, Timer, UserEvent

EVIL = (
    "=cmd|' /C calc'!A0;=1+1<script>alert(1)</script>\x1b[2J\x1b]0;owned\x07\n\r\t"
    "\u202e\u2066\u200b\x9b2J]]>--></svg>`|$x_{$\"'{{7*7}}"
)
UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff]"
)
"""Control characters except newline, and characters that reverse or hide text."""

# Texts with a meaning to taupy, which a program cannot choose freely.
_FIXED = {"uuid", "kind", "state", "category", "edge", "limiter", "unit", "source", "pattern"}
_GROUPS = {"GPU_KERNEL", "GPU_COPY", "CUDA_API", "TAUPY", "PYTHON", "LAYER", "PHASE", "PHASE_DATA"}


def hostile(profile: Profile) -> Profile:
    """The profile with EVIL before each of its names, keys and values, and with additional ones."""
    profile.metrics = [*profile.metrics, Metric(f"{EVIL}metric", EVIL)]
    tree = profile.threads[0].tree
    tree.inclusive[f"{EVIL}metric"] = tree.inclusive["time"][:]
    tree.exclusive[f"{EVIL}metric"] = tree.exclusive["time"][:]
    profile.threads[0].user_events = [
        *profile.threads[0].user_events,
        UserEvent("event", "bytes", 1, 2.0, 2.0, 2.0, 4.0, row=1),
    ]
    profile.threads[0].lines = [
        LineTime(1, None, 1, 1, 0, 4, "cpu", 50, 5000, 5000, 1e6, text_hash=1, context_hash=2)
    ]
    profile.threads[0].inputs = [OperatorInput(1, EVIL, 1, 10, 1, 10)]
    for name in ("application", "experiment", "name", "source"):
        setattr(profile, name, EVIL + (getattr(profile, name) or name))
    profile.metadata = {EVIL + key: EVIL + value for key, value in profile.metadata.items()}
    profile.metadata |= {"Command": EVIL, "Hostname": EVIL, "CPU Type": EVIL, "GPU Name": EVIL}
    profile.metadata |= {"taupy.health.note": EVIL, "n": f"{EVIL}{profile.uuid[-1]}"}
    profile.node_metadata = {
        node: {EVIL + key: EVIL + value for key, value in facts.items()}
        for node, facts in profile.node_metadata.items()
    }
    profile.timers = [profile.timers[0], *(attacking(timer) for timer in profile.timers[1:])]
    profile.devices = [attacking(device) for device in profile.devices]
    for measured in profile.threads:
        measured.thread = attacking(measured.thread)
        measured.user_events = [attacking(event) for event in measured.user_events]
    return profile


def attacking(record: Any) -> Any:
    """A dataclass or named tuple with EVIL before each of its free texts."""
    changed: dict[str, Any] = {}
    is_tuple = isinstance(record, tuple)
    names = record._fields if is_tuple else [field.name for field in fields(record)]
    for name in names:
        value = getattr(record, name)
        if name in _FIXED:
            continue
        if isinstance(value, str):
            changed[name] = EVIL + value
        elif isinstance(record, Timer) and name == "groups":
            changed["groups"] = tuple(
                group if group in _GROUPS else EVIL.replace("|", "") + group for group in value
            )
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            changed[name] = tuple(map(attacking, value))
    return record._replace(**changed) if is_tuple else replace(record, **changed)


class Tags(HTMLParser):
    """The elements and attributes of a page, as a browser parses it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs
