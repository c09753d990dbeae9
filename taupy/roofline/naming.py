"""Short but distinct names for legends and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from taupy.errors import UsageError
from taupy.escaping import visible
from taupy.roofline.placement import Placement
from taupy.roofline.point import Point
from taupy.units import no_such

LONGEST = 38
"""Maximum length of a name in a legend."""

_WORD = re.compile(r"\w+|\W")


def labels(placements: Sequence[Placement], longest: int = LONGEST) -> list[str]:
    """A short name for each point. Equal short names in a trial get the part in which their full
    names differ: `elementwise_kernel (…exp…)`."""
    texts = [clipped(placement.point.short, longest) for placement in placements]
    alike: dict[tuple[int, str], list[int]] = {}
    for number, (label, placement) in enumerate(zip(texts, placements, strict=True)):
        alike.setdefault((placement.point.trial, label), []).append(number)
    for numbers in alike.values():
        differences = _differences([_spaced(placements[number].point.name) for number in numbers])
        for number, difference in zip(numbers, differences, strict=True):
            if difference:
                own = clipped(difference, longest // 2)
                short = clipped(placements[number].point.short, longest - len(own) - 5)
                texts[number] = f"{short} (…{own}…)"
    return texts


def aliased(points: Sequence[Point], aliases: Sequence[str]) -> list[Point]:
    """The points renamed by aliases; the first matching alias applies.

    Args:
        aliases: texts `PATTERN=NAME`; patterns of full or short names, with * and ?.

    Raises:
        UsageError: an alias is invalid or matches no point.
    """
    pairs = []
    for text in aliases:
        pattern, equals, name = text.rpartition("=")
        if not equals or not pattern or not name.strip():
            raise UsageError(f"--alias takes 'PATTERN=NAME', such as 'gemm*=GEMM', not '{text}'")
        if not any(_named_like(point, pattern) for point in points):
            raise UsageError(f"--alias: {no_such('point', pattern, _names(points))}")
        pairs.append((pattern, name.strip()))
    return [
        replace(point, short=next((name for like, name in pairs if _named_like(point, like)), ""))
        if any(_named_like(point, like) for like, _ in pairs)
        else point
        for point in points
    ]


def _names(points: Sequence[Point]) -> list[str]:
    return [point.short or point.name for point in points]


def _named_like(point: Point, pattern: str) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for name in (point.name, point.short))


def _differences(names: Sequence[str]) -> list[str]:
    """The words of each name from the first to the last that differ; empty if all are equal."""
    words = {name: _WORD.findall(name) for name in names}
    if len(words) < 2:
        return [""] * len(names)
    ahead = _shared(list(words.values()))
    behind = _shared([some[::-1] for some in words.values()])
    return [
        "".join(words[name][ahead : max(len(words[name]) - behind, ahead + 1)]) for name in names
    ]


def _shared(some: Sequence[Sequence[str]]) -> int:
    """The number of words in their common beginning."""
    together = zip(*some, strict=False)
    return next(
        (at for at, words in enumerate(together) if len(set(words)) > 1), min(map(len, some))
    )


def clipped(name: str, longest: int = LONGEST) -> str:
    """A name cut in the middle for a legend, since the ends distinguish kernels."""
    name = _spaced(name)
    if len(name) <= longest:
        return name
    end = longest // 3
    return f"{name[: longest - end - 1]}…{name[-end:]}"


def _spaced(name: str) -> str:
    """On one line, with unprintable characters escaped."""
    return visible(" ".join(name.split()))
