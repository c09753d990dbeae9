"""Whether a trial's evidence is complete: rules give no verdict on partial evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taupy.analysis.findings.trial import Trial

HEALTH = "taupy.health."

_HOST = ("lost", "running", "callpaths", "include", "throttled", "children_unmeasured",
         "children_awaited", "profile_hook", "timers")  # fmt: skip
"""Remarks that make the host's times incomplete or uncertain."""

_GPU = ("gpu",)
_COUNTED = "taupy.counters.gpu"
_NO_LOSS = ("gpu_backend",)


def partial(trial: Trial, needs: Sequence[str]) -> str:
    """Why this evidence is incomplete; "" if it is complete. GPU evidence that is missing
    altogether gives "", too. A rule that needs the "clock" compares times of host and GPU."""
    if "clock" in needs and is_counted(trial):
        return "kernels were counted, one at a time and some again, which changes when they run"
    if "host" in needs and not len(trial.calls):
        return "the trial has no call tree of a host thread"
    for name, remark in remarks(trial.metadata).items():
        if "host" in needs and name in _HOST:
            return f"{name}: {remark}"
        if "gpu" in needs and name.startswith(_GPU) and name not in _NO_LOSS:
            return f"{name}: {remark}"
    return ""


def is_counted(trial: Trial) -> bool:
    """Whether kernels were counted one by one."""
    return any(name.startswith(_COUNTED) for name in trial.metadata)


def remarks(metadata: Mapping[str, str]) -> dict[str, str]:
    """The trial's remarks about its own measurement, by name."""
    return {
        name.removeprefix(HEALTH): text
        for name, text in metadata.items()
        if name.startswith(HEALTH)
    }
