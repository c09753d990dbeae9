"""Messages about records missing from a GPU part: dropped, still lent, lost or not written."""

from __future__ import annotations

from taupy.record.gpu_part import GpuPart

_UNANSWERED = 100
"""Number of trailing launches that may lack a record, for example in captured graphs."""


def health(part: GpuPart, placeless: int) -> dict[str, str]:
    """Messages about a part: name of the health metadata -> text.

    Args:
        placeless: number of API calls that could not be placed in a host tree.
    """
    counters, notes = part.counters, part.notes
    count = {name: counters.get(name, 0) for name in counters}
    texts: dict[str, str] = {}

    def say(name: str, wanted: int, text: str) -> None:
        if wanted:
            texts[name] = text

    get = count.get
    say(
        "gpu_untimed",
        get("untimed", 0),
        f"{get('untimed')} kernels and copies have no times (the GPU ran out of space for them): "
        "they are counted, but their time is missing",
    )
    say(
        "gpu_dropped",
        get("dropped", 0),
        f"CUPTI dropped {get('dropped')} records: counts and times of GPU work are too low",
    )
    say(
        "gpu_lost",
        get("lost", 0),
        f"the launches of {get('lost')} kernels and copies were not seen: they are listed under "
        "(launched from an unknown place)",
    )
    without = get("expected", 0) - get("arrived", 0)
    say(
        "gpu_records",
        without > 0 and not get("lent", 0),
        f"{without} of {get('expected')} kernel launches have no record: counts and times of GPU "
        "work are too low",
    )
    say(
        "gpu_clock",
        get("converted", 0),
        f"the times of {get('converted')} kernels and copies came from torch.profiler's clock "
        "(ticks of the CPU's time-stamp counter) and were converted to nanoseconds",
    )
    unanswered = get("launches", 0) - get("told", 0)
    say(
        "gpu_taken",
        get("records", 0) > 0 and unanswered > max(_UNANSWERED, get("launches", 0) // 50),
        f"no records arrived after the first {get('told')} of {get('launches')} launches: "
        "another CUPTI client in the program (such as torch.profiler) has taken them",
    )
    say(
        "gpu_lent",
        get("lent", 0),
        f"torch.profiler took the records of {get('lent')} of {get('launches')} launches: their "
        "kernels and copies are in its trace and missing here",
    )
    say("gpu_refused", get("refused", 0), f"{get('refused')} buffers could not be given to CUPTI")
    say(
        "gpu_calls",
        get("calls_lost", 0) + placeless,
        f"{get('calls_lost', 0) + placeless} calls of CUDA's API did not fit into the tables",
    )
    say(
        "gpu_folded",
        get("folded", 0),
        f"{get('folded')} launches exceeded the limit of distinct launches: their configurations "
        "or call paths are merged with others",
    )
    say(
        "gpu_flush",
        get("flush_timed_out", 0),
        "the GPU did not finish in time at the program's end: its last work is missing",
    )
    say("gpu_trace", get("trace_lost", 0), f"{get('trace_lost')} activities could not be written")
    say(
        "gpu_walk",
        get("walk_errors", 0),
        f"{get('walk_errors')} buffers could not be read completely",
    )
    say("gpu_backend", "backend" in notes, notes.get("backend", ""))
    say(
        "gpu_callbacks",
        "callbacks.missing" in notes,
        f"CUPTI refuses to report some API calls ({notes.get('callbacks.missing')} ...)",
    )
    say("gpu_states", "states" in notes, f"CUPTI reported an internal error: {notes.get('states')}")
    say(
        "gpu_early_cupti",
        notes.get("cupti.version") == "130000",
        "this CUPTI (13.0 before its update 1) can crash when records are requested: this is "
        "done only at the end, so a killed program loses them; install nvidia-cuda-cupti>=13.0.85",
    )
    say(
        "gpu_modules",
        "modules.lost" in notes or "modules" in notes,
        f"modules that were not kept or listed: {notes.get('modules.lost', notes.get('modules'))}",
    )
    say("gpu_kinds", "records.missing" in notes, f"not recorded: {notes.get('records.missing')}")
    return texts
