"""How quantities are printed. Nobody else formats numbers."""

from __future__ import annotations
