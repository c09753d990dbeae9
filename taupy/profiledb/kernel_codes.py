"""Store and read facts about kernels' machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from taupy.model.kernel_code import Access, Count, KernelCode, LaunchLimits, Line, Loop
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.text import storable

_COLUMNS = ("module", "name", "full_name", "chip", "file", "compiler", "registers", "shared_bytes",
            "stack_bytes", "local_bytes", "constants", "peak_live", "peak_at", "instructions",
            "blocks", "branches", "divergent", "calls", "indirect", "irreducible", "is_kernel",
            "block", "most_threads", "dynamic_shared")  # fmt: skip

_LAUNCH = _COLUMNS[-3:]

_INSERT = f"""
    INSERT INTO kernel_code ({", ".join(_COLUMNS)}) VALUES ({", ".join("?" * len(_COLUMNS))})
"""

WHOLE = "kernel_code"
"""The table with one row for each kernel of a module; `PARTS` are the tables with its details."""

_PARTS = {
    "kernel_code_count": "INSERT INTO kernel_code_count VALUES (?, ?, ?, ?, ?, ?, ?)",
    "kernel_code_access": "INSERT INTO kernel_code_access VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "kernel_code_loop": "INSERT INTO kernel_code_loop VALUES (?, ?, ?, ?, ?, ?, ?)",
    "kernel_code_line": "INSERT INTO kernel_code_line VALUES (?, ?, ?, ?, ?, ?, ?)",
}

PARTS = tuple(_PARTS)

_NAMES = "SELECT module, name, full_name, chip FROM kernel_code ORDER BY full_name, chip, module"

_ONE = f"SELECT {', '.join(_COLUMNS)} FROM kernel_code WHERE module = ? AND name = ?"

_COUNTS = """
    SELECT kind, detail, pipe, depth, number FROM kernel_code_count WHERE module = ? AND name = ?
"""
_ACCESSES = """
    SELECT what, space, bytes, pattern, stride, depth, spill, number
      FROM kernel_code_access WHERE module = ? AND name = ?
"""
_LOOPS = """
    SELECT start, depth, instructions, barriers, line
      FROM kernel_code_loop WHERE module = ? AND name = ? ORDER BY start
"""
_LINES = """
    SELECT place, depth, instructions, accesses, spills
      FROM kernel_code_line WHERE module = ? AND name = ? ORDER BY rowid
"""


def storing(db: ProfileDB, codes: Iterable[KernelCode]) -> Iterator[KernelCode]:
    """Store each kernel and pass it on.

    Everything happens in one transaction: if reading fails, or the caller stops early, nothing is
    stored. Existing records of the same kernel and module are replaced.
    """
    with db.transaction() as connection:
        for code in codes:
            _store(connection, code)
            yield code


def _store(connection: Any, code: KernelCode) -> None:
    key = (code.module, storable(code.name))
    for table in (WHOLE, *PARTS):
        connection.execute(f"DELETE FROM {table} WHERE module = ? AND name = ?", key)
    changed = {
        "constants": " ".join(f"{bank}:{size}" for bank, size in code.constants),
        "calls": "\n".join(code.calls),
        "indirect": int(code.indirect),
        "is_kernel": int(code.is_kernel),
        **code.launch._asdict(),
    }
    row = (changed[name] if name in changed else getattr(code, name) for name in _COLUMNS)
    cells = [storable(cell) if isinstance(cell, str) else cell for cell in row]
    connection.execute(_INSERT, cells)
    lines = [(storable(line.place), *line[1:]) for line in code.lines]
    rows = (code.counts, code.accesses, code.loops, lines)
    for statement, parts in zip(_PARTS.values(), rows, strict=True):
        connection.executemany(statement, [(*key, *part) for part in parts])


@of_a_sound_file
def has_any(db: ProfileDB) -> bool:
    """Whether any kernel's code is stored."""
    return bool(db.rows("SELECT 1 FROM kernel_code LIMIT 1"))


@of_a_sound_file
def stored(db: ProfileDB, matches: Callable[[str, str], bool]) -> list[KernelCode]:
    """The kernels for whose full name and chip `matches` is true."""
    rows = db.rows(_NAMES)
    return [_read(db, module, name) for module, name, full, chip in rows if matches(full, chip)]


def _read(db: ProfileDB, module: str, name: str) -> KernelCode:
    key = (module, name)
    (row,) = db.rows(_ONE, key)
    facts = dict(zip(_COLUMNS, row, strict=True))
    del facts["full_name"]
    pairs = [part.split(":") for part in facts.pop("constants").split()]
    calls = facts.pop("calls")
    launch = LaunchLimits(*(facts.pop(name) for name in _LAUNCH))
    indirect, is_kernel = bool(facts.pop("indirect")), bool(facts.pop("is_kernel"))
    return KernelCode(
        **facts,
        indirect=indirect,
        is_kernel=is_kernel,
        launch=launch,
        constants=tuple((int(bank), int(size)) for bank, size in pairs),
        calls=tuple(calls.split("\n")) if calls else (),
        counts=tuple(map(Count._make, db.rows(_COUNTS, key))),
        accesses=tuple(
            access._replace(spill=bool(access.spill))
            for access in map(Access._make, db.rows(_ACCESSES, key))
        ),
        loops=tuple(map(Loop._make, db.rows(_LOOPS, key))),
        lines=tuple(map(Line._make, db.rows(_LINES, key))),
    )
