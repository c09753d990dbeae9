"""Store a run whose program has just ended (the storer, not a command for users; `taupy store` is
`team_store.py`)."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes enumerations
import contextlib
import os
import resource

from taupy.dataclass import NamedTuple
from taupy.errors import NOTICES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from taupy.analysis.places import Place
    from taupy.answers.places import GroupPlaces
    from taupy.delivery import Delivery
    from taupy.report.report import Report


_USAGE_ERROR = 2
"""The exit code of a program that did not understand its command line, as argparse ends it."""

_WHY_LENGTH = 200
_WORTH_NAMING = 0.05
"""Share of what is not import from which the hottest place is named."""
_HOT, _MOST = 0.2, 0.5
"""Likewise, from which it is called hot, below which the profile is flat, and the most."""
_MUCH_IMPORT = 0.25
_MUCH_WAITING = 0.1
_TEXT, _LEAST_TEXT = 40, 12
"""Characters of its text, and from which on it says something."""
_LONG_NS, _PATHS_A_SECOND = 1_000_000_000, 2000
"""Findings are looked for in runs that took so long, as far as that takes a few percent of it."""

_STDERR = 3
"""The program's stderr. Descriptor 2 is /dev/null (`_native/exit.c`): nothing else prints."""


_GPU_ERROR = "taupy.health.gpu"

WAITS = 75
"""The exit code of a watch's storer if the database is locked (`watch/process.py`)."""
_LACKING = 77
"""The exit code that lets a program whose own is 0 fail (`_native/exit.c`)."""


def store(folder: str, of: str = "program") -> int:
    """Deliver the run and report it in one line on stderr. Never raises.

    Args:
        of: whose storer it is: the program's, or, after a kill, the "watch". The watch's has nobody
            to report to: what it cannot store stays where it is, and the next command reports it.

    Returns:
        The storer's exit code.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The program's resource limits should not apply to the storer.
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_NOFILE):
        try:
            _, hard = resource.getrlimit(limit)
            if limit != resource.RLIMIT_NOFILE:
                resource.setrlimit(limit, (hard, hard))
        except (ValueError, OSError):
            pass
    # Otherwise NumPy's import starts a thread on each core, which the storer does not need.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    is_told = of == "program"
    try:
        from taupy.delivery import deliver
        from taupy.instrument.runfolder import read_settings
        from taupy.state.folder import open_run

        with open_run(folder) as run:
            settings = read_settings(run)
            quiet = settings.quiet
            with _progress(is_told and not quiet):
                delivery = deliver(run, rescue=is_told, is_told=is_told)
            lines = report(delivery, settings.notes)
            if delivery.trial_id is not None and delivery.profile is not None:
                # What is wrong with the measurement comes first.
                lines = [*lines[1:], *_ended(delivery, lines[0], not quiet)]
            lines += _next(delivery, settings.cwd)
            lines = _misplaced(delivery, settings.arguments) + lines
            if settings.rank and delivery.trial_id is not None:
                lines = _gpu_error(delivery) if delivery.lacks_gpu else []  # rank 0 speaks for all
            lines += _pushed(delivery, waiting=not settings.rank)
    except BaseException as problem:
        _leave_word([_not_stored(folder, problem)] if is_told else [])
        return 0
    is_told = is_told and not quiet
    _leave_word([*lines, *NOTICES] if is_told else [])
    with contextlib.suppress(BaseException):  # the next command recovers them as well
        from taupy.instrument.runfolder import has_run_folders

        if has_run_folders(settings.database):
            from taupy.session import recover

            for late in recover(settings.database):
                lines = _pushed(late, waiting=False)
                _leave_word(lines if is_told else [])
    if delivery.waits and of == "watch":
        return WAITS
    return _LACKING if delivery.lacks_gpu else 0


def _progress(wanted: bool) -> contextlib.AbstractContextManager[object]:
    """Shows on the program's terminal that its trial is being stored, if that takes long."""
    with contextlib.suppress(OSError):
        if wanted and os.isatty(_STDERR):
            from taupy.commands import bar
            from taupy.commands.messages import is_in_background

            if not is_in_background(_STDERR):
                return bar.shown("storing the trial", open(_STDERR, "w", closefd=False))
    return contextlib.nullcontext()


