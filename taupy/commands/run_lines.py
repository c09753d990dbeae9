"""Who looks at lines, which routines a run counts the lines of, and what that costs: `--lines`."""

from __future__ import annotations

import os

from taupy.commands import options
from taupy.errors import TaupyError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.commands.run_plan import Plan
    from taupy.profiledb.database import ProfileDB

LOOKS, EXACT, INSIDE = "looks", "exact", "inside"
LEAST_SHARE = 0.05
"""Of the time of a routine's threads, with libraries: below it, lines are not worth their cost."""
_NAMED = 3


class Chosen:
    """What is chosen by an earlier trial.

    Attributes:
        names: of routines; routines: PATH:NAME of these, and of what belongs to their lines.
        share: of that trial's time.
    """

    def __init__(self, names: list[str], routines: list[str], share: float, trial: int) -> None:
        self.names, self.routines, self.share, self.trial = names, routines, share, trial


def lines(text: str) -> str:
    """The value of `--lines`: looks, inside, exact, or exact:TRIAL."""
    kind, colon, trial = text.partition(":")
    if kind not in (LOOKS, EXACT, INSIDE) or (colon and (kind != EXACT or not trial)):
        raise options.refusal(f"{text!r} is not inside, exact or exact:TRIAL")
    return text


def choose(plan: Plan, text: str | None, application: str, database: str) -> None:
    """Have the engine look at lines, or count those that `--lines=exact` asks for, and say what it
    costs.

    Args:
        text: the option's value.
        database: where earlier trials are.

    Raises:
        TaupyError: there is no earlier trial to choose routines by.
    """
    if not text or text == LOOKS:
        return
    if not plan.is_native:
        raise UsageError(f"--lines={text} needs the compiled engine")
    if text == INSIDE:
        plan.options["lines_inside"] = 1
        plan.notes.append(
            "--lines=inside: a native thread in the program looks at lines, in 0.5 % of a core"
        )
        return
    trial = text.partition(":")[2]
    if plan.options["include"]:
        if trial:
            raise UsageError("--lines=exact:TRIAL and --include both choose routines: use one")
        plan.options["lines_of_all"] = 1
        what = "all routines of the program that --include names"
    else:
        chosen = _of_trial(database, application, trial)
        plan.options["line_routines"] = chosen.routines
        named = ", ".join(chosen.names[:_NAMED])
        more = len(chosen.names) - _NAMED
        what = f"{named}{f' and {more} more' if more > 0 else ''}, {100 * chosen.share:.0f} % of "
        what += f"trial {chosen.trial}"
    from taupy.instrument.calibrate import line_ns

    cost = line_ns(plan.early)
    plan.notes.append(f"exact lines of {what}: each line that begins costs about {cost:.0f} ns")


def _of_trial(database: str, application: str, text: str) -> Chosen:
    from taupy.profiledb import selector
    from taupy.profiledb.opening import opened

    advice = "run it without --lines=exact first, or choose routines by --include"
    if not os.path.exists(database):
        raise TaupyError(f"--lines=exact: there is no earlier trial in {database}: {advice}")
    with opened(database) as db:
        if text:
            return _hot(db, selector.trial(db, text).id)
        earlier = [trial for trial in db.trials() if trial.application == application]
        measured = [trial.id for trial in earlier if not trial.is_capture]
        if not measured:
            raise TaupyError(f"--lines=exact: no earlier trial of {application}: {advice}")
        return _hot(db, max(measured))


def _hot(db: ProfileDB, trial: int) -> Chosen:
    """The program's routines with much of a trial's time, and what is part of their lines."""
    from taupy.analysis.own_code import owners
    from taupy.analysis.places import own_timers
    from taupy.analysis.trees import Tree
    from taupy.answers import places
    from taupy.model import callpaths
    from taupy.profiledb.sources import timer_paths
    from taupy.profiledb.values import values

    table = values(db, places.question(trial))
    parents = callpaths.parents(table)
    paths = timer_paths(db, trial)
    groups = places.of_table(db, trial, table, parents, paths)
    shares: dict[str, float] = {}
    for group in groups:
        of_group: dict[str, float] = {}
        for at, timer in enumerate(group.places.timers):
            if timer is not None:
                share = group.places.share(at)
                of_group[timer.timer] = of_group.get(timer.timer, 0.0) + share
        for name, share in of_group.items():
            shares[name] = max(share, shares.get(name, 0.0))
    tree = Tree.of(table, parents)
    owner_of = owners(tree.timers, own_timers(tree, paths))
    much = (name for name in shares if shares[name] >= LEAST_SHARE)
    hot = sorted(much, key=lambda name: -shares[name])
    routines = [
        f"{path}:{timer.short_name}"
        for timer, owner in zip(tree.timers, owner_of, strict=True)
        if tree.timers[owner].timer in hot and (path := paths.get(timer.timer) or timer.file)
    ]
    if not routines:
        raise TaupyError(
            f"--lines=exact: no routine of the program took {100 * LEAST_SHARE:.0f} % of trial "
            f"{trial}: choose some by --include"
        )
    by_name = {timer.timer: places.short(timer) for timer in tree.timers}
    whole = min(1.0, sum(shares[name] for name in hot))
    return Chosen([by_name[name] for name in hot], routines, whole, trial)
