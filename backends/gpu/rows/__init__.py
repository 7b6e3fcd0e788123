"""Kernels of a GPU that read a row, or a part of one, before they compute with it."""
