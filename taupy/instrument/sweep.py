"""The runs of `taupy run --repeat` and `--sweep`: values, their combinations, and their places in
the program's arguments. `commands/repeat.py` runs them.

    batch_size=16,32,64        these values
    threads=1..8               whole numbers, both ends
    size=2^4..2^10             powers
    env:OMP_NUM_THREADS=1,2,4  an environment variable instead of {NAME} in an argument
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from taupy.errors import UsageError

MOST_RUNS = 10_000

_ENVIRONMENT = "env:"
_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})")
_POWERS = re.compile(r"(\d{1,9})\^(\d{1,4})\.\.(\d{1,9})\^(\d{1,4})")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A swept parameter: a name, its values, and whether it is an environment variable."""

    name: str
    values: tuple[str, ...]
    in_environment: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """The values of one run, by parameter."""

    values: dict[Parameter, str]

    @property
    def metadata(self) -> dict[str, str]:
        """NAME -> value, for the trial's metadata."""
        return {parameter.name: value for parameter, value in self.values.items()}

    @property
    def environment(self) -> dict[str, str]:
        """The variables to set in the program's environment."""
        return {p.name: value for p, value in self.values.items() if p.in_environment}

    def arguments(self, target: Sequence[str]) -> list[str]:
        """The program's arguments with `{NAME}` replaced; other braces stay."""
        own = {p.name: value for p, value in self.values.items() if not p.in_environment}
        if not own:
            return list(target)
        places = re.compile(r"\{(" + "|".join(map(re.escape, own)) + r")\}")
        return [places.sub(lambda match: own[match[1]], argument) for argument in target]

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.metadata.items())


def parameters(texts: Sequence[str], target: Sequence[str]) -> list[Parameter]:
    """Read options `--sweep NAME=VALUES`. Each `{NAME}` must occur in the target, except those of
    environment variables.

    Raises:
        UsageError: no values, a name twice, no `{NAME}` in any argument, too many runs.
    """
    result: list[Parameter] = []
    for text in texts:
        name, equals, values = text.partition("=")
        in_environment = name.startswith(_ENVIRONMENT)
        name = name.removeprefix(_ENVIRONMENT)
        if not equals or not name.strip():
            raise UsageError(f"--sweep takes NAME=VALUE,VALUE,..., got {text!r}")
        if any(parameter.name == name for parameter in result):
            raise UsageError(f"--sweep {name} is given twice; list all its values in one")
        if not in_environment and not any("{" + name + "}" in argument for argument in target):
            raise UsageError(
                f"no argument of the program contains {{{name}}}; write it where the value goes: "
                f"taupy run --sweep {text} -- script.py {{{name}}} (or set an environment "
                f"variable: --sweep {_ENVIRONMENT}{text})"
            )
        result.append(Parameter(name, tuple(_values(name, values)), in_environment))
    runs = 1
    for parameter in result:
        runs *= len(parameter.values)
    if runs > MOST_RUNS:
        raise UsageError(f"--sweep asks for {runs} runs; the maximum is {MOST_RUNS}")
    return result


def settings(swept: Sequence[Parameter]) -> list[Setting]:
    """Every combination of the values; the last parameter changes fastest."""
    return [
        Setting(dict(zip(swept, values, strict=True)))
        for values in product(*(parameter.values for parameter in swept))
    ]


def _values(name: str, text: str) -> list[str]:
    distinct: dict[str, None] = {}
    for item in text.split(","):
        item = item.strip()
        if not item:
            raise UsageError(f"--sweep {name} has an empty value in {text!r}")
        for value in _spelled_out(name, item):
            if value in distinct:
                raise UsageError(f"--sweep {name} has {value} twice; --repeat runs it more often")
            distinct[value] = None
            if len(distinct) > MOST_RUNS:
                raise UsageError(f"--sweep {name} has more than {MOST_RUNS} values")
    return list(distinct)


def _spelled_out(name: str, item: str) -> Iterator[str]:
    if match := _POWERS.fullmatch(item):
        base, first, other, last = map(int, match.groups())
        if base != other:
            raise UsageError(f"--sweep {name}: {item} has two bases; write {base}^M..{base}^N")
        if max(first, last) * base.bit_length() > 4096:
            raise UsageError(f"--sweep {name}: {item} is too large")
        yield from (str(base**power) for power in _between(first, last))
    elif match := _RANGE.fullmatch(item):
        first, last = map(int, match.groups())
        yield from map(str, _between(first, last))
    else:
        yield item


def _between(first: int, last: int) -> range:
    """From `first` to `last`, both included, upwards or downwards."""
    return range(first, last + 1) if first <= last else range(first, last - 1, -1)
