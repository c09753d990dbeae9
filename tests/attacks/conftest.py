"""The fixtures of the tests that run programs."""

from tests.integration.conftest import native, runs

__all__ = ["native", "runs"]
