"""Run a baseline and a candidate alternately until it is clear whether the candidate is worse.

    taupy gate --baseline 'old/train.py --epochs 1' --fail-on 'time > +5%' -- train.py --epochs 1
    taupy gate --baseline 'bench.py old' --fail-on 'duration > +2%' --budget 20m -- bench.py new

Write both commands as after `taupy run`, options included. After every pair of runs each
condition is tested by a method that stays valid however often it looks (docs/compare.md). The
gate ends when all conditions are decided or the budget is spent. The runs are trials of the
experiment `gate`. `time > +5%` without a routine refers to the whole program. Metrics of
conditions are measured; on machines that others use, `cpu_time > +5%` is decided sooner.

Exit codes: 0 all conditions pass; 3 one fails; 4 undecided when the budget is spent, nothing was
judged, or the trials are not comparable; 1 and 2 errors, including a run that fails; 130 stopped,
with what is known so far.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from taupy import units
from taupy.answers.compare import Compared, Options
from taupy.commands import answering, bar, compare_arguments, gate_metrics, options
from taupy.commands.messages import say, tell
from taupy.comparison import sides, verdicts
from taupy.errors import DatabaseError, NoSuchTrial, TaupyError, UsageError
from taupy.escaping import columns
from taupy.model.options import probability
from taupy.pprof import terminal
from taupy.pprof.view import View
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB
from taupy.study import conditions, gate, gate_view, sequential
from taupy.study.conditions import Condition

MOST_PAIRS = 200
BUDGET = "10m"
STOPPED = 130
"""The exit code of a gate that a signal ended, as of other programs."""

_SIDES = ("baseline", "candidate")
_PATIENCE = 10
"""Pairs after which CPU time is advised."""

_LOG_SECONDS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "taupy gate --baseline 'COMMAND' --fail-on CONDITION [options] -- COMMAND"
    parser.add_argument(
        "--baseline", required=True, metavar="'COMMAND'",
        help="command to compare with: one argument, split into words as a shell does",
    )  # fmt: skip
    compare_arguments.add_gate_arguments(parser.add_argument_group("conditions"), required=True)
    parser.add_argument(
        "--budget", type=options.seconds, default=options.seconds(BUDGET), metavar="TIME",
        help=f"start no new pair of runs after this time: 90s, 10m, 2h (default: {BUDGET})",
    )  # fmt: skip
    parser.add_argument(
        "--max-pairs", type=options.count, default=MOST_PAIRS, metavar="N",
        help=f"maximum number of pairs of runs (default: {MOST_PAIRS})",
    )  # fmt: skip
    parser.add_argument(
        "--alpha", type=answering.argument(probability), default=verdicts.ALPHA, metavar="P",
        help="probability of a false failure, over all conditions and looks (default: 0.05)",
    )  # fmt: skip
    parser.add_argument("--quiet", "-q", action="store_true", help="do not report progress")
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Split at `--`: what follows is the candidate's command."""
    if "--" not in arguments:
        if {"-h", "--help"} & set(arguments):
            parser.parse_args(arguments)
        raise UsageError(
            "gate: the candidate's command is missing; write it after --, as in taupy gate "
            "--baseline 'old.py' --fail-on 'time > +5%' -- new.py"
        )
    at = arguments.index("--")
    parsed = parser.parse_args(arguments[:at])
    parsed.candidate = arguments[at + 1 :]
    return parsed


def run(args: argparse.Namespace) -> int:
    from taupy.instrument.runfolder import new_uuid

    parsed = [_condition(text) for text in args.fail_on]
    try:
        baseline = shlex.split(args.baseline)
    except ValueError as problem:
        raise UsageError(f"--baseline cannot be split into words: {problem}") from None
    if not baseline or not args.candidate:
        side = "candidate" if baseline else "baseline"
        raise UsageError(f"the {side}'s command is empty: nothing to run")
    session = _Session(args, parsed, (baseline, args.candidate), new_uuid())
    try:
        session.run()
        if not session.pairs:
            say("stopped before the first pair was complete: nothing is known")
            return STOPPED
        with bar.shown("judging"):
            view, code = session.conclusion()
    finally:
        session.push()
    terminal.show(view, args.form)
    return code


def _condition(text: str) -> Condition:
    condition = conditions.parse(text)
    if not condition.change:
        raise UsageError(
            f"--fail-on '{condition.text}' limits the value itself and needs no baseline: "
            "write a change, such as '> +5%', or use taupy compare"
        )
    if condition.scope == "each":
        return condition if condition.pattern else replace(condition, scope="all")
    return replace(condition, scope="total")


