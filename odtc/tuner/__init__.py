"""Tunes the kernels of a model's step: which are measured, and on which machines."""
