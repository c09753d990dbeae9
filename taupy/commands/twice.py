"""`taupy run --twice`: one run for times and one for counters, stored in one trial.

Counting slows a program down, so the two are separated: the first run is timed as usual, the
second one counts, and its counters are added to the first one's trial, call path by call path.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from taupy.collectors import requested
from taupy.commands import options
from taupy.commands.messages import say
from taupy.commands.repeat import passing_signals_on, run_once, same_input
from taupy.errors import UsageError
from taupy.instrument.launchers import Job
from taupy.instrument.runfolder import derived_uuid, new_uuid

Once = Callable[[argparse.Namespace], int]


def run(args: argparse.Namespace, once: Once, target: list[str], job: Job) -> int:
    """Run the program twice.

    Args:
        args: as typed.
        once: does one run; does not return if the program starts.
        target: the program and its arguments.
        job: the parallel job that this process is a rank of.

    Returns:
        The exit code of the failed run, or 0.

    Raises:
        UsageError: there is nothing to count in the second run.
    """
    names, _ = requested.listed(args.metrics, options.project_settings())
    if not names:
        raise UsageError("--twice counts in a second run: name the counters with --metrics")
    if args.merge_into:
        raise UsageError(
            "--twice stores a new trial, --merge-into adds to an existing one: use one of them"
        )
    uuid = job.uuid or new_uuid()
    quiet = args.quiet or job.rank > 0  # rank 0 speaks for the job
    timed: dict[str, object] = {"metrics": None, "job": job.called(uuid)}
    counted: dict[str, object] = {
        "metrics": names,
        "job": job.called(derived_uuid(f"{uuid}/counted")),
        "merge_into_uuid": uuid,
        "pm_sampling": None,  # it samples the timed run
        "pm_interval": None,
        "trial": f"{args.trial} counted" if args.trial else None,
    }
    with passing_signals_on() as passing, same_input(2) as feeder:
        for number, more in enumerate((timed, counted), 1):
            own = argparse.Namespace(**{**vars(args), "twice": False, "target": target, **more})
            if not quiet:
                say(f"run {number} of 2: {('for the times', 'for the counters')[number - 1]}")
            code = run_once(partial(once, own), passing, feeder)
            if code or passing.ended:
                if number == 1 and not quiet:
                    say("the first run failed; nothing was counted")
                return code or 130
    return 0
