"""taupy: exact profiles of Python and CUDA programs, kept in one SQLite file.

In a program: `timer`, `phase`, `region`, `user_event` and their like (docs/api.md); they
do nothing, at no visible cost, when the program is not being profiled. For reading:
`taupy.open("taupy.db")` (docs/database.md).
"""

# No `from __future__` and no import: this runs in the measured process before the program.

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:  # what type checkers see of the names below
    from taupy.instrument.annotate import (
        disable as disable,
    )
    from taupy.instrument.annotate import (
        enable as enable,
    )
    from taupy.instrument.annotate import (
        metadata as metadata,
    )
    from taupy.instrument.annotate import (
        phase as phase,
    )
    from taupy.instrument.annotate import (
        region as region,
    )
    from taupy.instrument.annotate import (
        set_node as set_node,
    )
    from taupy.instrument.annotate import (
        snapshot as snapshot,
    )
    from taupy.instrument.annotate import (
        step as step,
    )
    from taupy.instrument.annotate import (
        timer as timer,
    )
    from taupy.instrument.annotate import (
        timer_names as timer_names,
    )
    from taupy.instrument.annotate import (
        timer_values as timer_values,
    )
    from taupy.instrument.annotate import (
        user_event as user_event,
    )
    from taupy.magic import Profile as profile
    from taupy.magic import last as last
    from taupy.notebook import open as open

_PIECES = ("profile", "last", "load_ipython_extension")
_ANNOTATIONS = (
    "disable",
    "enable",
    "metadata",
    "phase",
    "region",
    "set_node",
    "snapshot",
    "step",
    "timer",
    "timer_names",
    "timer_values",
    "user_event",
)

__all__ = ["__version__", "last", "open", "profile", *_ANNOTATIONS]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    value: object
    if name == "open":
        from taupy.notebook import open as value
    elif name in _PIECES:
        from taupy.instrument.annotate import WholeProgram, is_measured

        if name == "profile" and is_measured():  # which stays light
            return WholeProgram
        from taupy import magic

        value = magic.Profile if name == "profile" else getattr(magic, name)
    elif name in _ANNOTATIONS:
        from taupy.instrument import annotate

        value = getattr(annotate, name)
    else:
        raise AttributeError(f"module 'taupy' has no attribute {name!r}")
    globals()[name] = value
    return value
