"""The address of a store: postgresql://USER@HOST/DATABASE, as libpq reads it."""

from __future__ import annotations

from taupy.errors import UsageError

_SCHEMES = ("postgresql://", "postgres://")


def is_address(text: str) -> bool:
    """Whether this names a store rather than a file."""
    return text.startswith(_SCHEMES)


def checked(address: str) -> str:
    """Return the address if it is valid.

    Raises:
        UsageError: it is not the address of a store, or contains a password.
    """
    import re
    from urllib.parse import urlsplit

    if not is_address(address):
        raise UsageError(
            f"'{address}' is not the address of a store; write postgresql://USER@HOST/DATABASE"
        )
    try:
        parts = urlsplit(address)
        secret = parts.password or re.search(r"[?&](ssl)?password=", address)
    except ValueError as error:
        raise UsageError(f"the address of the store cannot be read: {error}") from error
    if secret:
        raise UsageError(
            "the address of a store must not contain a password, since others see it in the list "
            "of processes; put it into ~/.pgpass, or a file that PGPASSFILE names"
        )
    return address
