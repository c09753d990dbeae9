"""Which packages taupy and its extras ask for, which are installed, and which nobody else needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from importlib import metadata
from typing import NamedTuple

OWN = "taupy-profiler"
_NEVER = {OWN, "pip", "setuptools"}
"""What nobody installs for taupy."""

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
        own = list(_required(OWN))
    except metadata.PackageNotFoundError:
        return  # a folder on PYTHONPATH
    yield from (package for package in own if package.extra in ("", *EXTRAS))
    for package in own:
        if package.version and package.extra in ("", *EXTRAS):
            for needed in _required(package.name):
                if not needed.extra and needed.version and not needed.fits:
                    yield needed._replace(extra=package.extra)


def brought() -> list[str]:
    """Installed packages that nobody asked for by name, and nothing but taupy needs."""
    installed = {_plain(package.name): package for package in metadata.distributions()}
    needs = {name: _needs(package, installed) for name, package in installed.items()}
    below, todo = set[str](), {OWN}
    while todo:
        below |= todo
        todo = {need for name in todo for need in needs.get(name, ())} - below
    ours = below - _NEVER - {name for name, package in installed.items() if _is_meant(package)}
    while others := ours & {need for name in needs.keys() - ours - {OWN} for need in needs[name]}:
        ours -= others
    return sorted(ours)


def _needs(package: metadata.Distribution, installed: Collection[str]) -> set[str]:
    """Installed requirements of a package, and of those extras that are all there."""
    by_extra: dict[str, set[str]] = {}
    for text in package.requires or ():
        match = _REQUIREMENT.fullmatch(text)
        if match is not None:
            extra = _EXTRA.search(match[3] or "")
            by_extra.setdefault(extra[1] if extra else "", set()).add(_plain(match[1]))
    return {
        name
        for extra, names in by_extra.items()
        if not extra or names <= set(installed)
        for name in names & set(installed)
    }


def _is_meant(package: metadata.Distribution) -> bool:
    """Whether it was asked for by name, as far as its installer tells."""
    by_pip = (package.read_text("INSTALLER") or "").strip() in ("pip", "uv")
    return not by_pip or package.read_text("REQUESTED") is not None


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


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