class _Session:
    """The runs of one gate, and the rulings so far."""

    def __init__(
        self,
        args: argparse.Namespace,
        parsed: Sequence[Condition],
        commands: tuple[list[str], list[str]],
        uuid: str,
    ) -> None:
        self._args = args
        self._conditions = parsed
        self._commands = commands
        self._uuid = uuid
        self._database, self._store = options.file_and_store(args)
        self._metrics = gate_metrics.options(parsed)
        self._progress = _Progress(args.quiet)
        self._advised = False
        self.pairs = 0
        self.stopped = False
        # A decision is impossible before.
        fewest = sequential.fewest_pairs(args.alpha / len(parsed))
        if any(condition.counted for condition in parsed):
            fewest = sequential.FEWEST_EXACT
        self._first_look = fewest

    def run(self) -> None:
        """Run pairs until all conditions are decided, the budget is spent, or a signal says stop.

        Raises:
            TaupyError: a run failed.
        """
        from taupy.commands import repeat

        end = time.monotonic() + self._args.budget
        with repeat.passing_signals_on() as passing, repeat.same_input(2) as feeder:
            for pair in range(1, self._args.max_pairs + 1):
                begun = time.monotonic()
                # Alternate which runs first, so that drift favours neither.
                for side in (0, 1) if pair % 2 else (1, 0):
                    code = repeat.run_once(partial(self._become, side, pair), passing, feeder)
                    if passing.ended and not passing.refused:
                        self.stopped = True
                        return
                    if code:
                        self._progress.end()
                        raise TaupyError(
                            f"pair {pair}: the {_SIDES[side]} failed with exit code {code}; the "
                            "gate cannot judge a failed run"
                        )
                self.pairs = pair
                if self._done() or passing.ended:
                    self.stopped = passing.ended
                    return
                if 2 * time.monotonic() - begun > end:
                    return

    def _become(self, side: int, pair: int) -> int:
        from taupy.commands import command_parser
        from taupy.commands import run as run_command

        words = [
            *("--db", self._database, "--experiment", "gate", "--quiet"),
            *("--trial", f"{_SIDES[side]} {pair} {self._uuid[-6:]}"),
            *("--meta", f"gate={self._uuid}", "--meta", f"gate.side={_SIDES[side]}"),
            *(["--trust-folder"] if self._args.trust_folder else []),
            *self._metrics,
            *self._commands[side],
        ]
        return run_command.run(run_command.parse(command_parser("run"), words))

    def _done(self) -> bool:
        """Look at the pairs so far: whether all conditions are decided that can be.

        Raises:
            TaupyError: a condition's metric or routine is in neither run of the first pair.
        """
        if self.pairs > 1 and self.pairs < self._first_look and not self._progress.due:
            return False
        with ProfileDB.open(self._database) as db:
            compared = self._compared(db)
            judgement = self._judgement(compared)
            waiting = _waiting(judgement)
            self._progress.show(self.pairs, judgement, len(self._conditions), waiting)
            if self.pairs >= _PATIENCE and not self._advised and waiting:
                self._advised = True
                for line in self._cpu_advice(compared, judgement):
                    self._progress.say(line)
        return not waiting

    def _cpu_advice(self, compared: Compared, judgement: gate.Judgement) -> list[str]:
        """What CPU time says of the conditions on elapsed time that are undecided."""
        undecided = [
            ruling.condition
            for ruling in judgement.judged
            if ruling.verdict == "undecided" and gate.is_elapsed(ruling.metric)
        ]
        lines = []
        for condition in dict.fromkeys(undecided):
            instead = gate.on_cpu_time(condition)
            if instead.text in {given.text for given in self._conditions}:
                continue
            spreads = gate.spreads(compared)
            if spreads is None or spreads[1] >= spreads[0]:
                continue
            noise = (
                f"from pair to pair it differs by {100 * spreads[1]:.1f} %, elapsed time by "
                f"{100 * spreads[0]:.1f} %"
            )
            how = f"--fail-on '{instead.text}' judges CPU time, which counts no waiting: {noise}"
            if condition.scope == "total":
                ruling = self._judgement(compared, [instead]).judged[0]
                words = {"passes": "would have passed", "fails": "would have failed"}
                says = words.get(ruling.verdict, "would be undecided")
                how += f"; it {says} ({ruling.why})"
            else:
                how += "; reading that clock at every call slows programs of many short calls"
            lines.append(f"'{condition.text}' is undecided after {self.pairs} pairs; {how}")
        return lines

    def _compared(self, db: ProfileDB) -> Compared:
        """The runs of whole pairs: a signal may have ended one of the last."""
        texts = [f"meta.gate={self._uuid},meta.gate.side={side}" for side in _SIDES]
        both = sides.sides(db, texts[1:], texts[0])
        whole = [replace(side, trials=side.trials[: self.pairs]) for side in both]
        return Compared(db, whole, Options(alpha=self._args.alpha))

    def _judgement(self, compared: Compared, parsed: Sequence[Condition] = ()) -> gate.Judgement:
        return gate.judge(compared, parsed or self._conditions, sequential.judged)

    def push(self) -> None:
        """Push the runs, if they are meant for a store; a failure does not change the outcome."""
        if not self._store:
            return
        from taupy.commands import pushing

        try:
            with ProfileDB.open(self._database) as db:
                trials = selector.together(db, [f"meta.gate={self._uuid}"])
            with bar.shown("pushing"):
                line = pushing.pushed(self._database, self._store, [trial.id for trial in trials])
            say(line)
        except NoSuchTrial:
            pass  # the first run has failed
        except DatabaseError as problem:
            say(str(problem))

    def conclusion(self) -> tuple[View, int]:
        """The gate's view and exit code."""
        with ProfileDB.open(self._database) as db:
            compared = self._compared(db)
            judgement = self._judgement(compared)
            advice = self._cpu_advice(compared, judgement)
            # The commands are meant to differ.
            allowed = {*compare_arguments.allowed(self._args), "arguments"}
            conclusion = gate.concluded(
                compared, judgement, allowed, self._args.undecided, options.named(self._args)
            )
        conclusion.notes.extend(advice)
        compare_arguments.write_junit(self._args.junit, judgement, conclusion)
        if self.stopped:
            conclusion.notes.insert(0, f"stopped after {units.several(self.pairs, 'pair')}")
        view = gate_view.conclusion_view(
            self._conditions,
            judgement,
            conclusion,
            terminal.is_for_programs(self._args.form),
            1 - self._args.alpha,
        )
        return view, STOPPED if self.stopped else conclusion.code


