"""Tests that need an NVIDIA GPU (`pytest -m gpu tests/gpu`), and the recorder of fixtures."""
