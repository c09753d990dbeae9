"""The program stands still while it writes checkpoints or a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from taupy.analysis.findings.calls import Meant, among, phase, place
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

KIND = "checkpoints and logging"
NEEDS = ("host",)

LEAST = 0.05
"""Of the wall clock: a checkpoint every half hour that takes a minute stays below."""

LEAST_CALLS = 3
"""A result that is written once, or an input and a result, is what the program is for."""

_LOGGER = "logging/__init__.py:"
_LOGGING = (
    *(f"{_LOGGER}Logger.{name}" for name in
      ("debug", "info", "warning", "error", "critical", "exception", "log", "handle")),
    *(f"{_LOGGER}{name}" for name in ("debug", "info", "warning", "error", "critical", "log")),
)  # fmt: skip
_NPY = ("numpy/lib/_npyio_impl.py", "numpy/lib/npyio.py")
_SAVING = (
    *(
        f"{file}:{name}"
        for file in _NPY
        for name in ("save", "savez", "savez_compressed", "savetxt")
    ),
    "json/__init__.py:dump",
    "joblib/numpy_pickle.py:dump",
    "safetensors/torch.py:save_file",
    "pandas/core/generic.py:NDFrame.to_csv",
    "pandas/core/generic.py:NDFrame.to_pickle",
)


class _Stall(NamedTuple):
    meant: Meant
    what: str
    attempt: str
    refuted_by: str


def _is_checkpoint(timer: TimerRow) -> bool:
    return _CHECKPOINTS(timer) or _SAVED(timer)


_CHECKPOINTS, _SAVED = phase("checkpoint"), among(_SAVING)
_STALLS = (
    _Stall(
        _is_checkpoint, "state is saved",
        "save less often, without compression, or in another thread or process from a copy",
        "writing these files is what the program is for",
    ),
    _Stall(
        among(_LOGGING), "the log is written",
        "log less, or at a higher level; check log.isEnabledFor before costly arguments; hand "
        "records to a thread (logging.handlers.QueueHandler)",
        "the log is what the program is for",
    ),
)  # fmt: skip


def find(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    for stall in _STALLS:
        written = calls.longest(stall.meant)
        if written.calls < LEAST_CALLS or written.ns < LEAST * trial.wall_ns:
            continue
        names = tuple(dict.fromkeys(calls.timer[row].timer for row in written.rows))
        timer = trial.caller(calls.largest(written.rows))
        yield Finding(
            KIND,
            f"{stall.what} {count(written.calls)} times in {duration(written.ns)}, "
            f"{percent(100 * written.ns / trial.wall_ns)} % of the run, most of it by "
            f"{place(timer)}",
            written.ns,
            trial.wall_ns,
            (trial.evidence(("thread", "timer"), (Condition("timer", names), HOST),
                            ("inclusive", "calls")),),
            "medium",
            stall.attempt,
            stall.refuted_by,
        )  # fmt: skip
