"""Compare trials: what became slower, what is new, what is gone.

    taupy compare 3 4                        the routines of trial 4 with those of trial 3
    taupy compare mnist/base mnist/new       repeated runs: medians, intervals, verdicts
    taupy compare gpu=M40 gpu=P100 --by kernel --metric warps_per_inst
    taupy compare --baseline tag:main latest --fail-on "time > +5%" --markdown
    taupy compare old.cubin new.cubin --fail-on "spills > 0" --fail-on "registers > +8"
    taupy compare lib.so@sm_80 lib.so@sm_90  machine code of kernels, here of two chips

Every TRIAL is one side; the others are compared with the first, or with the baseline. A TRIAL
that matches several trials, such as tag:main or mnist/base, is a set of repeated runs; if it
is the only one, its trials are compared with each other.

Exit codes: 0 compared, all conditions pass; 3 a --fail-on condition fails; 4 undecided (too few
runs, or the trials are not comparable); 1 and 2 errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from taupy.analysis.comparable import Difference
from taupy.analysis.significance import CORRECTIONS, Correction
from taupy.comparison import comparison, comparison_views, cpu_share, sides
from taupy.comparison import verdicts as judging
from taupy.comparison.comparison import ComparedTable, ComparisonOptions
from taupy.comparison.comparison_views import Shown, Verdicts
from taupy.comparison.sides import Side
from taupy.comparison.verdicts import Rule
from taupy.errors import UsageError
from taupy.model import options
from taupy.model.options import option, part, probability
from taupy.pprof.view import View
from taupy.profiledb.database import ProfileDB

PEOPLE_ROWS = 25
"""Default number of rows in tables for people."""

_REPEATED, _OUTPUT = "repeated runs", "output"


@dataclass(frozen=True)
class Options(ComparisonOptions):
    """What to compare, when a difference is significant, and which rows are shown.

    Attributes:
        baseline: the side that the others are compared with; None for the first.
        alpha, min_effect, min_share, correction: as in `Rule`.
    """

    baseline: str | None = option(
        None, "compare the others with this, such as tag:main", metavar="TRIAL", is_text=True
    )
    alpha: float = option(
        judging.ALPHA,
        "the chance of any false alarm in a table (default: 0.05)",
        metavar="P",
        read=probability,
        group=_REPEATED,
    )
    min_effect: float = option(
        judging.MIN_EFFECT,
        "ignore smaller changes (default: 5%%)",
        metavar="PERCENT",
        read=part,
        group=_REPEATED,
    )
    min_share: float = option(
        judging.MIN_SHARE,
        "do not test rows below this share of the whole (default: 1%%)",
        metavar="PERCENT",
        read=part,
        group=_REPEATED,
    )
    correction: Correction = option(
        "maxt",
        "correction for multiple comparisons (default: maxt, Westfall and Young's)",
        choices=CORRECTIONS,
        group=_REPEATED,
    )
    sort: str = option(
        "impact",
        "sort key (default: impact, the row's effect on the whole, up or down)",
        choices=comparison_views.SORTS,
        group=_OUTPUT,
    )
    reverse: bool = option(False, "reverse the order", names=("--reverse", "-r"), group=_OUTPUT)
    limit: int | None = options.limit(
        f"rows per table (default: {PEOPLE_ROWS} for people, all in CSV and JSON)", group=_OUTPUT
    )
    whole: bool = options.whole("all rows", group=_OUTPUT)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.rule  # checks its values

    @property
    def rule(self) -> Rule:
        return Rule(self.alpha, self.min_effect, self.min_share, self.correction)

    @property
    def shown(self) -> Shown:
        limit = PEOPLE_ROWS if self.limit is None and not self.whole else self.limit
        return Shown(self.sort, self.reverse, limit, 1 - self.alpha)


@dataclass(frozen=True)
class Compared:
    """Trials side by side; what is asked of the database is asked when it is needed."""

    db: ProfileDB
    sides: Sequence[Side]
    options: Options
    omitted: Sequence[str] = ()
    """Which trials of the sides lack the metric."""

    @cached_property
    def facts(self) -> Sequence[Sequence[Mapping[str, str]]]:
        """How each trial of each side was measured."""
        return sides.facts_of(self.db, self.sides)

    @cached_property
    def _obstacles(self) -> tuple[list[Difference], list[tuple[str, Difference]]]:
        return sides.obstacles(self.sides, self.facts)

    @property
    def apart(self) -> Sequence[Difference]:
        """In what the sides differ, so that they may not be comparable."""
        return self._obstacles[0]

    @property
    def within(self) -> Sequence[tuple[str, Difference]]:
        """The same inside a side, whose letter stands first."""
        return self._obstacles[1]

    @cached_property
    def answers(self) -> Sequence[ComparedTable]:
        """The values; none by metadata.

        Raises:
            MissingMetric, UsageError: a trial lacks them.
        """
        if self.options.by == "metadata":
            return []
        return comparison.answers(self.db, self.sides, self.options)

    @property
    def few(self) -> str | None:
        """Why no change can be distinguished from noise, if so."""
        return judging.too_few([len(side.trials) for side in self.sides], self.options.alpha)

    @property
    def names_apart(self) -> list[str]:
        """Where the names of two sides hardly match."""
        return comparison.warnings(self.sides, self.answers)

    def verdicts(self, answer: ComparedTable) -> list[Verdicts]:
        """Of each side but the first."""
        rule = self.options.rule
        return [judging.verdicts(answer, at, rule) for at in range(1, len(self.sides))]

    def tables(self, answers: Sequence[ComparedTable] | None = None) -> list[View]:
        """The rows, those of kernels in a table of their own.

        Args:
            answers: others of the same sides; None for those that were asked for.
        """
        if self.options.by == "metadata":
            everything = self.options.whole
            return [comparison_views.metadata_view(self.sides, self.facts, everything)]
        chosen = self.answers if answers is None else answers
        return [
            comparison_views.rows_view(
                answer, self.sides, self.verdicts(answer), self.options.shown
            )
            for answer in chosen
        ]

    def about(self) -> list[View]:
        """The trials of each side, and what makes them hard to compare."""
        if self.options.by == "metadata":
            return []
        trials = comparison_views.sides_view(self.sides, self.answers)
        views = [replace(trials, warnings=self.names_apart)]
        if self.apart:
            views.append(comparison_views.obstacles_view(self.sides, self.apart))
        return views

    def notes(self) -> list[str]:
        """Remarks on the rows."""
        if self.options.by == "metadata":
            return []
        notes = [
            f"the trials of side {letter} differ: {difference.text}"
            for letter, difference in self.within
        ]
        if twice := sides.both_sided(self.sides):
            notes.append(f"on more than one side: trial {', '.join(map(str, twice))}")
        if self.few:
            notes.append(self.few)
        if any(answer.metric.unit == "ns" for answer in self.answers):
            notes += sides.order_notes(self.sides)
            notes += cpu_share.share_note(self.sides, cpu_share.cpu_shares(self.db, self.sides))
        return [*self.omitted, *notes]

    def remarks(self) -> list[str]:
        """Warnings and remarks, in sentences."""
        of_rows = (remark for answer in self.answers for remark in answer.remarks)
        return [*self.names_apart, *of_rows, *(fact.text for fact in self.apart), *self.notes()]

    def views(self) -> list[View]:
        """The trials, what makes them hard to compare, the rows, and remarks."""
        views = [*self.about(), *self.tables()]
        return [*views[:-1], replace(views[-1], notes=[*views[-1].notes, *self.notes()])]


def compared(
    db: ProfileDB, trials: Sequence[str], chosen: Options, *, lenient: bool = False
) -> Compared:
    """Compare what these arguments select.

    Args:
        lenient: omit trials without the metric, as long as a side has others. A gate judges all.

    Raises:
        NoSuchTrial, UsageError: a side does not exist.
        MissingMetric: (lenient) no trial has the metric.
    """
    both = sides.sides(db, trials, chosen.baseline)
    if chosen.by == "metadata" and (chosen.group or chosen.filter or chosen.metric != "time"):
        raise UsageError("--by metadata takes no --group, --filter or --metric")
    if not lenient:
        return Compared(db, both, chosen)
    having, omitted = comparison.sides_with_metric(db, both, chosen)
    return Compared(db, having, chosen, omitted)
