"""Schedules for the kernels of a training step."""
