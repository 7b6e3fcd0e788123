"""Kernels by measuring: what is tried, on which device, and what is kept of it."""
