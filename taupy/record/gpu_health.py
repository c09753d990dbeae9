"""Messages about records missing from a GPU part: dropped, still lent, lost or not written."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from taupy.record.gpu_part import GpuPart

_UNANSWERED = 100
"""Number of trailing launches that may lack a record, for example in captured graphs."""

_NOTES = {
    "untimed": "kernels and copies without times, for which the GPU ran out of space: {untimed}; "
    "they are counted, but their time is missing",
    "dropped": "CUPTI dropped {dropped} records: counts and times of GPU work are too low",
    "lost": "kernels and copies whose launches were not seen: {lost}, listed under (launched from "
    "an unknown place)",
    "records": "no record of {records} of {expected} kernel launches: counts and times of GPU "
    "work are too low",
    "clock": "kernels and copies with times of torch.profiler's clock (ticks of the CPU's "
    "time-stamp counter), converted to nanoseconds: {clock}",
    "taken": "no records arrived after the first {told} of {launches} launches: another CUPTI "
    "client in the program (such as torch.profiler) has taken them",
    "lent": "torch.profiler took the records of {lent} of {launches} launches: their kernels and "
    "copies are in its trace and missing here",
    "refused": "buffers that could not be given to CUPTI: {refused}",
    "calls": "calls of CUDA's API that did not fit into the tables: {calls}",
    "folded": "launches beyond the limit of distinct ones, whose configurations or call paths are "
    "merged with others: {folded}",
    "flush": "the GPU did not finish in time at the program's end: its last work is missing",
    "trace": "activities that could not be written: {trace}",
    "walk": "buffers that could not be read completely: {walk}",
    "backend": "{backend}",
    "callbacks": "CUPTI refuses to report some API calls ({callbacks} ...)",
    "states": "CUPTI reported an internal error: {states}",
    "early_cupti": "this CUPTI (13.0 before its update 1) can crash when records are requested: "
    "this is done only at the end, so a killed program loses them; install "
    "nvidia-cuda-cupti>=13.0.85",
    "modules": "modules that were not kept or listed: {modules}",
    "kinds": "not recorded: {kinds}",
}
"""By the value that is neither missing nor 0 then: a counter or a note of the part, or one of
`_values`."""


def health(part: GpuPart, placeless: int) -> dict[str, str]:
    """Messages about a part: name of the health metadata -> text.

    Args:
        placeless: number of API calls that could not be placed in a host tree.
    """
    values = _values(part, placeless)
    return {f"gpu_{name}": text.format_map(values) for name, text in _NOTES.items() if values[name]}


def _values(part: GpuPart, placeless: int) -> dict[str, Any]:
    count, notes = defaultdict(int, part.counters), part.notes
    unanswered = count["launches"] - count["told"]
    is_taken = count["records"] > 0 and unanswered > max(_UNANSWERED, count["launches"] // 50)
    values = {
        "records": 0 if count["lent"] else max(0, count["expected"] - count["arrived"]),
        "taken": is_taken,
        "calls": count["calls_lost"] + placeless,
        "clock": count["converted"],
        "flush": count["flush_timed_out"],
        "trace": count["trace_lost"],
        "walk": count["walk_errors"],
        "callbacks": notes.get("callbacks.missing"),
        "early_cupti": notes.get("cupti.version") == "130000",
        "modules": notes.get("modules.lost", notes.get("modules")),
        "kinds": notes.get("records.missing"),
    }
    return defaultdict(int, {**count, **notes, **values})
