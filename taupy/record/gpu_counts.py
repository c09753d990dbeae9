"""Read the counters of a process's kernels and add them to the profile.

Counting is a separate mode from the timed run (`_native/gpu_counters.c`, configured by
`collectors/cupti_counters.py`). The values of single launches are summed under the call paths that
launched them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isinf
from pathlib import Path

from taupy.catalog import spelling
from taupy.catalog.counters import COUNTED_LAUNCHES
from taupy.collectors import cupti_errors
from taupy.collectors.cupti_counters import TIME
from taupy.errors import FormatError
from taupy.model.gpu import Configuration, Extent, Launch
from taupy.model.kernel_names import demangled, kernel_timer, short_name
from taupy.model.profile import Metric, Profile, Thread
from taupy.model.streams import FindPath, Owner, StreamBuilder
from taupy.state.folder import File
from taupy.units import several


@dataclass(frozen=True, slots=True)
class Key:
    """What identical launches share: kernel, configuration and launching call path."""

    device: int
    address: int  # of the call path in the process; 0 if unknown
    grid: Extent
    block: Extent
    kernel: str


@dataclass(slots=True)
class CountPart:
    """Everything counted in one process.

    Attributes:
        counted: values of each counted launch, in the order of the device's metrics.
        seen: total number of launches.
        regions: values of each counted region, by device and the address of its call path.
        metrics: per device.
        passes: per device.
        refused: kernels that were not counted, and why.
        notes: what went wrong or is missing, one line each.
    """

    pid: int
    start_ticks: int
    counted: dict[Key, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    seen: dict[Key, int] = field(default_factory=dict)
    regions: dict[tuple[int, int], list[list[float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    doubtful: dict[Key, int] = field(default_factory=lambda: defaultdict(int))
    metrics: dict[int, list[str]] = field(default_factory=dict)
    chips: dict[int, str] = field(default_factory=dict)
    passes: dict[int, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    ended: bool = False


def read_count_part(path: Path | File) -> CountPart:
    """Read what one process counted; a truncated last line is ignored.

    Raises:
        FormatError: it is not such a file.
    """
    pid, _, ticks = path.stem.partition("-")
    try:
        part = CountPart(int(pid), int(ticks, 16))
        text = path.read_bytes().decode("utf-8", "replace")
    except ValueError:
        raise FormatError(f"{path} is not a file of counted kernels") from None
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            try:
                kind, *cells = line[:-1].split("\t")
                _take(part, kind, cells)
            except (ValueError, IndexError):
                raise FormatError(f"{path}: an invalid line: {line[:80]!r}") from None
    return part


_NOTES = {
    "region doubtful": "a region was not counted cleanly and is left out",
    "missing": "CUPTI does not know {0}: left out",
    "reduced": "{0}: CUPTI cannot count metrics that need modified machine code here (`sass` in "
    "their names: operations by precision): left out",
    "unsupported": "CUPTI says that {0} cannot be profiled fully here ({1})",
    "no metrics": "{0}: not the chip that the launcher saw: not counted",
    "open": "CUPTI could not be opened: {1}",
    "times": "kernels are recorded with their times instead, without counters",
    "times later": "kernels are recorded with their times instead, without counters; the first {0} "
    "launches are missing",
    "no times": "GPU work is not recorded at all",
    "unwatched": "launches in the meantime, neither counted nor included in the calls: {0}",
}
"""By the kind of line; its cells are put in."""


def _take(part: CountPart, kind: str, cells: list[str]) -> None:
    match kind:
        case "count":
            key, values = _key(cells)
            part.counted[key].append([float(value) for value in values])
        case "seen":
            key, (seen, *_) = _key(cells)
            if key.device >= 0:
                part.seen[key] = int(seen)
        case "doubtful":
            key, _ = _key(cells)
            part.doubtful[key] += 1
        case "region":
            device, address, *values = cells
            part.regions[int(device), int(address, 16)].append([float(value) for value in values])
        case "device":
            device, chip, passes, *metrics = cells
            part.chips[int(device)], part.passes[int(device)] = chip, int(passes)
            part.metrics[int(device)] = metrics
        case "refused":
            kernel, why, *_ = cells
            part.refused[kernel] = why
        case "cupti":
            part.facts["CUPTI Library"], part.facts["CUPTI API Version"], *_ = cells
        case "error":
            step, code, text, *_ = cells
            part.notes.append(f"{step}: {cupti_errors.cause(int(code), text)}")
        case "state":
            state, code, text, *_ = cells
            words = f" ({text})" if text else ""
            cause = cupti_errors.cause(int(code), "")
            part.notes.append(f"CUPTI had an internal {state}{words}: {cause}")
        case "stuck":
            kernel, seconds, *_ = cells
            part.notes.append(
                f"{short_name(demangled(kernel))} had not ended after {seconds} s of counting: it "
                "waits for a kernel on another GPU or in another process, or takes very long "
                "(gpu_end_ms)"
            )
        case "ended":
            part.ended = True
        case _ if kind in _NOTES:
            part.notes.append(_NOTES[kind].format(*cells))


def _key(cells: list[str]) -> tuple[Key, list[str]]:
    device, address, grid, block, kernel, *rest = cells
    return Key(int(device), int(address, 16), _extent(grid), _extent(block), kernel), rest


def _extent(text: str) -> Extent:
    x, y, z = map(int, text.split(","))
    return x, y, z


_WHY = {
    "graph": "kernels of CUDA graphs run together",
    "cooperative": "its blocks wait for each other: it cannot be replayed alone",
    "communication": "it waits for kernels of other GPUs: alone, it would wait forever",
}


def add_count_part(
    profile: Profile, node: int, part: CountPart, names: Sequence[str], find: FindPath
) -> dict[str, str]:
    """Add a process's counters to its node, under the call paths that launched the kernels.

    Args:
        names: of the requested counters.
        find: the thread and row of a call path by its address.

    Returns:
        What is missing: name of the health metadata -> message.
    """
    builder = StreamBuilder(profile.timers)
    units: dict[str, str] = {COUNTED_LAUNCHES: "launch"}
    recipes = {}
    for device, chip in part.chips.items():
        recipes[device] = spelling.plan([*names, TIME], chip).recipes
        units.update((counter.name, counter.unit) for counter in recipes[device])

    def values_of(device: int, counted: list[list[float]]) -> list[dict[str, float]]:
        return [*_values(counted, part.metrics.get(device, []), recipes.get(device))]

    for key in dict.fromkeys([*part.counted, *part.seen]):
        counted = values_of(key.device, part.counted.get(key, []))
        launch = _launch(counted, max(part.seen.get(key, 0), len(counted)))
        launch = replace(launch, configuration=Configuration(key.grid, key.block))
        path = find(key.address) if key.address else None
        thread = _thread(node, key.device)
        row = builder.add(thread, path and path.owner, kernel_timer(key.kernel), launch)
        sums: dict[str, float] = defaultdict(int)
        for values in counted:
            for metric, value in values.items():
                sums[metric] += value
        if counted:
            builder.add_values(thread, row, {**sums, COUNTED_LAUNCHES: len(counted)})
    for (device, address), regions in part.regions.items():
        path = find(address)
        if path is None or path.measured.tree.parent[path.row] < 0:
            continue
        tree = path.measured.tree
        counted = values_of(device, regions)
        owner = Owner(tree, tree.parent[path.row])
        timer = profile.timers[tree.timer[path.row]]
        thread = _thread(node, device)
        row = builder.add(thread, owner, timer, _launch(counted, len(counted)))
        for values in counted:
            builder.add_values(thread, row, values)
    profile.threads += builder.threads()
    metrics = {metric.name for metric in profile.metrics}
    profile.metrics += [Metric(n, unit) for n, unit in units.items() if n not in metrics]
    for device, passes in part.passes.items():
        profile.metadata[f"taupy.counters.gpu{device}"] = f"{part.chips[device]}, {passes} passes"
    profile.node_metadata.setdefault(node, {}).update(part.facts)
    return _health(part)


def _thread(node: int, device: int) -> Thread:
    return Thread(node, 1 + device, 0, "stream", "counted launches")


def _launch(counted: list[dict[str, float]], count: int) -> Launch:
    """The times of `count` launches, as far as they were counted."""
    return Launch.of_times([round(values[TIME]) for values in counted if TIME in values], count)


def _values(
    launches: list[list[float]],
    metrics: list[str],
    recipes: Sequence[spelling.Recipe] | None,
) -> Iterator[dict[str, float]]:
    """taupy's metrics for each counted launch; whole numbers stay integers."""
    for launch in launches:
        counted = dict(zip(metrics, launch, strict=False))
        counts = {}
        for recipe in recipes or ():
            value = recipe.value(counted)
            if value is not None and not isinf(value):
                counts[recipe.name] = int(value) if value == int(value) else value
        yield counts


def _health(part: CountPart) -> dict[str, str]:
    health = {}
    if part.notes:
        health["gpu_counters"] = "; ".join(dict.fromkeys(part.notes))
    if part.refused:
        groups: dict[str, list[str]] = defaultdict(list)
        for kernel, why in part.refused.items():
            name = kernel if why == "graph" else short_name(demangled(kernel))
            groups[_WHY.get(why, why)].append(name)
        health["gpu_refused"] = "; ".join(
            f"not counted, because {why}: {', '.join(names[:8])}{', ...' if names[8:] else ''}"
            for why, names in groups.items()
        )
    if part.doubtful:
        number = sum(part.doubtful.values())
        names = ", ".join(dict.fromkeys(short_name(demangled(key.kernel)) for key in part.doubtful))
        health["gpu_doubtful"] = (
            f"left out: {several(number, 'launch')} not counted cleanly (another kernel ran at the "
            f"same time, or a pass is missing): {names}"
        )
    if not part.ended and (part.counted or not part.notes):
        health["gpu_cut_off"] = (
            "the program was killed, or limited the size of its files, or the disk was full: "
            "later counts are missing, and the total number of kernel launches is not known"
        )
    return health
