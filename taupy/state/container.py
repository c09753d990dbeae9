"""Read a container: a file of blocks that a process of the program had mapped into memory.

The layout is that of `_native/part.h`: a header, a table of chunks, and consecutive blocks. The
engine's part and the GPU's part are containers with different kinds of blocks. A chunk that was in
memory only is marked in the table. The file may be truncated at any byte or maliciously crafted:
every size and offset is checked here, once, so that the payload of a block has at least the size
that its kind requires.
"""

from __future__ import annotations

from _bisect import bisect_right
from _struct import Struct
from collections.abc import Mapping
from itertools import pairwise

from taupy.dataclass import NamedTuple, dataclass
from taupy.errors import FormatError
from taupy.state.limits import CHUNKS

_HEADER = Struct("<8s2I3Q2q2QqQQ3Q3qq2q5qq11Q")
_CHUNK = Struct("<QQ")
_BLOCK = Struct("<IIQ6Q")
BLOCK_BYTES = _BLOCK.size  # of a block's header
ALIGN = 64
_IN_MEMORY = 1  # in a chunk's offset: the chunk is in memory only


class Header(NamedTuple):
    """Facts about the container's process. Ticks are the engine's clock, times nanoseconds."""

    magic: bytes
    version: int
    header_size: int
    chunk_count: int
    used: int
    mapped: int
    pid: int
    parent_pid: int
    process_start: int
    state: int
    exit_status: int
    has_exit_status: int
    uses_tsc: int
    early_ticks: int
    start_ticks: int
    end_ticks: int
    early_ns: int
    start_ns: int
    end_ns: int
    start_epoch_ns: int
    cpu_user_ns: int
    cpu_system_ns: int
    peak_resident_kib: int
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    node: int
    forked: int
    repairs: int
    unmatched: int
    overlaps: int
    calls_over_limit: int
    helper: int
    greenlets: int
    last_ticks: int
    greenlets_untraced: int
    profile_taken: int
    metric_count: int


HEADER_BYTES = _HEADER.size
"""The number of bytes that `header` needs."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What distinguishes one kind of container from another.

    Attributes:
        title: for messages, such as "part of a run".
        least: minimum size of a block's payload, by the block's kind.
    """

    magic: bytes
    version: int
    title: str
    least: Mapping[int, int]


class Block(NamedTuple):
    """A whole block; its payload is `data[start:end]`, `words` are in its own header."""

    kind: int
    thread: int
    start: int
    end: int
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """A container whose blocks can be read.

    Attributes:
        chunk_addresses: addresses of the chunks in the process, in the order of the file.
        lost_bytes: bytes that were in use but are not in the file.
    """

    name: str
    data: bytes
    header: Header
    chunk_addresses: list[int]
    chunk_offsets: list[int]
    blocks: list[Block]
    lost_bytes: int

    def address_of(self, offset: int) -> int:
        """The address in the process of a byte of the file."""
        at = bisect_right(self.chunk_offsets, offset) - 1
        return self.chunk_addresses[at] + offset - self.chunk_offsets[at]

    def texts(self, at: int, end: int, *sizes: int) -> list[str]:
        """Consecutive texts of these sizes, each with a terminating zero byte.

        Raises:
            FormatError: they do not fit before `end`.
        """
        texts = []
        for size in sizes:
            if size >= end - at:
                raise FormatError(f"{self.name} is damaged: a text at byte {at} has {size} bytes")
            texts.append(text(self.data[at : at + size]))
            at += size + 1
        return texts


def text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def header(name: str, data: bytes, layout: Layout) -> Header:
    """The header of a container.

    Raises:
        FormatError: the file is another one, or of another version.
    """
    magic = layout.magic
    if len(data) >= HEADER_BYTES and not any(data[:HEADER_BYTES]):
        raise FormatError(
            f"{name}: its beginning never reached the disk, {len(data)} bytes are lost"
        )
    if len(data) < HEADER_BYTES or data[: len(magic)] != magic:
        raise FormatError(f"{name} is no {layout.title}: it does not begin with {magic.decode()}")
    header = Header._make(_HEADER.unpack_from(data))
    if header.version != layout.version:
        raise FormatError(
            f"{name} is a {layout.title} of version {header.version}, this taupy reads version "
            f"{layout.version}"
        )
    return header


def read(name: str, data: bytes, layout: Layout) -> Container | None:
    """The blocks of a container; None if nothing was written into it.

    Raises:
        FormatError: the file is another one, of another version, or damaged.
    """
    if not any(data[:HEADER_BYTES]) and data.count(0) == len(data):
        return None
    head = header(name, data, layout)
    count = head.chunk_count
    if not 0 < count <= CHUNKS:
        raise FormatError(f"{name} is damaged: it claims {count} chunks")
    begin = head.header_size
    if begin % ALIGN or begin < HEADER_BYTES + count * _CHUNK.size or begin > len(data):
        raise FormatError(f"{name} is damaged: its header has {begin} bytes")
    table = data[HEADER_BYTES : HEADER_BYTES + count * _CHUNK.size]
    chunks = list(_CHUNK.iter_unpack(table))
    offsets = [offset & ~_IN_MEMORY for _, offset in chunks]
    missing = {at for at, (_, offset) in zip(offsets, chunks, strict=True) if offset & _IN_MEMORY}
    if 0 in missing:
        missing.add(begin)  # the offset of its first block
    if offsets[0] != 0 or any(offset >= other for offset, other in pairwise(offsets)):
        raise FormatError(f"{name} is damaged: its chunks do not follow each other")
    blocks, lost = _blocks(name, data, head, offsets, missing, layout)
    addresses = [address for address, _ in chunks]
    return Container(
        name,
        data,
        head,
        chunk_addresses=addresses,
        chunk_offsets=offsets,
        blocks=blocks,
        lost_bytes=lost,
    )


def _blocks(
    name: str,
    data: bytes,
    head: Header,
    chunk_offsets: list[int],
    missing: set[int],
    layout: Layout,
) -> tuple[list[Block], int]:
    """The complete blocks, and the number of bytes in use outside them.

    Args:
        missing: offsets of the chunks that are not in the file.
    """
    blocks: list[Block] = []
    end = min(head.used, len(data))
    lost = head.used - end
    at = head.header_size
    while at + _BLOCK.size <= end:
        kind, thread, size, *words = _BLOCK.unpack_from(data, at)
        if at in missing or size % ALIGN or size < _BLOCK.size or at + size > end:
            # A chunk that never reached the file, or a file that was cut off.
            following = bisect_right(chunk_offsets, at)
            ahead = chunk_offsets[following] if following < len(chunk_offsets) else end
            lost += min(ahead, end) - at
            at = ahead
            continue
        if size - _BLOCK.size < layout.least.get(kind, 0):
            raise FormatError(f"{name} is damaged: a block of kind {kind} has {size} bytes")
        blocks.append(Block(kind, thread, at + _BLOCK.size, at + size, tuple(words)))
        at += size
    return blocks, lost + max(0, end - at)
