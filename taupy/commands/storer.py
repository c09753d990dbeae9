"""Store a run whose program has just ended (the storer, not a command for users; `taupy store` is
`team_store.py`)."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal

from taupy.errors import NOTICES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from taupy.delivery import Delivery


_USAGE_ERROR = 2
"""The exit code of a program that did not understand its command line, as argparse ends it."""

_WHY_LENGTH = 200
_WORTH_NAMING = 0.01
"""Share of the run from which its hottest place is named."""

_STDERR = 3
"""The program's stderr. Descriptor 2 is /dev/null (`_native/exit.c`): nothing else prints."""


_GPU_ERROR = "taupy.health.gpu"

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
    gc.disable()  # short-lived with many rows, like other commands
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
            delivery = deliver(run, rescue=is_told, is_told=is_told)
            lines = report(delivery, settings.notes)
            lines[1:1] = _misplaced(delivery, settings.arguments) + _next(delivery, settings.cwd)
            if settings.rank and delivery.trial_id is not None:
                lines = _gpu_error(delivery) if delivery.lacks_gpu else []  # rank 0 speaks for all
            lines += _pushed(delivery, waiting=not settings.rank)
    except BaseException as problem:
        _leave_word([_not_stored(folder, problem)] if is_told else [])
        return 0
    is_told = is_told and not quiet
    _leave_word([*lines, *NOTICES] if is_told else [])
    with contextlib.suppress(BaseException):  # the next command recovers them as well
        from taupy.session import recover

        for late in recover(settings.database):
            lines = _pushed(late, waiting=False)
            _leave_word(lines if is_told else [])
    return _LACKING if delivery.lacks_gpu else 0


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
    import argparse

    from taupy.commands.run_arguments import add_arguments

    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    own = [word for word in words[1:] if word.partition("=")[0] in parser._option_string_actions]
    long = [word for word in own if word.startswith("--") and word != "--"]
    if not long:
        return []
    return [
        f"the program ended with a usage error; it got {long[0]}, which is also an option of "
        "taupy: those stand before the script"
    ]


def _next(delivery: Delivery, folder: str) -> list[str]:
    """The hottest place of the run, if it has several routines, and the command that shows more.

    Args:
        folder: in which the run was started, and the command will probably be.
    """
    if delivery.trial_id is None or delivery.profile is None:
        return []
    from taupy.commands.options import DEFAULT_DATABASE
    from taupy.model.metric import NOT_ROUTINES

    command = f"taupy report {delivery.trial_id}"
    usual = os.path.join(folder, os.environ.get("TAUPY_DB") or DEFAULT_DATABASE)
    if os.path.join(folder, delivery.database) != usual:
        import shlex

        command += f" --db {shlex.quote(delivery.database)}"
    if sum(timer.name not in NOT_ROUTINES for timer in delivery.profile.timers) <= 1:
        return [f"next: {command}"]
    from taupy.answers import places
    from taupy.escaping import visible
    from taupy.model.thread_groups import MAIN
    from taupy.units import duration, several

    hottest = places.hottest(places.of_profile(delivery.profile))
    if hottest is None or hottest[1].share < _WORTH_NAMING:
        return [f"next: {command}"]
    group, place = hottest
    parts = [
        f"hottest: {places.described(place)}",
        f"{duration(place.ns)} ({100 * place.share:.0f} %)",
    ]
    parts += [several(place.calls, "call")] if place.calls else []
    parts += [f"in {group.title}"] if group.group != MAIN else []
    line = place.hottest
    in_line = ""
    if line is not None and line.text:
        in_line = f"; ~{duration(line.time_ns)} of it in: {visible(line.text)}"
    return [f"{', '.join(parts)}{in_line}; next: {command}"]


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
                f"; {delivery.running} of its child processes are still running and will be "
                "added later"
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
    if delivery.rescue is not None:
        return [
            f"the profile could not be written to the database ({delivery.problem}); it is "
            f"saved in {delivery.rescue}: load it with `taupy import {delivery.rescue}`",
            *_gpu_error(delivery),
        ]
    return [delivery.problem or "nothing was stored"]
