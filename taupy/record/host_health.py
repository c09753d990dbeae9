"""What is missing or degraded in the host side of a measurement, as metadata of its trial."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from taupy.instrument.runfolder import RunSettings
from taupy.model.profile import Profile, ThreadProfile, Timer
from taupy.network import layers, steps
from taupy.record import endings
from taupy.record.part_data import Part
from taupy.units import duration, nearest, several, verb

HEALTH = "taupy.health."
"""Prefix of metadata that say what is missing or degraded in a measurement."""

LOST = f"{HEALTH}lost"

ENDED = "taupy.children_ended"
"""Metadata that name the children that did not end by themselves, but were not killed either."""

_LONGEST_SOURCE = 1 << 20

_UNCOUNTED_AT_MOST = 0.001  # share of a process's CPU time that needs no message


def is_whole(settings: RunSettings, parts: Mapping[int, Part]) -> bool:
    """Whether everything the processes did is recorded.

    A process that did not close its part has lost nothing if it was asked to end (SIGTERM), or is
    not the program itself.
    """
    return not any(part.loss or _is_cut(part, settings) for part in parts.values())


def add_losses(profile: Profile, lost: list[str]) -> None:
    """Record what is lost, which makes the trial incomplete."""
    if lost:
        texts = [profile.metadata[LOST]] if LOST in profile.metadata else []
        profile.metadata[LOST] = "\n".join(dict.fromkeys([*texts, *lost]))
        profile.state = "incomplete"


def _is_cut(part: Part, settings: RunSettings) -> bool:
    if part.complete or endings.stopped_by(part):
        return False
    return part.pid == settings.root_pid


def of_parts(parts: Mapping[int, Part], roots: Sequence[Part]) -> dict[str, str]:
    """What is missing from the processes' parts.

    Args:
        parts: node -> part.
        roots: the images of the process that was launched.
    """
    health: dict[str, str] = {}
    for node, part in sorted(parts.items()):
        suffix = f".node{node}" if len(parts) > 1 else ""
        own = {n[len(HEALTH) :]: t for n, t in part.metadata.items() if n.startswith(HEALTH)}
        for name, text in {**part.health, **own}.items():
            health[HEALTH + name + suffix] = text
        health.update(_counters(part, suffix))
    if lost := [part.loss for _, part in sorted(parts.items()) if part.loss]:
        health[LOST] = "\n".join(lost)
    return health | _cut_off(parts, roots)


def of_settings(
    settings: RunSettings, timers: Sequence[Timer], threads: Sequence[ThreadProfile]
) -> dict[str, str]:
    """What the run requested but the profile lacks."""
    health: dict[str, str] = {}
    if wanted := settings.engine_options.get("include"):
        health |= _not_included(wanted, settings, timers)
    throttled = sorted(timer.full_name for timer in timers if "THROTTLED" in timer.groups)
    if throttled:
        health[f"{HEALTH}throttled"] = (
            f"{several(len(throttled), 'routine')} {verb(len(throttled), 'were')} throttled: "
            f"counts and times are lower bounds: {', '.join(throttled[:20])}"
            + (", ..." if len(throttled) > 20 else "")
        )
    if settings.engine_options.get("layers") and (doubt := layers.doubt(timers)):
        health[f"{HEALTH}layers"] = doubt
    if lacking := layers.lacking(timers, settings.metadata):
        health[layers.LACKING] = lacking
    trainings = [series for thread in threads for series in thread.steps]
    if not trainings and (doubt := steps.doubt(timers)):
        health[f"{HEALTH}steps"] = doubt
    if unseen := steps.unseen(settings.metadata.get(steps.WINDOW), trainings):
        health[steps.UNSEEN] = unseen
    for number, note in enumerate(settings.notes):
        health[f"{HEALTH}note{number or ''}"] = note
    return health


def _not_included(
    wanted: Sequence[str], settings: RunSettings, timers: Sequence[Timer]
) -> dict[str, str]:
    """The patterns of --include that no routine matched, with the names nearest to them."""
    from taupy.instrument.selection import Selection

    recorded = [(timer.name, timer.path, timer.line) for timer in timers[1:]]
    missing = [
        pattern
        for pattern in wanted
        if not recorded
        # The module of a routine is not stored.
        or (
            not pattern.startswith("module:")
            and not any(Selection([pattern], []).selected(*names) for names in recorded)
        )
    ]
    if not missing:
        return {}
    names = {timer.name for timer in timers[1:]} | _functions(settings)
    near = [name for pattern in missing for name in nearest(pattern.removeprefix("name:"), names)]
    text = f"no routine that ran matches --include {', '.join(missing)}"
    text += f" (near it: {', '.join(dict.fromkeys(near))})" if near else ""
    text += "" if recorded else ": nothing was recorded"
    text += "; `taupy pprof --list` of a trial without it shows names and files"
    return {f"{HEALTH}include": text}


def _functions(settings: RunSettings) -> set[str]:
    """The qualified names of the functions in the program's own file, if that can be read."""
    import ast

    path = os.path.join(settings.cwd, settings.arguments[0] if settings.arguments else "")
    names = set()
    try:
        with open(path, encoding="utf-8") as file:
            below = [("", ast.parse(file.read(_LONGEST_SOURCE)))]
    except (OSError, ValueError, SyntaxError, RecursionError):
        return set()
    while below:
        prefix, node = below.pop()
        for child in ast.iter_child_nodes(node):
            inside = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(prefix + child.name)
                inside = f"{prefix}{child.name}.<locals>."
            elif isinstance(child, ast.ClassDef):
                inside = f"{prefix}{child.name}."
            below.append((inside, child))  # type: ignore[arg-type]
    return names


