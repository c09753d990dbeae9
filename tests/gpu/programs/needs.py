"""What a program needs, or one line that says what is missing."""

import sys


def torch(gpu=True):
    """PyTorch, with a GPU unless none is asked for."""
    try:
        import torch
    except ImportError:
        sys.exit("PyTorch is not installed")
    if gpu and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here")
    return torch


def jax():
    """JAX, with a GPU."""
    try:
        import jax
    except ImportError:
        sys.exit("JAX is not installed")
    try:
        jax.devices("gpu")
    except RuntimeError:
        sys.exit("JAX finds no GPU here")
    return jax
