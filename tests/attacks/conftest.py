"""Fixtures of the tests that run programs, and of those of stores."""

from tests.integration.conftest import engine, native, runs
from tests.store.conftest import address, new_address, own_cache, place, running, server

__all__ = [
    "address",
    "engine",
    "native",
    "new_address",
    "own_cache",
    "place",
    "running",
    "runs",
    "server",
]
