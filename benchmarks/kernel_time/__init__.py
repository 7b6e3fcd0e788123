"""Time of each kernel of a training step: `python -m benchmarks.kernel_time MODEL`.

Products (convolutions and matrix products) are listed by layer and by what they compute: the
forward pass, the gradient of the data or that of the weights; with the share that they reach of
this machine's matrix product ("gemm") and of multiply-adds in registers ("fma"), both measured in
the same run. A library's product may be far from what registers can do, and ours above it. All
other kernels are limited by memory: they are listed with the bytes of their tensors a second, and
the share of a copy's.

The virtual machine calls back before and after each kernel; that takes some microseconds, so the
kernels of a very small model add up to more than its step takes.
"""
