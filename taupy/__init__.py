"""taupy: exact profiles of Python and CUDA programs, kept in one SQLite file."""

from __future__ import annotations

__version__ = "0.1.0"
