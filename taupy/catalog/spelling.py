"""Map names to CUPTI metrics of a chip, and CUPTI values back to our counters.

plan(["gst_request", "gld", "dram__bytes.sum"], "GH100")   metrics to count, recipes for values
measured({"dram__bytes.sum": 1024.0})                   {"bytes_dram": 1024.0}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from taupy.catalog.counters import BY_NAME, COUNTERS
from taupy.catalog.recorded import CHIPS, COUNTER_PASSES, METRICS, SET_PASSES
from taupy.errors import UsageError


class Term(NamedTuple):
    """One PerfWorks metric of a spelling."""

    weight: int
    metric: str


def terms(spelling: str) -> tuple[Term, ...]:
    """The metrics of a spelling with their weights."""
    parsed = []
    for part in spelling.split(" + "):
        weight, star, metric = part.partition("*")
        parsed.append(Term(int(weight), metric) if star else Term(1, part))
    return tuple(parsed)


def spelled(name: str, chip: str) -> tuple[Term, ...] | None:
    """The chip's own names for one of our counters; None if the chip does not have it.

    For a chip that is not in `recorded.py` the first spelling is returned; CUPTI rejects it if
    necessary.
    """
    for spelling in BY_NAME[name].spellings:
        addends = terms(spelling)
        if all(has(chip, term.metric) for term in addends):
            return addends
    return None


def has(chip: str, metric: str) -> bool:
    """Whether the chip has this PerfWorks metric according to `recorded.py`."""
    if chip not in CHIPS:
        return True
    return bool(METRICS.get(metric, 0) >> CHIPS.index(chip) & 1)


def recorded_passes(name: str, chip: str) -> int | None:
    """Number of passes for one of our counters or sets alone; None if unknown."""
    columns = {**COUNTER_PASSES, **SET_PASSES}.get(name)
    if columns is None or chip not in CHIPS:
        return None
    cell = columns.split()[CHIPS.index(chip)]
    return int(cell) if cell.isdigit() else None


def canonical(name: str) -> str | None:
    """Our counter with this name: ours, nvprof's, an old event's or TAU's; None if there is none.

    TAU writes `CUDA.Tesla_P100-PCIE-16GB.domain_d.inst_executed`; only the last part is used.
    """
    plain = name.strip()
    if plain in BY_NAME:
        return plain
    last = plain.rsplit(".", 1)[-1].lower() if plain.upper().startswith("CUDA.") else plain.lower()
    if last in BY_NAME:
        return last
    return next((counter.name for counter in COUNTERS if last in counter.legacy), None)


def is_perfworks(name: str) -> bool:
    """Whether this looks like a PerfWorks metric: `dram__bytes.sum`."""
    return "__" in name and "." in name


def near(name: str, among: Iterable[str] = ()) -> list[str]:
    """Names similar to a misspelt one, best match first."""
    from difflib import get_close_matches

    legacy = {other: counter.name for counter in COUNTERS for other in counter.legacy}
    counter_of = {**legacy, **{counter: counter for counter in (*BY_NAME, *among)}}
    close = get_close_matches(name.lower(), counter_of, n=6, cutoff=0.6)
    parts = [spelled_name for spelled_name in counter_of if name.lower() in spelled_name.lower()]
    return list(dict.fromkeys(counter_of[spelled_name] for spelled_name in [*close, *parts]))[:4]


class Recipe(NamedTuple):
    """How one metric of a trial is computed from what CUPTI counts."""

    name: str
    unit: str
    terms: tuple[Term, ...]

    def value(self, counted: Mapping[str, float]) -> float | None:
        """The value computed from PerfWorks values; None if one of them is missing."""
        total: float = 0
        for term in self.terms:
            value = counted.get(term.metric)
            if value is None or value != value:
                return None
            total += term.weight * value
        return total


class Plan(NamedTuple):
    """The CUPTI metrics to collect, and how counters are computed from them.

    Attributes:
        metrics: PerfWorks metrics, each once.
        recipes: metrics of the trial.
        missing: counters that the chip does not have, with the reason.
    """

    metrics: tuple[str, ...]
    recipes: tuple[Recipe, ...]
    missing: tuple[tuple[str, str], ...]


def plan(names: Iterable[str], chip: str) -> Plan:
    """What must be counted for these names on this chip.

    Args:
        names: our names, legacy names, or PerfWorks metrics; the latter keep their names as
            metrics of the trial.

    Raises:
        UsageError: a name is unknown; the message lists similar ones.
    """
    recipes: dict[str, Recipe] = {}
    missing = []
    for name in names:
        counter = canonical(name)
        if counter is not None:
            addends = spelled(counter, chip)
            if addends is None:
                missing.append((counter, BY_NAME[counter].missing or "this chip does not have it"))
            else:
                recipes[counter] = Recipe(counter, BY_NAME[counter].unit, addends)
        elif is_perfworks(name):
            recipes[name] = Recipe(name, unit_of(name), (Term(1, name),))
        else:
            close = near(name)
            more = f"; near it: {', '.join(close)}" if close else ""
            raise UsageError(
                f"there is no counter '{name}'{more}; `taupy avail --chip {chip}` lists them"
            )
    metrics = tuple(
        dict.fromkeys(term.metric for recipe in recipes.values() for term in recipe.terms)
    )
    return Plan(metrics, tuple(recipes.values()), tuple(dict.fromkeys(missing)))


def measured(counted: Mapping[str, float]) -> dict[str, float]:
    """Our counters that can be computed from these PerfWorks values, on any chip.

    For files of Nsight Compute. The sums of `sm__X` and `smsp__X` are equal, so either can be used;
    an exception are cycles, which each of an SM's four partitions counts.
    """
    values = dict(counted)
    for name, value in counted.items():
        own_units = name.startswith(("sm__", "smsp__")) and "__cycles_" not in name
        if name.endswith(".sum") and own_units:
            unit, _, rest = name.partition("__")
            values.setdefault(("smsp__" if unit == "sm" else "sm__") + rest, value)
    values_of: dict[str, float] = {}
    for counter in COUNTERS:
        for spelling in counter.spellings:
            reading = Recipe(counter.name, counter.unit, terms(spelling)).value(values)
            if reading is not None:
                values_of[counter.name] = reading
                break
    return values_of


def unit_of(metric: str) -> str:
    """A PerfWorks metric's unit according to its name; otherwise `count`."""
    base, _, rest = metric.partition(".")
    if "pct" in rest or base.endswith(("_pct", "_throughput")):
        return "%"
    if rest.endswith("ratio"):
        return "ratio"
    for word, unit in _WORDS:
        if word in base:
            spoken = unit
            break
    else:
        spoken = "count"
    if rest.endswith("per_second"):
        return f"{spoken}/s"
    if "per_cycle" in rest or rest.endswith("peak_sustained"):
        return f"{spoken}/cycle".replace("*cycle/cycle", "")
    return spoken


_WORDS = (
    ("time_duration", "ns"),
    ("_bytes", "B"),
    ("__bytes", "B"),
    ("sectors", "sector"),
    ("requests", "request"),
    ("warps_active", "warp*cycle"),
    ("warps", "warp"),
    ("ops_path_tensor", "flop"),
    ("cycles", "cycle"),
    ("inst", "inst"),
)
