"""The fixtures of the tests that run programs."""

from tests.integration.conftest import engine, native, runs

__all__ = ["engine", "native", "runs"]