def _counters(part: Part, suffix: str) -> dict[str, str]:
    """What is missing from the part's counters."""
    health = {}
    refused = [thread for thread in part.threads if thread.refused is not None]
    if refused:
        names = ", ".join(thread.name or str(thread.native_id) for thread in refused[:8])
        health[f"{HEALTH}counters_refused{suffix}"] = (
            f"no counters of {len(refused)} of {len(part.threads)} threads ({names}"
            f"{', ...' if len(refused) > 8 else ''}): {refused[0].refused}"
        )
    if not part.complete and any(thread.counters for thread in part.threads):
        health[f"{HEALTH}counters_cut_off{suffix}"] = (
            "counters of routines that were running when the program was killed include only "
            "callees that had returned"
        )
    lost, _, of = part.metadata.get("taupy.counters.uncounted_ns", "0 of 0").partition(" of ")
    if int(lost) > _UNCOUNTED_AT_MOST * int(of):
        health[f"{HEALTH}counters_lost{suffix}"] = (
            f"{duration(int(lost))} of {duration(int(of))} CPU time was spent in threads before "
            "their counters could be opened, and is not counted"
        )
    return health


def _cut_off(parts: Mapping[int, Part], roots: Sequence[Part]) -> dict[str, str]:
    """Messages about processes that did not close their parts: how the program ended, where its
    first thread was, and which other processes were killed."""
    health = {}
    if roots and not roots[-1].complete:
        root = roots[-1]
        stopped = bool(endings.stopped_by(root))
        text = f"what the program had counted{_noted(root)} was recovered; it "
        text = f"{'the program ' if stopped else text}{endings.sentence(root)}"
        if root.threads and root.threads[0].open:
            text += f"; it was in {endings.open_path(root, root.threads[0])}"
        health[f"{HEALTH}{'stopped' if stopped else 'cut_off'}"] = text
    open_ended = {
        node: part
        for node, part in sorted(parts.items())
        if not (part.complete or part in roots or part.runs)
    }
    if ended := {node: by for node, part in open_ended.items() if (by := endings.ended_by(part))}:
        health[ENDED] = (
            f"{len(ended)} of {len(parts)} processes (node {_nodes(ended)}) "
            f"{verb(len(ended), 'were')} ended by {' or '.join(sorted(set(ended.values())))}: "
            "open routines count up to then"
        )
    if killed := [node for node in open_ended if node not in ended]:
        nodes = _nodes(killed)
        endings_of = [parts[node].ending for node in killed]
        seen = sum(ending is not None and ending.source == "seen" for ending in endings_of)
        until = "up to their ends"
        if seen < len(killed):
            until += f", seen for {seen} of them; for the others, up to the last recorded moment"
        health[f"{HEALTH}children_killed"] = (
            f"{len(killed)} of {len(parts)} processes (node {nodes}) {verb(len(killed), 'were')} "
            "killed or could not record the end: what was counted until then was recovered; open "
            f"routines count {until}"
        )
    return health


def _nodes(nodes: Collection[int]) -> str:
    return ", ".join(map(str, list(nodes)[:20])) + (", ..." if len(nodes) > 20 else "")


def _noted(part: Part) -> str:
    """A note for the plain engine, which writes its file only at intervals; the compiled engine
    counts directly in the file."""
    if part.engine != "python":
        return ""
    return " when the plain engine last noted it (counts are lower bounds)"
