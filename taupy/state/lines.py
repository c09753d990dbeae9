"""Two files of a run folder with the watch's looks at the lines that threads are in.

`watch.lines` begins with a record about all looks, followed by one for each combination of process,
thread, innermost place, innermost place of the program's own code, and state, with the number of
looks and the time that they stand for. `watch.codes` has the code objects to which these places
refer, with their tables of lines: an instruction becomes a line when the run is recorded. No values
of variables, and no source text. Where processes look at themselves (`_native/line_looks.h`), each
has files of its own, named as its part. Only `struct` is imported, so that the watch stays small.
"""

from _struct import Struct

from taupy.state.folder import Folder
from taupy.state.limits import RECORD_BYTES
from taupy.state.values import Damaged, check_numbers
from taupy.state.watch_files import LINE_SUFFIXES, LINES, OF_LINES

STATES = ("cpu", "gil", "lock", "wait", "disk", "runnable", "active")
"""What a thread does: it is on a processor, waits for the GIL, for a lock, for something else that
it has asked the kernel for, for a disk, or for a processor; or it is on one or waits for one, and
it is not known which."""
CPU, GIL, LOCK, WAIT, DISK, RUNNABLE, ACTIVE = range(len(STATES))

READY = ("cpu", "runnable", "active")
"""States in which nothing but other programs keeps it from computing."""

NO_CODE = -1
"""In place of the own code: no frame is the program's."""

ADDED_UP = (1 << 32) - 1
"""In the place of a thread's number: several threads that have ended."""

_MAGIC = b"TAUPYLI2"
_HEAD = Struct("<8s6q3di4x")
_ROW = Struct("<qQIIiiiiqqd")
_CODE = Struct("<IIiII")
HEAD_BYTES, ROW_BYTES = _HEAD.size, _ROW.size
ROWS_AT_MOST = (1 << 14) - 1
CODES_AT_MOST = 1 << 13
CODE_BYTES_AT_MOST = RECORD_BYTES


class Head:
    """About all looks.

    Attributes:
        looks: that codes_read a place.
        torn: what they read did not fit together.
        moved: during which the thread went on.
        left_out: looks for which there was no room any more.
        imports: looks in imports, which are no line's.
        cpu_ns: what looking took the watch, or the processes themselves.
        pairs: over all pairs of looks of one tick at two threads in the same routine of the
            program, the products of the times that they stand for [ns2].
        alike: likewise, those at the same place.
        paired: of looks in such pairs, the squares of their times [ns2].
        refused: errno if reading was not permitted; 0.
        is_inside: the processes looked at themselves; not written.
    """

    __slots__ = (
        "alike", "cpu_ns", "imports", "is_inside", "left_out", "looks", "moved", "paired", "pairs",
        "refused", "torn",
    )  # fmt: skip

    def __init__(self) -> None:
        self.looks = self.torn = self.moved = self.left_out = self.imports = self.cpu_ns = 0
        self.pairs = self.alike = self.paired = 0.0
        self.refused = 0
        self.is_inside = False

    def add(self, other: "Head") -> None:
        self.looks += other.looks
        self.torn += other.torn
        self.moved += other.moved
        self.left_out += other.left_out
        self.imports += other.imports
        self.cpu_ns += other.cpu_ns
        self.pairs += other.pairs
        self.alike += other.alike
        self.paired += other.paired
        self.refused = self.refused or other.refused

    def packed(self) -> bytes:
        return _HEAD.pack(
            _MAGIC, self.looks, self.torn, self.moved, self.left_out, self.imports, self.cpu_ns,
            self.pairs, self.alike, self.paired, self.refused,
        )  # fmt: skip


class Row:
    """The looks at one thread in one place and state.

    Attributes:
        ticks: distinguishes the part from others of the process; contained in the part's name.
        thread: its number in the part, or `ADDED_UP`.
        inner, own: numbers of code objects, and the instructions in bytes of code. `own` is the
            innermost place of the program, `NO_CODE` if there is none.
        state: one of the positions in `STATES`.
        time_ns, squares: of the times since the previous look at the thread, their sum, and the
            sum of their squares [ns2].
    """

    __slots__ = ("inner", "looks", "own", "pid", "squares", "state", "thread", "ticks", "time_ns")

    def __init__(
        self,
        pid: int,
        ticks: int,
        thread: int,
        state: int,
        inner: tuple[int, int],
        own: tuple[int, int],
    ) -> None:
        self.pid = pid
        self.ticks = ticks
        self.thread = thread
        self.state = state
        self.inner = inner
        self.own = own
        self.looks = self.time_ns = 0
        self.squares = 0.0

    def packed(self) -> bytes:
        return _ROW.pack(
            self.pid, self.ticks, self.thread, self.state, *self.inner, *self.own, self.looks,
            self.time_ns, self.squares,
        )  # fmt: skip


