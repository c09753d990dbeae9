"""Synthetic bearing-vibration windows with light augmentation."""
import numpy as np
import torch
from torch.utils.data import Dataset

CLASSES = ("healthy", "inner-race", "outer-race", "ball")
RATES = (0.0, 0.11, 0.073, 0.19)


class VibrationWindows(Dataset):
    def __init__(self, count, length=256, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(CLASSES), count)
        self.phases = rng.uniform(0, 2 * np.pi, count)
        self.seeds = rng.integers(0, 2**31, count)
        self.length = length

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        rng = np.random.default_rng(self.seeds[index])
        label = int(self.labels[index])
        t = np.arange(self.length)
        wave = np.sin(0.3 * t + self.phases[index])
        wave = wave + 0.8 * np.sin(2 * np.pi * RATES[label] * t) * (label > 0)
        wave = wave + rng.normal(0, 1.2, self.length)
        spectrum = np.abs(np.fft.rfft(wave * np.hanning(self.length)))
        features = np.log1p(spectrum).astype(np.float32)
        return torch.from_numpy(features), label
