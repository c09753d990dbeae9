"""Drawings and pages that others share: plots, self-contained HTML."""