class Code:
    """A code object.

    Attributes:
        lines: its table of lines, as in `co_linetable`.
    """

    __slots__ = ("file", "first_line", "lines", "name")

    def __init__(self, file: str, name: str, first_line: int, lines: bytes) -> None:
        self.file = file
        self.name = name
        self.first_line = first_line
        self.lines = lines

    def packed(self) -> bytes:
        file, name = (text.encode("utf-8", "backslashreplace") for text in (self.file, self.name))
        head = _CODE.pack(len(file), len(name), self.first_line, len(self.lines), 0)
        return b"".join((head, file, name, self.lines))


def read(folder: Folder) -> tuple[Head, list[Row], list[Code]] | None:
    """All looks, and the code objects by number; None if nobody has looked.

    Raises:
        Damaged: a file is damaged.
        OSError: it is not trusted, or cannot be read.
    """
    looks = _read(folder, *OF_LINES)
    for file in folder.files(LINE_SUFFIXES[0]):
        name = file.name.removesuffix(LINE_SUFFIXES[0])
        own = [name + end for end in LINE_SUFFIXES]
        if file.name == LINES or (more := _read(folder, *own)) is None:
            continue
        if looks is None:
            looks = Head(), [], []
        head, rows, codes = looks
        head.is_inside = True
        head.add(more[0])
        for row in more[1]:
            row.inner = row.inner[0] + len(codes), row.inner[1]
            if row.own[0] != NO_CODE:
                row.own = row.own[0] + len(codes), row.own[1]
        rows += more[1]
        codes += more[2]
    return looks


def _read(folder: Folder, *names: str) -> tuple[Head, list[Row], list[Code]] | None:
    try:
        data, codes = ((folder / name).read_record() for name in names)
    except FileNotFoundError:
        return None
    if len(data) < HEAD_BYTES:
        return None
    magic, *numbers = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise Damaged(f"{names[0]} is damaged: it does not begin as such a file does")
    check_numbers(names[0], *numbers[:6], numbers[9])
    if not all(0 <= number < float("inf") for number in numbers[6:9]):
        raise Damaged(f"{names[0]} is damaged: impossible numbers")
    head = Head()
    head.looks, head.torn, head.moved, head.left_out, head.imports, head.cpu_ns = numbers[:6]
    head.pairs, head.alike, head.paired, head.refused = numbers[6:]
    of_codes = _codes(codes)
    whole = HEAD_BYTES + (len(data) - HEAD_BYTES) // ROW_BYTES * ROW_BYTES
    return head, [_row(record, len(of_codes)) for record in _rows(data[:whole])], of_codes


def _rows(data: bytes) -> "list[tuple[int, ...]]":
    return list(_ROW.iter_unpack(data[HEAD_BYTES:]))


def _row(record: "tuple[int, ...]", codes: int) -> Row:
    pid, ticks, thread, state, inner, inner_at, own, own_at, looks, time_ns, squares = record
    check_numbers(LINES, looks, time_ns)
    if state >= len(STATES) or not 0 <= inner < codes or not NO_CODE <= own < codes:
        raise Damaged(f"{LINES} is damaged: a row refers to what is not there")
    if not 0 <= squares < float("inf"):
        raise Damaged(f"{LINES} is damaged: impossible numbers")
    row = Row(pid, ticks, thread, state, (inner, inner_at), (own, own_at))
    row.looks, row.time_ns, row.squares = looks, time_ns, squares
    return row


def _codes(data: bytes) -> list[Code]:
    """The complete code objects of a file that may be cut off."""
    codes_read, at = [], 0
    while at + _CODE.size <= len(data):
        file, name, first_line, lines, _ = _CODE.unpack_from(data, at)
        at += _CODE.size
        if at + file + name + lines > len(data):
            break
        texts = data[at : at + file], data[at + file : at + file + name]
        at += file + name
        shown = [text.decode("utf-8", "replace") for text in texts]
        codes_read.append(Code(shown[0], shown[1], first_line, data[at : at + lines]))
        at += lines
    return codes_read
