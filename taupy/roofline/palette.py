"""Colours for light and dark themes, distinguishable with any colour vision.

The ten categories begin with those of Okabe and Ito (2008), darkened or lightened for contrast
with the background.
"""

from __future__ import annotations

from typing import Literal

Theme = Literal["light", "dark"]

_LEVELS = {"L1": "c3", "shared": "c8", "L2": "c0", "L3": "c2", "DRAM": "c1"}

PALETTES: dict[Theme, dict[str, str]] = {
    "light": {
        "ground": "#ffffff",
        "panel": "#f6f7f9",
        "ink": "#1c2430",
        "muted": "#6b7685",
        "grid": "#e3e7ec",
        "other": "#a3adba",
        "warn": "#b3261e",
        "c0": "#0b6fb8",
        "c1": "#d55e00",
        "c2": "#009e73",
        "c3": "#c0508f",
        "c4": "#d99a00",
        "c5": "#41a7de",
        "c6": "#7a4b2a",
        "c7": "#5e4fa2",
        "c8": "#7a981c",
        "c9": "#b2182b",
    },
    "dark": {
        "ground": "#14181f",
        "panel": "#1d232c",
        "ink": "#e8ecf1",
        "muted": "#97a3b3",
        "grid": "#2b333e",
        "other": "#626d7b",
        "warn": "#ff8a80",
        "c0": "#5aaef0",
        "c1": "#ff8a4c",
        "c2": "#3fd0a0",
        "c3": "#f08cc6",
        "c4": "#ffcf4d",
        "c5": "#9ad9ff",
        "c6": "#c99b78",
        "c7": "#b3a4f5",
        "c8": "#c3dd5b",
        "c9": "#ff7a85",
    },
}


def palette(theme: Theme) -> dict[str, str]:
    """Name of a colour in a chart -> the colour to draw; includes memory levels."""
    colors = dict(PALETTES[theme])
    for level, name in _LEVELS.items():
        colors[level] = colors[name]
    return colors
