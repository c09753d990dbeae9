"""Write a profile as TAU's text files, for TAU's pprof, ParaProf and PerfExplorer.

Times are written in microseconds, exact to the nanosecond. A GPU's stream is a thread of context
1 + ordinal, as in taupy. Call paths are listed in addition to routines, as TAU does with
TAU_CALLPATH; TAU's readers accept lines of up to 64 KiB.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

from taupy.escaping import entities, unhidden
from taupy.formats.tau import flat as tau_flat
from taupy.formats.tau import names as tau_names
from taupy.formats.tau import thread as tau_thread
from taupy.formats.tau.flat import Flat, Lost
from taupy.formats.tau.names import CALLPATH_GROUP, MICROSECOND_NS
from taupy.formats.tau.text import Event
from taupy.model.profile import Metric, Profile
from taupy.model.progress import Progress


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    """Write the folder; if there are several metrics, it has a folder for each."""
    lost = Lost()
    names = [tau_flat.one_line(timer.full_name, lost) for timer in profile.timers]
    progress.begin(target.name, sum(len(thread.tree) for thread in profile.threads))
    target.mkdir()
    metrics = tau_flat.metrics(profile)
    folders = {metric: target for metric in metrics}
    if len(metrics) > 1:
        folders = {metric: target / folder for metric, folder in _folders(metrics).items()}
    for folder in {*folders.values()} - {target}:
        folder.mkdir()
    for measured in profile.threads:
        thread = measured.thread
        flat = Flat(measured.tree, profile.timers, names, stream=thread.kind == "stream")
        lost.paths += flat.too_long
        facts = tau_flat.facts(profile, measured)
        events = tau_flat.events(measured, flat, lost)
        for metric in metrics:
            if metric.name not in measured.tree.inclusive:
                continue
            file = f"profile.{thread.node}.{thread.context}.{thread.thread}"
            with open(folders[metric] / file, "w", encoding="utf-8", newline="\n") as out:
                _write_thread(out, metric, flat, facts, events)
        progress.advance(len(measured.tree))
    lost.added_up = tau_flat.added_up(profile)
    lost.no_metric = sum(not thread.tree.inclusive for thread in profile.threads)
    return lost.lines()


def _write_thread(
    out: IO[str],
    metric: Metric,
    flat: Flat,
    facts: dict[str, str],
    events: list[Event],
) -> None:
    tree = flat.tree
    inclusive, exclusive = tree.inclusive[metric.name], tree.exclusive[metric.name]
    routines = flat.routines(metric.name)
    paths = [
        row
        for row in flat.paths
        if exclusive[row] == exclusive[row] and inclusive[row] == inclusive[row]  # no NaN
    ]
    name = unhidden(tau_names.metric_name(metric))
    out.write(f"{len(routines) + len(paths)} templated_functions_MULTI_{name}\n")
    facts = {"Metric Name": name, tau_thread.METRIC: f"{metric.name} [{metric.unit}]", **facts}
    attributes = "".join(
        f"<attribute><name>{entities(key)}</name><value>{entities(value)}</value></attribute>"
        for key, value in facts.items()
    )
    out.write(f"# Name Calls Subrs Excl Incl ProfileCalls # <metadata>{attributes}</metadata>\n")
    shown = _shown_in_microseconds if metric.unit == "ns" else _real
    for routine, (calls, subroutines, own, whole, groups) in routines.items():
        values = f"{calls} {subroutines} {shown(own)} {shown(whole)}"
        out.write(f'"{routine}" {values} 0 GROUP="{groups}" \n')
    for row in paths:
        values = f"{tree.calls[row]} {tree.subroutines[row]} {shown(exclusive[row])} "
        values += shown(inclusive[row])
        groups = f"{CALLPATH_GROUP}|{flat.groups[tree.timer[row]]}"
        out.write(f'"{flat.path(row)}" {values} 0 GROUP="{groups}" \n')
    out.write("0 aggregates\n")
    if events:
        out.write(f"{len(events)} userevents\n# eventname numevents max min mean sumsqr\n")
        for event in events:
            values = " ".join(map(_real, event[2:]))
            out.write(f'"{event.name}" {event.count} {values}\n')


def _folders(metrics: list[Metric]) -> dict[Metric, str]:
    """A folder for each metric; names that become equal under TAU's rule get numbers."""
    folder_of: dict[Metric, str] = {}
    for metric in metrics:
        name = unhidden(tau_names.folder_name(tau_names.metric_name(metric)))
        number = 2
        while name in folder_of.values():
            name = f"{name.rstrip('0123456789')}{number}"
            number += 1
        folder_of[metric] = name
    return folder_of


def _shown_in_microseconds(nanoseconds: float) -> str:
    if isinstance(nanoseconds, float):
        if not nanoseconds.is_integer():
            return repr(nanoseconds / MICROSECOND_NS)
        nanoseconds = int(nanoseconds)
    whole, rest = divmod(abs(nanoseconds), MICROSECOND_NS)
    text = f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)
    return f"-{text}" if nanoseconds < 0 else text


def _real(value: float) -> str:
    """A number that C, Java and taupy can read; integers without a decimal point, like TAU's %G."""
    if isinstance(value, int):
        return str(value)
    if value != value:
        return "NaN"
    if value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return repr(value)
