"""Where a Python of another version has its fields, so that this taupy can look at it.

From 3.13 on it says so itself at the beginning of `_PyRuntime` (`_Py_DebugOffsets`). Only fields of
the interpreter, its threads, frames and code objects are taken from there; texts lie as in all
versions from 3.12 on, all else as in this Python. 3.11 and 3.12 have them where their headers put
them. What is read is not trusted: the core checks all offsets (`_native/remote.c`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_MAGIC = b"xdebugpy"
_HEAD = Struct("<8sQQ")
_INTERPRETER = (
    *("size", "id", "next", "threads_head", "gc", "imports_modules", "sysdict", "builtins"),
    *("ceval_gil", "gil", "gil_enabled", "gil_locked", "gil_holder"),
)
_THREAD = (
    *("size", "prev", "next", "interp", "current_frame", "thread_id", "native_thread_id"),
    *("datastack_chunk", "status"),
)
_FRAME = ("size", "previous", "executable", "instr_ptr", "localsplus", "owner")
_CODE = (
    *("size", "filename", "name", "qualname", "linetable", "firstlineno", "argcount"),
    *("localsplusnames", "localspluskinds", "co_code_adaptive"),
)
_RUNTIME = ("size", "finalizing", "interpreters_head")
_INTERPRETER_14 = (
    *_INTERPRETER[:4], "threads_main", *_INTERPRETER[4:], "code_generation", "tlbc_generation",
)  # fmt: skip
_FRAME_14 = (*_FRAME, "stackpointer", "tlbc_index")
_THREAD_15 = (
    *_THREAD[:5], "base_frame", "last_profiled_frame", "last_profiled_frame_seq", *_THREAD[5:],
    "holds_gil", "gil_requested", "current_exception", "exc_state", "exc_value",
)  # fmt: skip
_STRUCTURES = {
    13: (_RUNTIME, _INTERPRETER, _THREAD, _FRAME, _CODE),
    14: (_RUNTIME, _INTERPRETER_14, _THREAD, _FRAME_14, _CODE),
    15: (_RUNTIME, _INTERPRETER_14, _THREAD_15, _FRAME_14, _CODE),
}
"""By minor version: the structures in the order of the offsets, with their fields."""

COMPILED = {
    11: (
        (
            *(0, 0, 0, 208, 160, 296, 56, 1, 8, 32, 56, 48, 69, 72, 0, 8, 16, 112, 128, 136, 72),
            *(184, 32, 16, 32, 48, 72, 2, 32, 64),
        ),
        *(48, 16, 8, 360, 0),
    ),
    12: (
        (
            *(0, 0, 0, 208, 144, 232, 56, 1, 0, 0, 56, 8, 70, 72, 3, 8, 16, 112, 128, 136, 68),
            *(192, 32, 16, 32, 40, 56, 2, 32, 64),
        ),
        *(48, 72, 8, 0, 384),
    ),
}
"""What `engine.interpreter_layout` says of minor versions that do not say it themselves."""

READABLE = (*COMPILED, *_STRUCTURES)
"""Minor versions that any taupy can look at."""

_OWNED_BY_INTERPRETER = 3
_TEXTS = {23: 16, 24: 32, 25: 40, 26: 56, 27: 2, 28: 32, 29: 64}
"""Length, state and sizes of a text, and the bits of its state; 3.11 had a field more."""

_INTERPRETERS_AT_MOST = 1000


class Offsets(NamedTuple):
    """What is taken from there.

    Attributes:
        interpreter: address of the main interpreter.
        threads: of the pointer to its first thread.
        next: in a thread, that of the pointer to the next one.
        gil: address of its lock.
        layout: values of `RemoteLayout`, by position.
    """

    interpreter: int
    threads: int
    next: int
    gil: int
    layout: dict[int, int]


def is_free_threaded(runtime: int, read: Callable[[int, int], bytes]) -> bool:
    """Whether a Python from 3.13 on says that it is such a build."""
    magic, _, is_so = _HEAD.unpack(read(runtime, _HEAD.size))
    return magic == _MAGIC and bool(is_so)


def offsets(
    runtime: int, minor: int, read: Callable[[int, int], bytes], word: Callable[[int], int]
) -> Offsets | None:
    """None: it says nothing that is known, or is a free-threaded build.

    Args:
        runtime: address of `_PyRuntime`.
        read: reads bytes at an address.
        word: reads a number of eight bytes.
    """
    structures = _STRUCTURES.get(minor)
    if structures is None:
        return None
    numbers = Struct(f"<{sum(map(len, structures))}Q")
    magic, version, is_free_threaded = _HEAD.unpack(read(runtime, _HEAD.size))
    if magic != _MAGIC or version >> 16 != 0x300 | minor or is_free_threaded:
        return None
    values = iter(numbers.unpack(read(runtime + _HEAD.size, numbers.size)))
    of_runtime, interpreter, thread, frame, code = (
        {name: next(values) for name in names} for names in structures
    )
    main = word(runtime + of_runtime["interpreters_head"])
    for _ in range(_INTERPRETERS_AT_MOST):
        if not main or word(main + interpreter["id"]) == 0:
            break
        main = word(main + interpreter["next"])
    layout = {
        4: thread["native_thread_id"], 5: thread["datastack_chunk"], 6: thread["current_frame"],
        7: 0, 8: 0,
        9: frame["executable"], 10: frame["instr_ptr"], 11: frame["previous"], 12: frame["owner"],
        13: frame["localsplus"], 14: _OWNED_BY_INTERPRETER,
        17: code["filename"], 18: code["qualname"], 19: code["linetable"],
        20: code["firstlineno"], 21: code["co_code_adaptive"], **_TEXTS,
    }  # fmt: skip
    gil = word(main + interpreter["ceval_gil"]) if main else 0
    return Offsets(main, interpreter["threads_head"], thread["next"], gil, layout)
