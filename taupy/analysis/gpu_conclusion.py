"""Two sentences on each GPU: why it was idle, or did not compute, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from taupy.dataclass import NamedTuple
from taupy.model.gpu_time import OUTSIDE, Cause, GpuTime, Idle
from taupy.units import duration, percent

LEAST = 0.1
"""Share of the time without computing below which faster kernels are what helps: even on a GPU that
always has work queued, gaps between kernels take a few percent."""

_SHOWN = 3
"""Causes that are named one by one."""

_SECOND = 0.25
"""Share of the largest loss from which on the second largest is named, too."""

_LONGEST = 60

WITHOUT_WORK = "the host before the first work and after the last"


class Loss(NamedTuple):
    """Time without computing that one thing would remove.

    Attributes:
        place: where most of it was spent; "" if unknown.
        step: the step that it is part of; "" if it lies between the first work and the last.
        step_ns: its length.
    """

    name: str
    ns: int
    advice: str
    place: str = ""
    step: str = ""
    step_ns: int = 0

    def share(self, time: GpuTime) -> float:
        return self.ns / (self.step_ns or time.span_ns or 1)


_OF_CAUSES: Mapping[str, tuple[tuple[Cause, ...], str]] = {
    "the host": (
        ("host", "launch latency", "nothing recorded on the host"),
        "the host is too slow for the GPU: give it more work with each launch (larger batches, "
        "fused kernels), or make launches cheaper (torch.compile, a captured graph)",
    ),
    "synchronisation": (
        ("synchronisation",),
        "the host waits for the GPU and only then prepares more work: read results (.item(), "
        ".cpu(), prints) in fewer steps, or a step later",
    ),
    "memory allocation": (
        ("memory allocation",),
        "keep memory and use it again, or allocate it before; if these are the first steps of a "
        "run, judge it by later ones",
    ),
    "loading code": (
        ("loading code", "long launch call"),
        "a kernel's code is loaded at its first launch: judge a run by steps after a warm-up, or "
        "load code at the start (CUDA_MODULE_LOADING=EAGER, HIP_ENABLE_DEFERRED_LOADING=0)",
    ),
    "data loading": (
        ("data loading",),
        "the next batch was not ready: make batches faster, or earlier (workers, prefetching)",
    ),
    "queued work that started late": (
        ("queued, started late",),
        "the trace does not show what held it up: look for other processes on the GPU",
    ),
    "gaps between queued kernels": (
        ("between kernels", "inside a graph"),
        "start fewer, larger kernels (fusion, torch.compile)",
    ),
    "launches that were not seen": (
        ("launch not seen",),
        "the launches are not in the trace, so the reason is not known: begin it a step earlier, "
        "or trace the process that launches",
    ),
}


def sentences(name: str, time: GpuTime) -> tuple[str, str]:
    """Why this GPU did not compute all the time, and what to do."""
    return _why(name, time), _what(time)


def _why(name: str, time: GpuTime) -> str:
    """What its time went to; the parts add up to the span."""
    parts = (
        (time.compute_ns, "computing"),
        (time.communication_ns, "only communicating"),
        (time.copies_ns, "only copying"),
    )
    work = [f"{duration(ns)} ({_share(ns, time)}) {what}" for ns, what in parts if ns]
    text = f"{name}: of {duration(time.span_ns)} it spent {', '.join(work)}"
    outside = "".join(
        f"; {loss.step} took {duration(loss.step_ns)}, {duration(loss.ns)} of it before its first "
        "work and after its last"
        for loss in lost(time)
        if loss.step
    )
    if not time.idle_ns:
        return f"{text}, and always had work{outside}"
    text += f"; it was idle for {duration(time.idle_ns)} ({_share(time.idle_ns, time)})"
    place = most(time.idle[0])
    text += f": {causes(time, f' (most of it in {place})' if place else '')}"
    if time.unproven_ns:
        text += (
            f"; for {duration(time.unproven_ns)} it waited for {OUTSIDE}: whether it was idle then "
            "is not proven"
        )
    return f"{text}{outside}"


def most(part: Idle) -> str:
    """Where most of a cause's time was spent; "" if that is not known."""
    if not part.places or part.cause in ("between kernels", "launch not seen", "inside a graph"):
        return ""
    place, ns = part.places[0]
    if place == OUTSIDE or 2 * ns < part.ns:
        return ""
    return place if len(place) <= _LONGEST else f"{place[: _LONGEST - 3]}..."


