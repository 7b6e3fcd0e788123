"""Tunes kernels by measuring them on a device, and keeps records of the best."""
