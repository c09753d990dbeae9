"""The threads of a part and their open call paths, read while the process writes the file.

Blocks are found one after another (`_native/part.h`), and each is examined only once, as a thread's
block never moves. The first bytes of a thread (`_native/calltree.h`) have its open call path: its
cursor or, if that node is hidden, the parent. Where memory of threads that have ended is used again
(`_native/thread_rows.h`), a call path is not known by its address, but by a hash of its routines.
They also have the address of the interpreter's
state of the thread; a block tells where that has its fields (`_native/remote.h`), and how many
threads have begun. How much of each
GPU's memory PyTorch's allocator holds is read from the same file (`_native/allocator.h`).
"""

import posix
from _struct import Struct

from taupy.state.limits import PART_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = Struct("<8sIIQQQ")  # magic, version, header's size, chunks, used, mapped
_BLOCK = Struct("<IIQQ")
_BLOCK_BYTES, _THREAD, _ALLOCATOR, _INTERPRETER = 64, 2, 9, 17
_OF_BLOCK = 16
"""Where a block's own values are: of the interpreter's, how many threads have begun."""
_MAGIC = b"TAUPYPRT"
_HIDDEN_PARENT, _CURSOR = 128 + 8, 256
_PARENT = Struct("<Q")
_STATE = Struct("<5Q96xQQ")
"""Of a thread: cursor, hide, index, native id, ticks of its end; interpreter's state, whether its
memory is used for no other thread."""
_CHUNKS_AT = 304
_CHUNK = Struct("<QQ")
_NODE = Struct("<QQ")  # key, parent
_NODE_PAGE = 4096
_DEEPEST = 1000
_MULTIPLIER, _WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1
HASHED = 1 << 63
"""Set in what stands for an address and is a hash."""
_LAYOUT = Struct("<30Q")
_GIL = 2  # where its address is among them; its size follows
_HELD = Struct("<4Q")
_AT_ONCE = 1 << 14


def identity(name: str) -> tuple[int, int]:
    """The process id and the number in the name of a part's file.

    Raises:
        ValueError: it is not the name of one.
    """
    pid, _, number = name.partition(".")[0].partition("-")
    return int(pid), int(number or "0", 16)


def path_hash(above: int, key: int) -> int:
    """The hash of a call path, from that of its caller (the root's is 0) and its routine's key."""
    return (above * _MULTIPLIER + (key & ~4)) & _WORD


