"""Read a part, complete or cut off: what one process measured.

Two kinds of part exist: the compiled engine's mapped file (`*.part`, a container with the
blocks of `_native/part.h`) and the plain-Python engine's snapshot (`*.pypart`, a record). Both
are decoded to a `Part` with the same columns, in nanoseconds. A part may be cut off anywhere,
damaged, or crafted by hand; any impossible content raises FormatError.
"""

from __future__ import annotations

from _struct import error as unpack_error  # type: ignore[attr-defined]
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from taupy.errors import FormatError
from taupy.record.native_part import UNKNOWN as UNKNOWN
from taupy.record.part_blocks import LAYOUT, Blocks
from taupy.record.part_check import check
from taupy.record.part_data import ENDED, EXEC, SNAPSHOT, Part
from taupy.record.small_part import NotSmall, SmallPart, is_small
from taupy.state import container
from taupy.state.container import Container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Readable(Protocol):
        """A file that may contain a part."""

        @property
        def name(self) -> str: ...

        def read_bytes(self, *, first: int = -1) -> bytes: ...


_PLAIN_SUFFIX = ".pypart"


def read_part(
    file: Readable, clock_now: tuple[int, int] | None = None, *, is_changing: bool = False
) -> Part | None:
    """Decode a part; None if nothing was recorded in it.

    Args:
        file: the part.
        clock_now: current ticks and CLOCK_MONOTONIC, if the part was made since this
            host booted: they give the length of a tick if the process was killed.
        is_changing: the process may still be writing, so the end may be missing.

    Raises:
        FormatError: the file is not a part, or damaged.
        OSError: it cannot be read, or is not trusted.
    """
    data = file.read_bytes()
    name = file.name
    with _refusing(name):
        if name.endswith(_PLAIN_SUFFIX):
            from taupy.record import plain_part

            part = plain_part.read(name, data)
        else:
            held = container.read(name, data, LAYOUT)
            part = None if held is None else _decoded(held, clock_now, is_changing)
        if part is not None:
            check(part)
    return part


def peek_process(file: Readable) -> tuple[int, int, bool, bool]:
    """(pid, start time, whether it closed the part, whether it is a helper), decoding nothing else.

    A helper is one of multiprocessing's own processes: its part is not a node of the trial.

    Raises:
        FormatError: the file is not a part.
        OSError: it cannot be read, or is not trusted.
    """
    name = file.name
    with _refusing(name):
        if name.endswith(_PLAIN_SUFFIX):
            from taupy.record import plain_part

            return plain_part.peek(name, file.read_bytes())
        head = container.header(name, file.read_bytes(first=container.HEADER_BYTES), LAYOUT)
        closed = head.state in (ENDED, EXEC, SNAPSHOT)
        return head.pid, head.process_start, closed, bool(head.helper)


def _decoded(file: Container, clock_now: tuple[int, int] | None, is_changing: bool) -> Part | None:
    blocks = Blocks.of(file)
    if is_small(file, blocks):
        with suppress(NotSmall):
            return SmallPart(file, blocks, is_changing).decode(clock_now)
        blocks = Blocks.of(file)
    from taupy.record.wide_part import WidePart

    return WidePart(file, blocks, is_changing).decode(clock_now)


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Turn errors from damage that no check anticipated into FormatError."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError, unpack_error) as problem:
        why = f"{type(problem).__name__}: {problem}"
        raise FormatError(f"{name} is damaged ({why})") from problem
