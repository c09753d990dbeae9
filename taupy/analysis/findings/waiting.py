"""How long threads run without waiting in routines of the standard library.

Of nested waits, only the outermost counts, so results do not depend on the version of Python.
"""

from __future__ import annotations

from taupy.analysis.findings.calls import Sum
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import is_wait
from taupy.dataclass import NamedTuple
from taupy.model.rows import ThreadRow


class Life(NamedTuple):
    """A thread: its lifetime, the part of it without waits, and its CPU time.

    Attributes:
        cpu_ns: None if unknown.
    """

    thread: ThreadRow
    whole_ns: float
    working_ns: float
    cpu_ns: float | None


def lives(trial: Trial) -> list[Life]:
    """The host's threads; the main thread of node 0 first."""
    calls = trial.calls
    waits = calls.by_thread(calls.outermost(is_wait))
    return sorted(
        Life(thread, whole, whole - waits.get(thread, Sum()).ns, trial.cpu_ns.get(thread))
        for thread, whole in calls.life_ns().items()
    )
