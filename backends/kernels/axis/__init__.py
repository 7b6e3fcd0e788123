"""Kernels that sort, search or sum up along an axis."""
