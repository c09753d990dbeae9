"""A small generated corpus of product codes and phrases, as character ids."""
import random

import torch

VERBS = "ship return inspect repair label count".split()
NOUNS = "valve bracket sensor housing gasket rotor bearing".split()
PLACES = "dock shelf bay line".split()


def build_text(sentences, seed=12):
    rng = random.Random(seed)
    return " ".join(
        f"{rng.choice(VERBS)} {rng.randint(1, 40)} {rng.choice(NOUNS)}s "
        f"from {rng.choice(PLACES)} {rng.choice('ABCD')}{rng.randint(1, 9)}."
        for _ in range(sentences)
    )


def encode(text):
    alphabet = sorted(set(text))
    index = {ch: i for i, ch in enumerate(alphabet)}
    return torch.tensor([index[ch] for ch in text]), alphabet


def windows(ids, length):
    usable = (len(ids) - 1) // length * length
    return ids[:usable].view(-1, length), ids[1:usable + 1].view(-1, length)