def _leave_word(lines: list[str]) -> None:
    with contextlib.suppress(BaseException):
        from taupy.commands.messages import leave_word

        if lines:
            leave_word(_STDERR, *lines)


def _not_stored(folder: str, problem: BaseException) -> str:
    if os.path.exists(os.path.join(folder, "run")):
        why = str(problem).strip().partition("\n")[0][:_WHY_LENGTH] or "no memory, perhaps"
        return (
            f"the run could not be stored ({type(problem).__name__}: {why}); it is saved in "
            f"{folder}, and the watch or the next taupy command will try again"
        )
    return (
        f"nothing is stored: {folder}, which held what was measured, was deleted while the program "
        "ran, by it or by another process; keep such files elsewhere: TAUPY_STATE_DIR=FOLDER "
        "taupy run ..."
    )


def _gpu_error(delivery: Delivery) -> list[str]:
    """A line on GPU work that was expected and is missing, if it is."""
    profile = delivery.profile
    why = None if profile is None else profile.metadata.get(_GPU_ERROR)
    if profile is None or why is None:
        return []
    fails = delivery.lacks_gpu and not profile.exit_code
    return [f"error: {why}{'; this run ends with exit code 1' if fails else ''}"]


def _pushed(delivery: Delivery, *, waiting: bool) -> list[str]:
    """Push the trial if it is meant for a store; returns the lines to print."""
    if not delivery.push_to:
        return []
    from taupy.commands import pushing
    from taupy.errors import DatabaseError

    try:
        line = pushing.delivered(delivery, waiting=waiting)
    except DatabaseError as problem:
        line = str(problem)
    return [line] if line else []


def _misplaced(delivery: Delivery, words: Sequence[str]) -> list[str]:
    """A line on options of `taupy run` that the program got, if it ended with a usage error."""
    if delivery.profile is None or delivery.profile.exit_code != _USAGE_ERROR:
        return []
    from taupy.commands.parsers import CommandLine
    from taupy.commands.run_arguments import add_arguments

    parser = CommandLine(add_help=False)
    add_arguments(parser)
    own = [word for word in words[1:] if word.partition("=")[0] in parser._option_string_actions]
    long = [word for word in own if word.startswith("--") and word != "--"]
    if not long:
        return []
    return [
        f"the program ended with a usage error; it got {long[0]}, which is also an option of "
        "taupy: those stand before the script"
    ]


def _ended(delivery: Delivery, stored: str, judges: bool) -> list[str]:
    """What a run took, and where: in one line, unless the terminal is too narrow.

    Args:
        stored: what `report` says of the trial.
        judges: whether to look for findings, too.
    """
    profile = delivery.profile
    assert profile is not None
    from taupy.model.job import is_rank
    from taupy.units import duration, several

    if delivery.joined:
        return [stored]
    _, experiment, name = delivery.name.rsplit("/", 2)
    is_named = experiment != "default" or not name.isdigit()
    named = f" ({delivery.name})" if is_named else ""
    parts = [f"trial {delivery.trial_id}{named}: {duration(profile.duration_ns)}"]
    steps = sum(
        sum(of.count) for thread in profile.threads for of in thread.steps if of.kind == "training"
    )
    parts += [several(steps, "step")] if steps else []
    if delivery.job:
        parts.append(delivery.job)
    elif ranks := sum(is_rank(node, facts) for node, facts in profile.node_metadata.items()):
        parts.append(several(ranks, "rank"))
    elif len(profile.node_metadata) > 1:
        parts.append(f"{len(profile.node_metadata)} processes")
    clauses = [_Clause(", ".join(parts))]
    if delivery.running:
        clauses.append(_Clause(f"child processes that are still running: {delivery.running}"))
    from taupy.model.metric import NOT_ROUTINES

    routines = sum(timer.name not in NOT_ROUTINES for timer in profile.timers)
    if routines > 1 or (routines and profile.duration_ns >= _LONG_NS):
        clauses += _where(delivery, judges)
    from taupy.escaping import columns

    limit = 0
    with contextlib.suppress(OSError), open(_STDERR, "w", closefd=False) as stream:
        limit = columns(stream, piped=0)
    return _in_lines(clauses, max(0, limit - len("taupy: ")))


