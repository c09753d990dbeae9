"""The tables of an open database by sqlite-utils, for migrations and small writes.

Creating, filling and reading a database do without it: importing it takes as long as a question.
"""

from __future__ import annotations

import sys

from taupy.errors import DatabaseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any


def by_sqlite_utils(connection: sqlite3.Connection) -> Any:
    """A `sqlite_utils.Database` over a connection whose transactions stay ours.

    It is imported without pandas and NumPy, which would take 1 s.

    Raises:
        DatabaseError: it cannot be imported.
    """
    kept_out = [name for name in ("pandas", "numpy") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(kept_out))  # type: ignore[arg-type]
    try:
        import sqlite_utils
    except ImportError as error:
        raise DatabaseError(
            f"sqlite-utils cannot be imported ({error}), so the database cannot be changed; "
            "install it with: pip install 'sqlite-utils>=3.38,<3.39'"
        ) from error
    finally:
        for name in kept_out:
            del sys.modules[name]
    held: Any = _Held(connection)
    return sqlite_utils.Database(held, recursive_triggers=False, execute_plugins=False)


class _Held:
    """A connection whose `with` block ends no transaction, as sqlite-utils would before 4."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __enter__(self) -> _Held:
        return self

    def __exit__(self, *_: object) -> None:
        pass
