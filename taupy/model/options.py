"""Options that describe themselves: to the command that takes them, and to a notebook.

A question of several words is a frozen dataclass derived from `Asked`, and each of its fields is
made by `option` and the like. `commands/answering.py` makes arguments of a command from it; the
same class checks what a notebook gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

from taupy.errors import UsageError


@dataclass(frozen=True, slots=True)
class Setting:
    """How an option is given to a command.

    Attributes:
        choices: the words it may be; () for a number, a text or a switch.
        renamed: old words, each with the present one.
        least: the smallest number.
        metavar: stands for the value in `--help`.
        names: names other than the field's: `-n`, or `--all` for people, who else see less.
        is_text: any text, such as a name.
        read: makes the value of the text that a command is given. Without it, an option whose
            default is a tuple may be given several times.
        group: the heading in `--help` under which it stands.
    """

    help: str
    choices: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    least: int = 0
    metavar: str | None = None
    names: Sequence[str] = ()
    is_text: bool = False
    read: Callable[[str], object] | None = None
    group: str = ""

    def spelled(self, word: str) -> str:
        return self.renamed.get(word, word)


def option(default: object, help: str, **more: Any) -> Any:
    """A field of a class derived from `Asked`."""
    return field(default=default, metadata={"setting": Setting(help, **more)})


def subject(help: str) -> Any:
    """What is asked about: the command's argument, in place of the trial, which is an option."""
    return field(metadata={"setting": Setting(help, is_text=True)})


def by(choices: Sequence[str], help: str, **more: Any) -> Any:
    """The dimension of an answer; the first is the default."""
    text = f"{help}: {', '.join(choices)} (default: {choices[0]})"
    return option(choices[0], text, choices=choices, metavar="DIMENSION", **more)


def texts(help: str, metavar: str, default: Sequence[str] = (), **more: Any) -> Any:
    """Any number of texts. A notebook may give one without a list."""
    return option(tuple(default), help, metavar=metavar, is_text=True, **more)


def whole(help: str, **more: Any) -> Any:
    """Whether all rows are shown. Otherwise, those that people read first."""
    return option(True, help, names=("--all",), **more)


def limit(help: str = "show N rows", **more: Any) -> Any:
    """The number of rows of each table; None for all."""
    return option(None, help, names=("--limit", "-n"), metavar="N", **more)


def settings(options: type[Asked]) -> Iterator[tuple[Field[Any], Setting]]:
    """The fields that are options, and how each is given."""
    for entry in fields(options):
        if "setting" in entry.metadata:
            yield entry, entry.metadata["setting"]


@dataclass(frozen=True)
class Asked:
    """Options of a question.

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
            if isinstance(entry.default, tuple):
                given = (value,) if isinstance(value, str) else value
                object.__setattr__(self, entry.name, tuple(dict.fromkeys(given)))
            elif setting.choices:
                value = setting.spelled(value)
                object.__setattr__(self, entry.name, value)
                if value not in (*setting.choices, entry.default):
                    choices = ", ".join(setting.choices)
                    raise UsageError(f"{entry.name} must be one of {choices}, not {value!r}")
            elif value is None or setting.is_text or setting.read is not None:
                continue
            elif value < setting.least:
                raise UsageError(f"{entry.name} must be at least {setting.least}")

    def check_ignored(self, switch: str, *others: str) -> None:
        """Raises UsageError if the switch is on and one of these options, which then says nothing,
        has another value than its default."""
        default = {entry.name: entry.default for entry in fields(self)}
        given = [name for name in others if getattr(self, name) != default[name]]
        if getattr(self, switch) and given:
            names = [f"--{name.replace('_', '-')}" for name in (switch, *given)]
            raise UsageError(f"{names[0]} takes no {' or '.join(names[1:])}")


# --- what a command is given ---------------------------------------------------


def percentage(text: str) -> float:
    """A value from 0 to 100, with or without a percent sign: 5, 0.5%.

    Raises:
        UsageError: it is none.
    """
    value = number_in(text.removesuffix("%"))
    if value is None or not 0 <= value <= 100:
        raise UsageError(f"{text!r} is not a percentage from 0 to 100")
    return value


def part(text: str) -> float:
    """A percentage as a part of one.

    Raises:
        UsageError: it is none.
    """
    return percentage(text) / 100


def probability(text: str) -> float:
    """A value between 0 and 1.

    Raises:
        UsageError: it is none.
    """
    value = number_in(text)
    if value is None or not 0 < value < 1:
        raise UsageError(f"{text!r} is not a probability between 0 and 1")
    return value


def number(text: str) -> float:
    """Any number.

    Raises:
        UsageError: it is none.
    """
    value = number_in(text)
    if value is None:
        raise UsageError(f"{text!r} is not a number")
    return value


def number_in(text: str) -> float | None:
    """The number that a text is; None if it is none."""
    try:
        return float(text)
    except ValueError:
        return None
