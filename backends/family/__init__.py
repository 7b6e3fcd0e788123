"""Kernels and passes of each kind of target: rules, how loops are lowered, limits."""