def causes(time: GpuTime, of_first: str = "") -> str:
    """The largest causes of its idle time, as a list; `of_first` is said of the first."""
    shown = [f"{part.cause} {duration(part.ns)}" for part in time.idle[:_SHOWN]]
    shown[:1] = [f"{cause}{of_first}" for cause in shown[:1]]
    rest = sum(part.ns for part in time.idle[_SHOWN:])
    return ", ".join([*shown, *([f"other causes {duration(rest)}"] if rest else [])])


def _what(time: GpuTime) -> str:
    losses = lost(time)
    whole = time.span_ns - time.compute_ns
    is_little = whole < LEAST * time.span_ns and not any(loss.step for loss in losses)
    if is_little or not losses:
        return (
            f"little to gain here: without any gap it would take {_share(whole, time)} less; "
            "faster kernels are what helps (taupy kernels)"
        )
    first, *others = losses
    text = f"at most {_part(first, time)} to gain from {first.name}: {first.advice}"
    if others and others[0].ns >= _SECOND * first.ns:
        second = others[0]
        text += f"; {_part(second, time)} from {second.name}: {second.advice}"
    return text


def _part(loss: Loss, time: GpuTime) -> str:
    text = f"{percent(100 * loss.share(time))} %"
    return f"{text} of {loss.step}" if loss.step else text


def _without_work(time: GpuTime) -> Iterator[Loss]:
    """Of a lone step, what the host did before the GPU's first work, and after its last one: a
    model whose inputs take longer than its kernels has a GPU that is always busy, for a while."""
    step = time.paths[0] if len(time.paths) == 1 and time.host == "slices" else None
    if step is None or not step.step:
        return
    ns = step.measured_ns - time.span_ns
    if ns >= LEAST * step.measured_ns:
        yield Loss(
            WITHOUT_WORK, ns,
            "nothing was launched yet, or any more: prepare inputs faster, or for one step while "
            "the GPU works for another (taupy kernels --critical-path)",
            step=step.step, step_ns=step.measured_ns,
        )  # fmt: skip


def lost(time: GpuTime) -> list[Loss]:
    """What the time without computing went to, the longest first."""
    losses = [
        Loss("communication", time.communication_ns,
             "nothing computes meanwhile: overlap it with kernels (buckets, another stream), or "
             "communicate less"),
        Loss("copies", time.copies_ns,
             "no kernel runs meanwhile: copy less, or beside kernels (pinned memory, another "
             "stream)"),
        Loss("waits for an event", time.unproven_ns,
             "the GPU may have worked for another process, so trace what it waited for, too: all "
             "processes, or a longer time"),
        Loss("waits for another GPU", time.of("waits for an event") - time.unproven_ns,
             "let that one begin earlier, or this one do other work meanwhile"),
    ]  # fmt: skip
    for name, (causes, advice) in _OF_CAUSES.items():
        parts = [part for part in time.idle if part.cause in causes]
        whole = sum(part.ns for part in parts)
        mostly = (most(part) for part in parts if part.places and 2 * part.places[0][1] > whole)
        losses.append(Loss(name, whole, advice, next((text for text in mostly if text), "")))
    of_host = max((loss.ns for loss in losses if loss.name == "the host"), default=0)
    losses += (loss for loss in _without_work(time) if loss.ns > of_host)
    return sorted((loss for loss in losses if loss.ns > 0), key=lambda loss: -loss.ns)


def _share(ns: int, time: GpuTime) -> str:
    return f"{percent(100 * ns / time.span_ns)} %" if time.span_ns else "0 %"
