"""Helpers that kernels of all families share."""
