"""The ends of processes that did not close their parts, and the routines open until then.

The part of a killed process ends with its last event, which may be long before its end. If the
watch (`watch/process.py`) saw the process end, open routines count up to that moment. If the watch
ended at the same time, as when a whole container is killed, its last heartbeat is the end.
Otherwise the end is unknown, and open routines count up to the last event. Both engines' parts are
treated alike.
"""

from __future__ import annotations

from _signal import SIGHUP, SIGINT, SIGTERM  # type: ignore[import-not-found]
from collections.abc import Iterable, Sequence
from contextlib import suppress
from os import waitstatus_to_exitcode

from taupy.dataclass import replace
from taupy.instrument.runfolder import RunSettings, boot_id, process_start
from taupy.model.rows import signal_name
from taupy.record.part_data import Ending, Part, PartThread
from taupy.state import heartbeat, watch_files
from taupy.state.folder import Folder
from taupy.state.heartbeat import Beat, End
from taupy.state.pauses import pauses
from taupy.state.values import Damaged
from taupy.units import duration

KILLED = "it was stopped or killed"
_WAIT_S = 2.0
_BEGINS_NS = 10_000_000_000  # a watch that has not begun until then never does
_SEEN_LATE_NS = 1_000_000_000  # even while paused, a heartbeat comes every 100 ms
_SLACK_NS = 100_000_000  # how late a pending heartbeat may be
_THREADS_AT_MOST, _ROUTINES_AT_MOST = 64, 8
_STOPS = frozenset({SIGHUP, SIGINT, SIGTERM})
_POOLS = (
    ("worker", "multiprocessing/pool.py"),
    ("_process_worker", "concurrent/futures/process.py"),
    ("_process_worker", "loky/process_executor.py"),
    ("_worker_loop", "torch/utils/data/_utils/worker.py"),
)
_STOPPED = "taupy.stopped."
"""Name of the note on such a signal that a process has sent, with the receiver's process id."""


def add_endings(folder: Folder, settings: RunSettings, parts: Iterable[Part]) -> None:
    """Note how each process that did not close its part ended, and extend its open routines up to
    its end."""
    parts = list(parts)
    sent = _sent_stops(parts)
    cut = [part for part in parts if not part.complete]
    if not cut:
        return
    beat, ends, why = _watched(folder, settings, cut)
    by_process = {(end.pid, end.start): end for end in ends}
    for part in cut:
        end = by_process.get((part.pid, part.process_start)) or by_process.get((part.pid, 0))
        until_ns, ending = _ending(part, beat, end, why)
        if ending.status is None and ending.source != "running":
            ending = replace(ending, status=sent.get(part.pid))
        unseen_ns = max(0, until_ns - part.end_ns) if part.engine == "python" else 0
        part.ending = replace(ending, unseen_ns=unseen_ns)
        count_until(part, until_ns)


def _sent_stops(parts: Iterable[Part]) -> dict[int, int]:
    """The signals by which processes of the run asked others to end, by the receiver's id. A wait
    status is the number of the signal. The notes are removed."""
    sent = {}
    for part in parts:
        for name in [name for name in part.metadata if name.startswith(_STOPPED)]:
            receiver, number = name.removeprefix(_STOPPED), part.metadata.pop(name)
            if receiver.isdecimal() and len(receiver) < 20 and number in map(str, map(int, _STOPS)):
                sent[int(receiver)] = int(number)
    return sent


def stopped_by(part: Part) -> str:
    """The signal by which a process was asked to end, if that ended it: all that it did until then
    was counted. "" if it ended otherwise, or that is not known."""
    code = exit_code(part.ending)
    if part.engine == "python" or code is None or -code not in _STOPS:
        return ""
    return signal_name(-code)


def ended_by(part: Part) -> str:
    """What ended a child that was not killed: its pool, a signal that asked it to end, or `_exit`,
    as PyTorch's workers do when they get one. "" as for `stopped_by`."""
    code = exit_code(part.ending)
    if code is None:
        return ""
    by = "_exit" if code >= 0 else stopped_by(part)
    return "its pool" if by and _works_for_pool(part) else by


def _works_for_pool(part: Part) -> bool:
    """Whether its main thread was in the loop of a pool's worker."""
    thread = next(iter(part.threads), None)
    routines = (part.routines[thread.routine[row]] for row, _ in thread.open) if thread else ()
    return any(
        routine.name == name and routine.file.endswith(file)
        for routine in routines
        for name, file in _POOLS
    )


def count_until(part: Part, until_ns: int) -> None:
    """Extend open routines up to a moment; no value decreases."""
    more = until_ns - part.end_ns
    if more <= 0:
        return
    part.end_ns = until_ns
    for thread in part.threads:
        if not (thread.ended or thread.native):
            for row in {0, *(row for row, _ in thread.open)}:
                thread.inclusive[row] += more
            for at, is_own, is_inner in thread.open_lines:
                line = thread.lines[at]
                thread.lines[at] = replace(
                    line,
                    own_ns=line.own_ns + more * is_own,
                    inclusive_ns=line.inclusive_ns + more * (not is_inner),
                )
            if thread.spans is not None:
                thread.spans.late_ns += more


