"""Which packages taupy and its extras ask for, and which are installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

EXTRAS = (
    *("plots", "static", "parquet", "store", "cluster", "serve", "completion"),
    *("gpu", "cupti", "pycuda"),
)
"""Those of users. `all` and those of developers are left out."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*?)\s*(?:;(.*))?")
_EXTRA = re.compile(r"extra *== *[\"']([\w-]+)[\"']")
_COMPARISON = re.compile(r"(>=|<=|==|!=|<|>|~=)\s*([^,\s]+)")


class Package(NamedTuple):
    """A package that is asked for.

    Attributes:
        extra: the extra that asks for it; "" for all of taupy.
        version: the installed one; "" if there is none.
        wanted: as in "pandas>=1.5.1,<4".
        asked_by: the distribution that asks for it.
    """

    name: str
    extra: str
    version: str
    wanted: str
    asked_by: str

    @property
    def fits(self) -> bool:
        """Whether the installed version is one of the wanted ones."""
        return all(
            _holds(_key(self.version), sign, number)
            for sign, number in _COMPARISON.findall(self.wanted)
        )


def packages() -> Iterator[Package]:
    """The packages of taupy and its extras, and requirements of those that are not met."""
    try:
        own = list(_required("taupy-profiler"))
    except metadata.PackageNotFoundError:
        return  # a folder on PYTHONPATH
    yield from (package for package in own if package.extra in ("", *EXTRAS))
    for package in own:
        if package.version and package.extra in ("", *EXTRAS):
            for needed in _required(package.name):
                if not needed.extra and needed.version and not needed.fits:
                    yield needed._replace(extra=package.extra)


def _required(name: str) -> Iterator[Package]:
    for text in metadata.requires(name) or ():
        match = _REQUIREMENT.fullmatch(text)
        condition = (match and match[3]) or ""
        extra = _EXTRA.search(condition)
        if match is None or (condition and not extra):
            continue  # for some Pythons or systems
        yield Package(match[1], extra[1] if extra else "", _installed(match[1]), match[2], name)


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _key(version: str) -> tuple[int, ...]:
    """The release's numbers: a pre-release counts as the release."""
    numbers = re.match(r"[\d.]+", version.removeprefix("v"))
    parts = [int(part) for part in (numbers[0] if numbers else "0").split(".") if part]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def _holds(installed: tuple[int, ...], sign: str, number: str) -> bool:
    if number.endswith(".*"):
        stem = tuple(int(part) for part in number[:-2].split("."))
        is_same = installed[: len(stem)] == stem
        return is_same if sign == "==" else not is_same
    wanted = _key(number)
    if sign == "~=":
        stem = tuple(int(part) for part in re.findall(r"\d+", number)[:-1])
        return installed >= wanted and installed[: len(stem)] == stem
    return {
        ">=": installed >= wanted, "<=": installed <= wanted, "==": installed == wanted,
        "!=": installed != wanted, "<": installed < wanted, ">": installed > wanted,
    }[sign]  # fmt: skip
