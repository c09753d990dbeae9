"""taupy: exact profiles of Python and CUDA programs, kept in one SQLite file.

In a program: `timer`, `phase`, `user_event`, `metadata` and their like (docs/api.md); they
do nothing, at no visible cost, when the program is not being profiled. For reading:
`taupy.open("taupy.db")` (docs/database.md).
"""

# No `from __future__` and no import: this runs in the measured process before the program.

__version__ = "0.1.0"

_ANNOTATIONS = (
    "disable",
    "enable",
    "metadata",
    "phase",
    "set_node",
    "snapshot",
    "timer",
    "timer_names",
    "timer_values",
    "user_event",
)

__all__ = ["__version__", "open", *_ANNOTATIONS]


def __getattr__(name: str) -> object:
    if name == "open":
        from taupy.profiledb.api import open as value
    elif name in _ANNOTATIONS:
        from taupy.instrument import annotate

        value = getattr(annotate, name)
    else:
        raise AttributeError(f"module 'taupy' has no attribute {name!r}")
    globals()[name] = value
    return value
