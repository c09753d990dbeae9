"""Handwritten digits for the examples: 1797 real images of 8 x 8 pixels.

`digits.csv.gz` is the test part of UCI's optical recognition set (E. Alpaydin and C. Kaynak, 1998,
CC BY 4.0), as scikit-learn has it: an image and its label a line, so nothing is downloaded.
Every fifth image is kept for testing. A missing package ends the program in one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

try:
    import numpy as np
except ImportError as missing:
    sys.exit(
        f"{os.path.basename(sys.argv[0])}: {missing.name} is missing; "
        "install it with: pip install numpy"
    )

CLASSES = 10
PIXELS = 64
TEST_EVERY = 5


class Digits(NamedTuple):
    """Images are float32 in 0..1, one row of 64 pixels each; labels are 0..9."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load() -> Digits:
    rows = np.loadtxt(os.path.join(os.path.dirname(__file__), "digits.csv.gz"), delimiter=",")
    images, labels = (rows[:, :-1] / 16).astype(np.float32), rows[:, -1].astype(int)
    test = np.arange(len(images)) % TEST_EVERY == 0
    return Digits(images[~test], labels[~test], images[test], labels[test])


def batches(
    images: np.ndarray, labels: np.ndarray, size: int, random: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of all images in random order; the last may have fewer than `size`."""
    order = random.permutation(len(images))
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        yield images[chosen], labels[chosen]


def accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    return float((predicted == labels).mean())
