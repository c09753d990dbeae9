"""The threads of a part and their open call paths, read while the process writes the file.

Blocks are found one after another (`_native/part.h`), and each is examined only once, as a thread's
block never moves. The first bytes of a thread (`_native/calltree.h`) have its open call path: its
cursor or, if that node is hidden, the parent. They also have the address of the interpreter's
state of the thread; a block tells where that has its fields (`_native/remote.h`). How much of each
GPU's memory PyTorch's allocator holds is read from the same file (`_native/allocator.h`).
"""

import posix
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = Struct("<8sIIQQQ")  # magic, version, header's size, chunks, used, mapped
_BLOCK = Struct("<IIQQ")
_BLOCK_BYTES, _THREAD, _ALLOCATOR, _INTERPRETER = 64, 2, 9, 17
_MAGIC, _VERSION = b"TAUPYPRT", 5
_HIDDEN_PARENT, _CURSOR = 128 + 8, 256
_PARENT = Struct("<Q")
_STATE = Struct("<5Q96xQ")  # cursor, hide, index, native id, ticks of its end; interpreter's state
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

    def open_paths(self) -> "Iterator[tuple[int, int]]":
        """(thread id, address of the call path) of each thread still running; updates `held` and
        `states`.

        Raises:
            OSError: the part is gone.
        """
        if not self.name.endswith(".part"):
            return
        file = posix.open(self.name, posix.O_RDONLY | posix.O_NOFOLLOW, dir_fd=self.folder)
        try:
            self._find(file)
            for device, at in self.allocators.items():
                self.held[device] = _HELD.unpack(posix.pread(file, _HELD.size, at))
            for at in self.threads.copy():
                data = posix.pread(file, _CURSOR + _STATE.size, at)
                if len(data) < _CURSOR + _STATE.size:
                    continue
                cursor, hide, index, native_id, ended, state = _STATE.unpack_from(data, _CURSOR)
                if ended:
                    self.threads.remove(at)
                    self.states.pop(native_id, None)
                elif native_id and cursor:
                    if state:
                        self.states[native_id] = index, state
                    (above,) = _PARENT.unpack_from(data, _HIDDEN_PARENT)
                    yield native_id, above if hide else cursor
        finally:
            posix.close(file)

    def _find(self, file: int) -> None:
        """Find new blocks."""
        head = posix.pread(file, _HEAD.size, 0)
        if len(head) < _HEAD.size:
            return
        magic, version, size, _, used, _ = _HEAD.unpack(head)
        if (magic, version) != (_MAGIC, _VERSION):
            return
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
                self._take_layout(posix.pread(file, _LAYOUT.size, self.at + _BLOCK_BYTES))
            self.at += size

    def _take_layout(self, data: bytes) -> None:
        if len(data) == _LAYOUT.size and (numbers := _LAYOUT.unpack(data))[0]:
            self.layout = data
            self.lock = numbers[_GIL], numbers[_GIL] + min(numbers[_GIL + 1], _BLOCK_BYTES**2)
