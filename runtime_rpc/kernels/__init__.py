"""Kernels of GPUs that run by themselves, as programs, in this process and on devices.

`odtc.backends.program.kernels` makes such programs.
"""
