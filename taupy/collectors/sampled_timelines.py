"""Read the sampler's results for each GPU, before a trial is stored.

`timelines` ends the sampler first, by the file STOP in the run folder.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass
from typing import Any

from taupy.errors import TaupyError
from taupy.model.processes import is_alive
from taupy.model.profile import Samples, Statistics, UserEvent
from taupy.state import values
from taupy.state.folder import Folder
from taupy.state.shape import fits

SETTINGS = "sampling"
KEPT = "sampled"
STOP = "sampling.stop"
RUNS = "sampling.runs"  # pid and start time of the sampler; removed when all is written

_END_S = 20.0


@dataclass(frozen=True, slots=True)
class GpuTimeline:
    """The samples of one GPU.

    Attributes:
        facts: chip, interval, and the interval's unit, "ns" or "cycles".
        problems: what is missing, one line each.
        events: statistics of all samples, named like NVML's, `GPU[0] sm_active`.
        samples: the same over time.
        samples_a_point: how many samples were merged into one point.
    """

    uuid: str
    ordinal: int
    facts: tuple[str, int, str]
    problems: list[str]
    events: list[UserEvent]
    samples: list[Samples]
    samples_a_point: int


def timelines(folder: Folder, ordinals: dict[str, int] | None) -> list[GpuTimeline] | None:
    """Stop the sampler of this run and read its results.

    Args:
        folder: the run folder.
        ordinals: UUID -> CUDA's number in the program, of the GPUs to keep; None for all.

    Returns:
        None if no GPU could be sampled, which was reported before the run.

    Raises:
        TaupyError: the samples cannot be read.
    """
    _end(folder)
    try:
        kept = values.loads((folder / KEPT).read_bytes())
        if not fits(kept, list[dict[str, object]]) or not all(map(_is_kept, kept)):
            raise values.Damaged("they are invalid")
        timelines = [
            _read(gpu, ordinals) for gpu in kept if ordinals is None or gpu["uuid"] in ordinals
        ]
    except FileNotFoundError:
        raise TaupyError("the sampler of GPUs failed: no timeline is kept") from None
    except (OSError, ValueError) as problem:
        raise TaupyError(f"the samples of GPUs cannot be read ({problem})") from None
    return timelines if kept else None


def _end(folder: Folder) -> None:
    (folder / STOP).write_bytes(b"")
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        try:
            runs = values.loads((folder / RUNS).read_record())
        except (OSError, values.Damaged):
            return
        if not fits(runs, tuple[int, int]) or not is_alive(*runs):
            return
        time.sleep(0.01)


_KEPT_FIELDS: dict[str, Any] = {
    "uuid": str,
    "ordinal": int,
    "facts": tuple[str, int, str],
    "said": list[str],
    "channels": list[tuple[str, str]],
    "samples_a_point": int,
    "sums": list[object],
    "start": bytes,
    "end": bytes,
    "count": bytes,
    "mean": list[bytes],
    "low": list[bytes],
    "high": list[bytes],
}


def _is_kept(gpu: dict[str, Any]) -> bool:
    """Whether it is a valid result of `Sampled.kept`, with columns of equal length."""
    if any(not fits(gpu.get(name), hint) for name, hint in _KEPT_FIELDS.items()):
        return False
    columns = [gpu["mean"], gpu["low"], gpu["high"]]
    lists = [gpu["sums"], *columns]
    sizes = {len(gpu[name]) for name in ("start", "end", "count")}
    sizes |= {len(data) for column in columns for data in column}
    return (
        all(len(column) == len(gpu["channels"]) for column in lists)
        and len(sizes) == 1
        and sizes.pop() % 8 == 0
        and all(fits(sums, list[object]) and len(sums) == 5 for sums in gpu["sums"])
    )


def _read(kept: dict[str, Any], ordinals: dict[str, int] | None) -> GpuTimeline:
    ordinal = kept["ordinal"] if ordinals is None else ordinals[kept["uuid"]]
    events: list[UserEvent] = []
    samples: list[Samples] = []
    for number, (channel, unit) in enumerate(kept["channels"]):
        sums = Statistics(*kept["sums"][number])
        if not sums.count:
            continue
        name = f"GPU[{ordinal}] {channel}"
        events.append(sums.event(name, unit))
        samples.append(
            Samples(
                name,
                unit,
                start_ns=array("q", kept["start"]),
                end_ns=array("q", kept["end"]),
                count=array("q", kept["count"]),
                mean=array("d", kept["mean"][number]),
                minimum=array("d", kept["low"][number]),
                maximum=array("d", kept["high"][number]),
            )
        )
    return GpuTimeline(
        kept["uuid"],
        ordinal,
        facts=kept["facts"],
        problems=kept["said"],
        events=events,
        samples=samples,
        samples_a_point=kept["samples_a_point"],
    )
