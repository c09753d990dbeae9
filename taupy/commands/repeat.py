"""`taupy run --repeat` and `--sweep`: several runs of a program, one trial per run.

Each run is a child process that becomes the program, exactly as a single `taupy run` does. The
parent only waits, forwards signals, and gives every run the same standard input.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import stat
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

from taupy.commands import bar, options
from taupy.commands.feeder import Feeder, wait
from taupy.commands.messages import say
from taupy.errors import TaupyError, UsageError
from taupy.instrument.launchers import Job
from taupy.instrument.runfolder import derived_uuid, new_uuid, note_ending
from taupy.instrument.sweep import MOST_RUNS, Setting, parameters, settings
from taupy.units import duration

Once = Callable[[argparse.Namespace], int]

_FORWARDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to all of its foreground processes."""


def run(args: argparse.Namespace, once: Once, target: list[str], job: Job) -> int:
    """Run the program for every value, with all repeats.

    A failed run ends the repeats of its value; a sweep continues with the next value. Ctrl-C and
    SIGTERM end everything.

    Args:
        once: becomes the program; returns only if that fails.
        job: the parallel job that this process is a rank of.

    Returns:
        The exit code of the first run that failed, 0 if none did.
    """
    repeats = args.repeat if args.repeat is not None else 1
    if not 1 <= repeats <= MOST_RUNS:
        raise UsageError(f"--repeat takes a number from 1 to {MOST_RUNS}, got {repeats}")
    if getattr(args, "merge_into", None):
        raise UsageError("--merge-into needs a single run; leave out --repeat and --sweep")
    values = settings(parameters(args.sweep, target))
    runs = len(values) * repeats
    if runs > MOST_RUNS:
        raise UsageError(f"--sweep and --repeat ask for {runs} runs; the maximum is {MOST_RUNS}")
    identity = job.uuid or new_uuid()
    quiet = args.quiet or job.rank > 0  # rank 0 speaks for the job
    failed: list[int] = []
    done = 0
    began = time.monotonic()
    with passing_signals_on() as passing, same_input(runs) as feeder:
        for place, setting in enumerate(values):
            for repeat in range(1, repeats + 1):
                number = place * repeats + repeat
                which = _Which(setting, number, runs, repeat, repeats)
                own = _arguments(args, which, target, job, identity)
                if not quiet:
                    took = time.monotonic() - began
                    remains = _remains(done + len(failed), runs - number + 1, took)
                    say(f"{which}{remains}")
                code = run_once(partial(_become_setting, setting, own, once), passing, feeder)
                done += code == 0
                failed += [code] if code else []
                if passing.ended:
                    break
                if code:
                    left = repeats - repeat
                    if left and not quiet:
                        say(
                            f"run {number} failed (exit code {code}): "
                            f"skipping its {left} remaining repeats"
                        )
                    break
            if passing.ended:
                break
    options.recover_first(options.database_or_store(args))  # runs that a signal killed
    if not quiet:
        say(_summary(args, runs, done, failed, [*values[0].metadata], repeats))
    return failed[0] if failed else (130 if passing.ended else 0)


class _Which(NamedTuple):
    """One of all runs."""

    setting: Setting
    number: int
    runs: int
    repeat: int
    repeats: int

    def __str__(self) -> str:
        parts = [str(self.setting)] if self.setting.values else []
        if self.repeats > 1 and parts:
            parts.append(f"repeat {self.repeat} of {self.repeats}")
        return f"run {self.number} of {self.runs}" + (": " + ", ".join(parts) if parts else "")


def _arguments(
    args: argparse.Namespace, which: _Which, target: list[str], job: Job, identity: str
) -> argparse.Namespace:
    """The arguments of one run: a new trial of the experiment, with its position as metadata."""
    setting, number, _, repeat, repeats = which
    names = list(setting.metadata)
    facts = dict(setting.metadata)
    given = {text.partition("=")[0] for text in args.meta}
    if names:
        facts["sweep"] = derived_uuid(f"{identity}/sweep")
        facts["sweep.over"] = ", ".join(names)
    if args.repeat is not None:
        facts["repeat"] = derived_uuid(f"{identity}/repeat/{(number - 1) // repeats}")
        facts["repeat.run"] = f"{repeat} of {repeats}"
    if taken := given & facts.keys():
        raise UsageError(f"--meta {min(taken)} is set by --sweep or --repeat itself")
    name = args.trial
    if names:
        name = " ".join([*([] if name is None else [name]), str(setting)])
    if repeats > 1 and name is not None:
        name = f"{name}#{repeat}"
    return argparse.Namespace(
        **{
            **vars(args),
            "repeat": None,
            "sweep": [],
            "meta": [*args.meta, *(f"{fact}={value}" for fact, value in facts.items())],
            "experiment": args.experiment or ("sweep-" + "-".join(names) if names else None),
            "trial": name,
            "target": setting.arguments(target),
            # The ranks of a job repeat in step; each run of the job is one trial.
            "job": job.called(job.uuid and derived_uuid(f"{identity}/run/{number}")),
        }
    )


