"""Read the shared memory of launches from the file that Triton writes beside a cached cubin."""

from __future__ import annotations

from pathlib import Path

import msgspec

_MOST_BYTES = 1 << 20


class _Notes(msgspec.Struct):
    """As Triton 2.1 to 3.9 write them; `shared` in bytes."""

    shared: int
    num_warps: int


def dynamic_shared(cubin: Path) -> int | None:
    """Shared memory in bytes per block; None if there is no such file beside the cubin."""
    file = cubin.with_suffix(".json")
    try:
        with file.open("rb") as stream:
            return msgspec.json.decode(stream.read(_MOST_BYTES), type=_Notes).shared
    except (OSError, msgspec.DecodeError):
        return None
