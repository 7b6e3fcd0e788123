"""Rewrites of kernels, and of which operators share one."""