# --- one run -----------------------------------------------------------------


def _become_setting(setting: Setting, arguments: argparse.Namespace, once: Once) -> int:
    os.environ.update(setting.environment)
    return once(arguments)


def run_once(become: Callable[[], int], passing: Passing, feeder: Feeder | None) -> int:
    """Run a program in a child and wait for it.

    Args:
        become: called in the child, becomes the program; returns an exit code only if that
            fails.

        Returns:
        The exit code; 128 + the signal if one killed the program.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if feeder is not None:
        feeder.begin()
    reports, refusal = os.pipe()  # closed by exec: any data was written before the program began
    child = os.fork()
    if child == 0:
        _in_child(become, passing, feeder, refusal)
    os.close(refusal)
    passing.child = child
    try:
        status = wait(child) if feeder is None else feeder.feed(child)
        if os.read(reports, 1):
            passing.refused = passing.ended = True  # the next run would fail with the same message
    finally:
        passing.child = 0
        os.close(reports)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        note_ending(child, code)
    if code == -signal.SIGINT:
        passing.ended = True
    return code if code >= 0 else 128 - code


def _in_child(
    become: Callable[[], int], passing: Passing, feeder: Feeder | None, refusal: int
) -> None:
    """Never returns."""
    code = 1
    try:
        passing.restore()
        if feeder is not None:
            feeder.take_as_input()
        code = become()
    except TaupyError as problem:
        say(str(problem))
        code = problem.exit_code
        os.write(refusal, b"!")
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


# --- signals -----------------------------------------------------------------


class Passing:
    """Forwards signals to the current run, and notes that no other run should start.

    Attributes:
        refused: because the command itself was refused, with a message.
    """

    def __init__(self) -> None:
        self.child = 0
        self.ended = False
        self.refused = False
        self._before: dict[signal.Signals, object] = {}

    def install(self) -> None:
        for number in _FORWARDED:
            before = signal.getsignal(number)
            if before != signal.SIG_IGN:  # as under nohup; the program inherits this
                self._before[number] = before
                signal.signal(number, self._pass_on)

    def restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def _pass_on(self, number: int, _: object) -> None:
        self.ended = True
        if self.child and not (number in _FROM_TERMINAL and _in_foreground()):
            with suppress(ProcessLookupError):
                os.kill(self.child, number)


@contextmanager
def passing_signals_on() -> Iterator[Passing]:
    passing = Passing()
    passing.install()
    try:
        yield passing
    finally:
        passing.restore()


def _in_foreground() -> bool:
    """Does the terminal send Ctrl-C to both this process and the program?"""
    for descriptor in (0, 1, 2):
        try:
            if os.tcgetpgrp(descriptor) == os.getpgrp():
                return True
        except OSError:
            continue
    return False


# --- standard input ----------------------------------------------------------


@contextmanager
def same_input(runs: int) -> Iterator[Feeder | None]:
    """A feeder, if standard input could otherwise be read by one run only."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # closed
        yield None
        return
    regular = stat.S_ISREG(mode)
    if runs == 1 or not (regular or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        yield None
        return
    with Feeder(regular=regular) as feeder:
        yield feeder


# --- messages ----------------------------------------------------------------


def _remains(ended: int, left: int, seconds: float) -> str:
    """How long a run takes and how long the others will, for who waits at a terminal."""
    if not ended or not bar.can_draw(sys.stderr):
        return ""
    of_a_run = seconds * 1e9 / ended
    return f" ({duration(of_a_run)} a run, about {duration(of_a_run * left)} left)"


def _summary(
    args: argparse.Namespace,
    runs: int,
    done: int,
    failed: list[int],
    names: list[str],
    repeats: int,
) -> str:
    text = f"{done} of {runs} runs done"
    if failed:
        text += f", {len(failed)} failed (the first with exit code {failed[0]})"
    if names and done > 1:
        text += f"; `taupy sweep --by {shlex.quote(names[0])}{options.named(args)}` compares them"
    elif repeats > 1 and done > 1:
        text += "; they form one group of repeated trials"
    return text