class _Clause(NamedTuple):
    """What is said of a run, and the source text of the place that it names, with what takes time
    in it."""

    words: str
    text: str = ""
    does: str = ""

    def shown(self, room: int = _TEXT) -> str:
        """With as much of its text as so many columns hold."""
        if not self.text or room < _LEAST_TEXT:
            return self.words
        from taupy.analysis.expressions import excerpt

        return f"{self.words}: {excerpt(self.text, room, self.does, '...')}"


def _in_lines(clauses: Sequence[_Clause], limit: int) -> list[str]:
    """Clauses in one line. Where a terminal is too narrow, first source text goes, then clauses
    stand on further lines.

    Args:
        limit: columns of a line; 0: any number.
    """
    from taupy.escaping import visible

    line = visible("; ".join(clause.shown() for clause in clauses))
    if not limit or (line.isascii() and len(line) <= limit):
        return [line]
    import re
    import textwrap

    from taupy.pprof.text import width

    words = [visible(clause.words) for clause in clauses]
    room = min(_TEXT, limit - width("; ".join(words)) - len(": "))
    line = visible("; ".join(clause.shown(room) for clause in clauses))
    if width(line) <= limit:
        return [line]
    # Clauses are divided only if they are longer than a line, and then not before a unit.
    spaces = (" " if width(part) + len("  ;") <= limit else r"(?<=\d) " for part in words)
    kept = (re.sub(space, "\xa0", part) for space, part in zip(spaces, words, strict=True))
    wrapped = textwrap.wrap(
        "; ".join(kept), limit,
        subsequent_indent="  ", break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [part.replace("\xa0", " ") for part in wrapped]


def _where(delivery: Delivery, judges: bool) -> list[_Clause]:
    """The finding or the place to look at first, and how much is import."""
    from taupy.answers import places
    from taupy.units import duration, several

    profile = delivery.profile
    assert profile is not None
    judged = _judged(delivery) if judges else None
    groups = places.of_profile(profile) if judged is None else judged.places
    imports = sum(place.share for group in groups[:1] for place in group.places.apart
                  if place.kind == "imports")  # fmt: skip
    clauses = [_Clause(f"{100 * imports:.0f} % of it imports")] if imports >= _MUCH_IMPORT else []
    findings = [] if judged is None else judged.judgement.findings
    hottest = places.hottest(groups)
    if findings and findings[0].saved_ns and findings[0].severity != "small":
        from taupy.analysis.findings import imports as imports_rule

        first, *others = findings
        if first.kind == imports_rule.KIND:
            clauses = []
        at = f" at {first.place}" if first.place else ""
        saved = f"up to {duration(first.saved_ns)} ({100 * first.saved_share:.0f} %)"
        clauses.append(_Clause(f"{first.kind}{at}, {saved}"))
        return clauses + ([_Clause(f"{len(others)} more")] if others else [])
    if hottest is not None and hottest[1].share >= _WORTH_NAMING * (1 - imports):
        clauses.append(_hottest(*hottest, imports))
    if findings:
        clauses.append(_Clause(several(len(findings), "finding")))
    elif judged is not None:
        clauses.append(_Clause("no findings"))
    return clauses


def _hottest(group: GroupPlaces, place: Place, imports: float = 0.0) -> _Clause:
    """Where the time went, with the time of the routine, as in the report's row; of a flat profile,
    what comes first. A file that only starts a library says nothing: the package does that takes
    most.

    Args:
        imports: their share of the run.
    """
    from taupy.answers import places
    from taupy.model.thread_groups import MAIN
    from taupy.units import duration

    line, what, ns = place.hottest, places.described(place), place.ns
    of_threads, waits_ns = place.share, place.waits_ns
    text = place.source if line is None else line.text  # without lines, that of the definition
    does = (line and line.calls) or ""
    first = next(iter(group.leading), None)
    only_starts = place.timer is not None and place.timer.short_name == "<module>"
    if first and only_starts and first.ns - first.outside_ns >= _MOST * ns > waits_ns:
        what, ns, text, waits_ns = places.titled(first), first.ns, "", 0.0
        of_threads = ns / group.places.whole
    if place.kind == "waiting":
        most = "mostly"
    elif place.mostly_waits:
        most = "mostly waiting in"
    else:
        share = of_threads / max(1 - imports, of_threads)
        rest = " of the rest" if of_threads < _MOST and imports >= _MUCH_IMPORT else ""
        most = f"most{rest} in" if (share if rest else of_threads) >= _MOST else "hottest is"
        most = most if share >= _HOT else "no hot spot, first is"
    of = "" if group.group == MAIN else f" of {group.title.partition(',')[0]}"
    time = f"{duration(ns)}, {100 * of_threads:.0f} %{of}"
    is_known = place.kind == "own" and not place.mostly_waits
    if is_known and waits_ns >= _MUCH_WAITING * ns:
        time += f", {duration(waits_ns)} of it without a CPU"
    return _Clause(f"{most} {what}: {time}", text or "", does)


def _judged(delivery: Delivery) -> Report | None:
    """The report on the trial; None if it would take long beside the run, or cannot be read."""
    profile = delivery.profile
    assert profile is not None and delivery.trial_id is not None
    paths = sum(len(thread.tree) for thread in profile.threads)
    seconds = profile.duration_ns / 1e9
    if profile.duration_ns < _LONG_NS or paths > _PATHS_A_SECOND * seconds:
        return None
    from taupy.errors import TaupyError
    from taupy.profiledb.database import ProfileDB
    from taupy.report.report import report

    try:
        with ProfileDB.open(delivery.database) as db:
            return report(db, db.trial(delivery.trial_id))
    except (TaupyError, OSError):
        return None


def _next(delivery: Delivery, folder: str) -> list[str]:
    """The command that shows more.

    Args:
        folder: in which the run was started, and the command will probably be.
    """
    if delivery.trial_id is None or delivery.profile is None:
        return []
    from taupy.state.places import DEFAULT_DATABASE

    command = f"taupy report {delivery.trial_id}"
    usual = os.path.join(folder, os.environ.get("TAUPY_DB") or DEFAULT_DATABASE)
    if os.path.join(folder, delivery.database) != usual:
        from taupy.model.command_line import joined

        command += f" --db {joined([delivery.database])}"
    return [f"next: {command}"]


def report(delivery: Delivery, printed: Collection[str] = ()) -> list[str]:
    """Describe the outcome of a run: one line, and one for each problem.

    Args:
        printed: messages that the launcher printed before the program began.
    """
    from taupy.units import several

    if delivery.trial_id is not None and delivery.profile is not None:
        profile, trial_name = delivery.profile, delivery.name
        callpaths = sum(len(thread.tree) for thread in profile.threads)
        text = (
            f"trial {delivery.trial_id} ({trial_name}): "
            f"{several(len(profile.timers) - 1, 'routine')}, {several(callpaths, 'call path')}, "
            f"{several(len(profile.threads), 'thread')}"
        )
        if delivery.joined:
            text = f"trial {delivery.trial_id} ({trial_name}) has more metrics: {delivery.joined}"
        elif len(profile.node_metadata) > 1:
            text += f", {len(profile.node_metadata)} processes"
        if delivery.job:
            text += f", of {delivery.job}"
        if delivery.running:
            text += (
                "; child processes that are still running and will be added later: "
                f"{delivery.running}"
            )
        return [
            text,
            *_gpu_error(delivery),
            *dict.fromkeys(  # without duplicates: many nodes may have the same note
                f"note: {value}"
                for name, value in sorted(profile.metadata.items())
                if name.startswith("taupy.health.")
                and name != _GPU_ERROR
                and "running" not in name
                and value not in printed
            ),
        ]
    if delivery.waits:
        return [
            f"{delivery.problem}: the run waits in {delivery.rescue}, and the watch, or the next "
            "taupy command, stores it when it can",
            *_gpu_error(delivery),
        ]
    if delivery.rescue is not None:
        return [
            f"the profile could not be written to the database ({delivery.problem}); it is "
            f"saved in {delivery.rescue}: load it with `taupy import {delivery.rescue}`",
            *_gpu_error(delivery),
        ]
    return [delivery.problem or "nothing was stored"]