class PartThreads:
    """The threads of one part; none are known for a part of the plain-Python engine.

    Args:
        name: of its file, PID-TICKS.part or PID-NUMBER.pypart.
        folder: descriptor of the run folder.
    """

    def __init__(self, name: str, folder: int) -> None:
        self.name = name
        self.folder = folder
        self.pid, self.ticks = identity(name)
        self.at = 0  # where the next block begins
        self.threads: list[int] = []  # where their structures begin in the file
        self.allocators: dict[int, int] = {}  # by GPU, the same
        self.held: dict[
            int, tuple[int, ...]
        ] = {}  # by GPU: allocated, reserved, their peaks [byte]
        self.states: dict[int, tuple[int, int]] = {}  # by thread id: its number, its state
        self.layout = b""  # of the interpreter's structures; empty: unknown
        self.lock = (0, 0)  # where the GIL begins and ends
        self.begun_at = 0  # where the number of threads that have begun is
        self.begun = b""  # that number, when they were found last
        self.numbers: dict[int, int] = {}  # by place in the file: the thread whose memory it is
        self.looked: set[int] = set()  # thread ids at the last look
        # Threads whose memory has become another one's, for each of those who ask.
        self.added_up: tuple[list[int], list[int]] = ([], [])
        self.chunks: list[tuple[int, int]] = []  # address and place of each chunk, the last first
        self.pages: dict[int, bytes] = {}

    def open_paths(self) -> "Iterator[tuple[int, int, int]]":
        """(thread id, address of the call path, 0) of each thread still running; or, if its memory
        may become another one's, the hash of the call path with `HASHED`, and its number + 1.
        Updates `held`, `states` and `added_up`.

        Raises:
            OSError: the part is gone.
        """
        if not self.name.endswith(".part"):
            return
        file = self.open()
        try:
            living = self._living(file)
            for device, at in self.allocators.items():
                self.held[device] = _HELD.unpack(posix.pread(file, _HELD.size, at))
            for native_id, address, owner in living:
                yield native_id, self._hash(file, address) if owner else address, owner
        finally:
            posix.close(file)

    def find_new(self, file: int) -> bool:
        """Whether threads have begun since they were found last; then `states` has them."""
        has_new = posix.pread(file, 8, self.begun_at) != self.begun
        if has_new:
            self._living(file)
        return has_new

    def open(self) -> int:
        return posix.open(self.name, posix.O_RDONLY | posix.O_NOFOLLOW, dir_fd=self.folder)

    def _living(self, file: int) -> "list[tuple[int, int, int]]":
        """(thread id, address of the call path; 0, or its number + 1 if its memory may become
        another one's) of each thread still running."""
        self.begun = posix.pread(file, 8, self.begun_at)
        self._find(file)
        living = []
        self.states = {}
        for at in self.threads.copy():
            data = posix.pread(file, _CURSOR + _STATE.size, at)
            if len(data) < _CURSOR + _STATE.size:
                continue
            cursor, hide, index, native_id, ended, state, stays = _STATE.unpack_from(data, _CURSOR)
            if (earlier := self.numbers.setdefault(at, index)) != index and not ended:
                for numbers in self.added_up:
                    numbers.append(earlier)
                self.numbers[at] = index
            if ended:
                if stays:
                    self.threads.remove(at)
                    self.numbers.pop(at)
            elif native_id and cursor:
                if state:
                    self.states[native_id] = index, state
                address = _PARENT.unpack_from(data, _HIDDEN_PARENT)[0] if hide else cursor
                living.append((native_id, address, 0 if stays else index + 1))
        return living

    def _hash(self, file: int, address: int) -> int:
        """The hash of a call path; 0 if its nodes do not fit together, since they change."""
        keys: list[int] = []
        while len(keys) < _DEEPEST:
            place = next((at + address - of for of, at in self.chunks if of <= address), 0)
            page = place // _NODE_PAGE * _NODE_PAGE
            if page not in self.pages:
                self.pages[page] = posix.pread(file, _NODE_PAGE, page)
            if place % 64 or place - page + _NODE.size > len(self.pages[page]):
                return 0
            key, address = _NODE.unpack_from(self.pages[page], place - page)
            if not address:
                break
            keys.append(key)
        hashed = 0
        for key in reversed(keys):
            hashed = path_hash(hashed, key)
        return hashed | HASHED

    def _find(self, file: int) -> None:
        """Find new blocks."""
        head = posix.pread(file, _HEAD.size, 0)
        if len(head) < _HEAD.size:
            return
        magic, version, size, count, used, _ = _HEAD.unpack(head)
        if (magic, version) != (_MAGIC, PART_VERSION):
            return
        self.pages.clear()
        if count != len(self.chunks):
            table = posix.pread(file, count * _CHUNK.size, _CHUNKS_AT)
            whole = table[: len(table) // _CHUNK.size * _CHUNK.size]
            chunks = [(address, at & ~1) for address, at in _CHUNK.iter_unpack(whole)]
            self.chunks = sorted(chunks, reverse=True)
        self.at = self.at or size
        data, begin = b"", 0
        while self.at + _BLOCK_BYTES <= used:
            if self.at + _BLOCK.size > begin + len(data):
                data, begin = posix.pread(file, _AT_ONCE, self.at), self.at
            if len(data) - (self.at - begin) < _BLOCK.size:
                return
            kind, number, size, is_native = _BLOCK.unpack_from(data, self.at - begin)
            if size < _BLOCK_BYTES:
                return  # the chunk is in memory only
            if kind == _THREAD and not is_native:
                self.threads.append(self.at + _BLOCK_BYTES)
            elif kind == _ALLOCATOR:
                self.allocators[number] = self.at + _BLOCK_BYTES
            elif kind == _INTERPRETER:
                self.begun_at = self.at + _OF_BLOCK
                self._take_layout(posix.pread(file, _LAYOUT.size, self.at + _BLOCK_BYTES))
            self.at += size

    def _take_layout(self, data: bytes) -> None:
        if len(data) == _LAYOUT.size and (numbers := _LAYOUT.unpack(data))[0]:
            self.layout = data
            self.lock = numbers[_GIL], numbers[_GIL] + min(numbers[_GIL + 1], _BLOCK_BYTES**2)
