"""How quantities are printed. No other module formats numbers.

Two families: TAU's own cells, digit for digit (`tau_*`), and plain ones for
people (`duration`, `size`, `count`). All take nanoseconds where time is meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

_STEPS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
_SIZES = ("KiB", "MiB", "GiB", "TiB", "PiB")


def tau_time(ns: float) -> str:
    """TAU's time cell, in msec: three digits below 1 ms, then whole ms.

    From a second on it reads `s,mmm`, then `m:ss.mmm`, then `h:mm:ss.mmm`; like
    TAU's, it cuts off what is below a millisecond there.
    """
    if ns < 0:
        return "-" + tau_time(-ns)
    if ns < 1_000_000:
        return f"{ns / 1_000_000:.3G}"
    seconds, milliseconds = divmod(int(ns // 1_000_000), 1000)
    if seconds == 0:
        return str(milliseconds)
    if seconds < 60:
        return f"{seconds},{milliseconds:03d}"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}:{seconds:02d}.{milliseconds:03d}"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}.{milliseconds:03d}"


def tau_per_call(ns: float) -> str:
    """TAU's usec/call cell, in whole microseconds; three digits below 10 us.

    TAU shows 0 for a short routine; we know its nanoseconds and show them.
    """
    microseconds = ns / 1000
    if ns == 0 or abs(microseconds) >= 10:
        return f"{microseconds:.0f}"
    return f"{microseconds:.3G}"


def tau_count(value: float) -> str:
    """TAU's cell for a metric that is not a time: four significant digits."""
    return f"{value:.4G}"


def milliseconds(ns: float) -> str:
    """A time in plain msec, every nanosecond of it: `40229.000000`."""
    return f"{ns / 1_000_000:.6f}"


def percent(value: float) -> str:
    """A share in percent, 0 to 100, with one decimal: `12.5`."""
    return f"{value:.1f}"


def duration(ns: float) -> str:
    """A time for people: `0 ns`, `417 ns`, `1.23 ms`, `59.9 s`, `2 min 03 s`, `1 h 00 min`."""
    if ns < 0:
        return "-" + duration(-ns)
    if ns == inf:  # in a damaged file
        return "inf"
    if ns >= 59_950_000_000:
        minutes, seconds = divmod(round(ns / 1_000_000_000), 60)
        if minutes < 60:
            return f"{minutes} min {seconds:02d} s"
        return f"{minutes // 60} h {minutes % 60:02d} min"
    for step, unit in _STEPS:
        # 999.6 us is 1 ms: a value that rounds up to the next unit is shown in it.
        if ns >= step * 0.9995:
            return f"{_three_digits(ns / step)} {unit}"
    return f"{ns:.0f} ns"


def size(count: float) -> str:
    """A number of bytes for people: `512 B`, `1.5 KiB`, `34.0 MiB`."""
    if count < 0:
        return "-" + size(-count)
    if count < 1024:
        return f"{count:.0f} B"
    value = count / 1024
    for unit in _SIZES:
        if value < 1023.95:
            return f"{value:.1f} {unit}"
        value /= 1024
    return f"{value * 1024:.1f} {_SIZES[-1]}"


def number(value: float) -> str:
    """A real number for people: whole ones whole, others with six digits."""
    if abs(value) < 1e15 and value == int(value):
        return str(int(value))
    return f"{value:.6g}"


def rate(value: float) -> str:
    """How many a second, for people: `37,540`, `128.4`."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def count(value: int) -> str:
    """A count for people in running text: `12,345`."""
    return f"{value:,}"


def several(value: int, noun: str) -> str:
    """A number of things: `1 trial`, `0 trials`, `12 trials`, `2 launches`."""
    ending = "" if value == 1 else "es" if noun.endswith(("ch", "ss")) else "s"
    return f"{value} {noun}{ending}"


def verb(value: int, plural: str) -> str:
    """The verb that so many things have: `were` as it is, or `was` for one."""
    return _OF_ONE[plural] if value == 1 else plural


_OF_ONE = {"are": "is", "were": "was", "have": "has"}


def listing(names: Iterable[object], most: int) -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    texts = list(map(str, names))
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def nearest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """The names most like this one, the most alike first; case does not count."""
    from difflib import get_close_matches

    spelled = {other.lower(): other for other in names}
    wanted = name.strip("/*?").lower()
    return [spelled[other] for other in get_close_matches(wanted, spelled, most, 0.6)]


def no_such(what: str, name: str, names: Iterable[str]) -> str:
    """The beginning of an error message: `no event 'los' (there are: accuracy, loss; near it:
    loss)`."""
    others = sorted(set(names))
    near = nearest(name, others) if len(others) > 1 else []
    more = f"; near it: {', '.join(near)}" if near else ""
    return f"no {what} '{name}' (there are: {listing(others, _MOST_LISTED) or 'none'}{more})"


_MOST_LISTED = 8


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


_PREFIXES = (
    *((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")),
    *((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"), (1e-12, "p")),
)


def four_digits(value: float) -> float:
    """The value with four significant digits: what a chart or a counter can be trusted to."""
    return float(f"{value:.4g}")


def prefixed(value: float, unit: str) -> str:
    """A quantity with an SI prefix, powers of 1000, three digits: `15.7 Tflop/s`, `4.2 us`."""
    if value != value:
        return "nan"
    if abs(value) == float("inf"):
        return "inf"
    for step, prefix in _PREFIXES:
        # A value that rounds up to the next prefix is shown in it.
        if abs(value) >= step * 0.9995:
            return f"{_three_digits(value / step)} {prefix}{unit}".rstrip()
    if value == 0:
        return f"0 {unit}".rstrip()
    return f"{value:.3g} {unit}".rstrip()