def _watched(
    folder: Folder, settings: RunSettings, cut: Sequence[Part]
) -> tuple[Beat | None, list[End], str]:
    """What the watch recorded about these processes, or why it recorded nothing.

    A watch that is still running is about to record their ends.
    """
    is_here = settings.boot_id == boot_id()
    beat: Beat | None = None
    ends: list[End] = []
    for _ in pauses(_WAIT_S, 0.01):
        try:
            kept = heartbeat.read(folder)
        except (Damaged, OSError) as problem:
            return None, [], f"what the watch recorded cannot be read ({problem})"
        if kept is None:
            watch = settings.metadata.get("taupy.watch", "none: it did not begin")
            return None, [], f"no watch: {watch.removeprefix('none: ')}"
        beat, ends = kept
        noted = {end.pid for end in ends}
        is_late = is_here and not beat.is_over and any(part.pid not in noted for part in cut)
        if not (is_late and process_start(beat.pid)):
            break
    return beat, ends, ""


def _ending(part: Part, beat: Beat | None, end: End | None, why: str) -> tuple[int, Ending]:
    """When a process ended (ns of CLOCK_MONOTONIC), and how."""
    if end is not None:
        return end.ended_ns, Ending("seen", end.late_ns, end.status)
    if beat is None:
        return part.end_ns, Ending("unknown", why=why)
    late_ns = max(beat.longest_ns, _SLACK_NS)
    if beat.is_over or part.end_ns > beat.beat_ns + 2 * late_ns:
        return part.end_ns, Ending("unknown", why="the watch had ended earlier")
    return beat.beat_ns, Ending("heartbeat", late_ns)


def watch_facts(folder: Folder, parts: Sequence[Part]) -> dict[str, str]:
    """The coverage of a run's watch, as metadata of its trial; empty if there was none, or what it
    wrote cannot be read."""
    try:
        kept = heartbeat.read(folder)
    except (Damaged, OSError):
        return {}
    if kept is None:
        return _unstarted(folder, parts)
    beat, _ = kept
    watched_ns = beat.beat_ns - beat.began_ns
    return {
        "taupy.watch": (
            f"{beat.rounds} rounds in {duration(watched_ns)}: one every "
            f"{duration(beat.interval_ns)}, at most {duration(beat.longest_ns)} apart, with "
            f"{duration(beat.cpu_ns)} of CPU time{_unwatched(beat, parts)}"
        )
    }


def _unstarted(folder: Folder, parts: Sequence[Part]) -> dict[str, str]:
    if not (folder / watch_files.HEARTBEAT).exists():
        return {}
    lasted_ns = max(part.end_ns for part in parts) - min(part.start_ns for part in parts)
    why = f"the program ended before the first look, after {duration(lasted_ns)}"
    if lasted_ns > _BEGINS_NS:
        why = f"it did not look once in {duration(lasted_ns)}: it was killed, or could not start"
    return {"taupy.watch": f"none: {why}"}


def _unwatched(beat: Beat, parts: Sequence[Part]) -> str:
    """What the watch did not see."""
    text = ""
    unseen_ns = max((part.end_ns for part in parts), default=0) - beat.beat_ns
    if not beat.is_over and unseen_ns > _SEEN_LATE_NS:
        text += f"; it saw nothing of the last {duration(unseen_ns)} because {KILLED}"
    if any(part.engine == "python" for part in parts):
        text += "; the plain engine cannot tell where memory grew or where threads waited"
    return text


def exit_code(ending: Ending | None) -> int | None:
    """The exit code as in a trial: negative for a signal; None if unknown."""
    if ending is None or ending.status is None:
        return None
    with suppress(ValueError):
        return waitstatus_to_exitcode(ending.status)
    return None


def sentence(part: Part) -> str:
    """A sentence on how a process ended, and until when its open routines count."""
    ending = part.ending or Ending("unknown", why="the run was not watched")
    ran = duration(part.end_ns - part.start_ns)
    then = "then" + _doubt(ending)
    code = exit_code(ending)
    how = (
        "" if code is None else f" by {signal_name(-code)}" if code < 0 else f" (exit code {code})"
    )
    if ending.source == "running":
        return f"is still running after {ran}: open routines count up to now"
    if ending.source == "seen":
        early = f", or up to {duration(ending.late_ns)} earlier" if ending.late_ns else ""
        return f"ended{how} after {ran}{early}: open routines count up to {then}"
    if ending.source == "heartbeat":
        return (
            f"ended after {ran}, together with what watched it, or up to "
            f"{duration(ending.late_ns)} later: open routines count up to the last heartbeat"
        )
    return f"has no known end ({ending.why}): open routines count up to the last recorded moment"


def _doubt(ending: Ending) -> str:
    """A note on uncertainty: the plain engine, unlike the compiled one, records open routines only
    at intervals."""
    if not ending.unseen_ns:
        return ""
    ago = duration(ending.unseen_ns)
    return (
        f"; the plain engine noted them {ago} before the end, so the innermost may have ended "
        "and others begun"
    )


def open_routines(part: Part) -> dict[str, str]:
    """The open routines of each thread when the process ended, as metadata of its node."""
    facts = {}
    doubt = _doubt(part.ending) if part.ending else ""
    for number, thread in enumerate(part.threads[:_THREADS_AT_MOST]):
        if thread.open and not thread.ended:
            name = thread.name or f"thread {number}"
            label = f"{name} ({number})" if number else name
            facts[f"Open at the End: {label}"] = open_path(part, thread) + doubt
    return facts


def open_path(part: Part, thread: PartThread) -> str:
    """The open routines of a thread, innermost first, each with the time it was open."""
    shown = []
    for row, entered_ns in thread.open[:_ROUTINES_AT_MOST]:
        name = part.routines[thread.routine[row]].name
        shown.append(f"{name} for {duration(max(0, part.end_ns - entered_ns))}")
    more = len(thread.open) - len(shown)
    return ", in ".join(shown) + (f", in {more} more" if more else "")
