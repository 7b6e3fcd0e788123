"""Kernels of GPUs, and how kernels that were written for CPUs run on them."""
