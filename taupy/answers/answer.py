"""What answers have in common: options that describe themselves, and what is said without data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from taupy.errors import UsageError
from taupy.network.layers import LACKING
from taupy.network.steps import UNSEEN
from taupy.pprof.view import View
from taupy.profiledb.database import ProfileDB


class Nothing(UsageError):
    """The trial has nothing of what was asked, and why. A notebook shows an empty table instead."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How an option is given to a command.

    Attributes:
        choices: the words it may be; () for a number or a switch.
        renamed: old words, each with the present one.
        least: the smallest number.
        metavar: stands for the value in `--help`.
        names: names other than the field's: `-n`, or `--all` for people, who else see less.
        is_text: any text, such as a name.
    """

    help: str
    choices: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    least: int = 0
    metavar: str | None = None
    names: Sequence[str] = ()
    is_text: bool = False

    def spelled(self, word: str) -> str:
        return self.renamed.get(word, word)


def option(default: object, help: str, **more: Any) -> Any:
    """A field of `Options`."""
    return field(default=default, metadata={"setting": Setting(help, **more)})


def by(choices: Sequence[str], help: str, **more: Any) -> Any:
    """The dimension of an answer; the first is the default."""
    text = f"{help}: {', '.join(choices)} (default: {choices[0]})"
    return option(choices[0], text, choices=choices, metavar="DIMENSION", **more)


def whole(help: str) -> Any:
    """Whether all rows are shown. Otherwise, those that people read first."""
    return option(True, help, names=("--all",))


def limit(help: str = "show N rows") -> Any:
    """The number of rows of each table; None for all."""
    return option(None, help, names=("--limit", "-n"), metavar="N")


def settings(options: type[Asked]) -> Iterator[tuple[Field[Any], Setting]]:
    """The fields of options, and how each is given."""
    yield from ((entry, entry.metadata["setting"]) for entry in fields(options))


@dataclass(frozen=True)
class Asked:
    """Options of an answer.

    Raises:
        UsageError: a value is none of its choices, or too small.
    """

    @property
    def alone(self) -> bool:
        """Whether there is exactly one table, in JSON an object instead of a list."""
        return False

    def __post_init__(self) -> None:
        for entry, setting in settings(type(self)):
            value = getattr(self, entry.name)
            if setting.choices:
                value = setting.spelled(value)
                object.__setattr__(self, entry.name, value)
                if value not in (*setting.choices, entry.default):
                    choices = ", ".join(setting.choices)
                    raise UsageError(f"{entry.name} must be one of {choices}, not {value!r}")
            elif value is not None and not setting.is_text and value < setting.least:
                raise UsageError(f"{entry.name} must be at least {setting.least}")


def with_remarks(db: ProfileDB, trial: int, views: list[View]) -> list[View]:
    """The same views; the last one notes what the trial lacks: details of steps outside a window,
    and what no library was built for."""
    from taupy.profiledb.trial_facts import metadata_values

    stored = (metadata_values(db, name).get(trial) for name in (UNSEEN, LACKING))
    remarks = [text for text in stored if text is not None]
    if not remarks or not views:
        return views
    return [*views[:-1], replace(views[-1], notes=[*views[-1].notes, *remarks])]