def _waiting(judgement: gate.Judgement) -> set[str]:
    """Conditions that more pairs may decide: a row is undecided, and none has failed."""
    rulings = [ruling for ruling in judgement.judged if ruling.why != conditions.NOTHING]
    failed = {ruling.condition.text for ruling in rulings if ruling.verdict == "fails"}
    undecided = {ruling.condition.text for ruling in rulings if ruling.verdict == "undecided"}
    return undecided - failed


class _Progress:
    """One line that changes on a terminal; in a log, a line every ten seconds and the last one."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next = time.monotonic() + _LOG_SECONDS
        self._shown = False

    @property
    def due(self) -> bool:
        """Whether a line would be shown now."""
        return self._terminal or (not self._quiet and time.monotonic() >= self._next)

    def show(
        self, pairs: int, judgement: gate.Judgement, of_conditions: int, waiting: set[str]
    ) -> None:
        """The ratio so far of the first condition that is not decided, and how many are."""
        if self._quiet or not (self.due or not waiting):
            return
        text = units.several(pairs, "pair")
        open_ones = [ruling for ruling in judgement.judged if ruling.condition.text in waiting]
        for ruling in open_ones[:1]:
            if ruling.change is not None:
                between = ruling.interval
                interval = f" ({between.low:.3f} .. {between.high:.3f})" if between else ""
                text += f": ratio {1 + ruling.change:.3f}{interval} of '{ruling.condition.text}'"
        text += f"; {of_conditions - len(waiting)} of {of_conditions} decided"
        self._next = time.monotonic() + _LOG_SECONDS
        if not self._terminal or not waiting:
            self.say(text)
        else:
            width = columns(sys.stderr) - len("taupy: ") - 1
            fitting = text if len(text) <= width else f"{text[: width - 1]}…"
            tell(f"taupy: {fitting}", end="\x1b[K\r")
            self._shown = True

    def say(self, line: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self.end()
            say(line)

    def end(self) -> None:
        """Erase the line that changes."""
        if self._shown:
            tell("", end="\x1b[K")
            self._shown = False
