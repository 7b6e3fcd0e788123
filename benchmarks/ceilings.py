"""Measured peaks of this machine for the roofline: arithmetic and memory bandwidth.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009. Peaks
are measured and not taken from a data sheet: a virtual machine or a neighbour may hold some of it
back. Each is the best of several tries, as a ceiling is.
"""

from dataclasses import dataclass

import numpy as np

from odtc.comparison.measures.ceilings import best, fma_peak

_SIDE = 2048
# Far more than the caches of any machine here.
_COPIED = 64 << 20


@dataclass(frozen=True)
class Ceilings:
    """Measured limits for a number of threads.

    Attributes:
        threads: worker threads.
        fma: operations a second of fused multiply-adds that touch nothing but registers.
        gemm: the same of PyTorch's product of two large square matrices.
        numpy_gemm: the same of numpy's.
        copy: bytes a second that a copy of large arrays reads and writes.
    """

    threads: int
    fma: float
    gemm: float
    numpy_gemm: float
    copy: float

    @property
    def product(self) -> float:
        """The better of the two matrix products."""
        return max(self.gemm, self.numpy_gemm)

    def text(self) -> str:
        """One line."""
        return (
            f"ceilings, threads {self.threads}: multiply-adds in registers {self.fma / 1e9:.0f}, "
            f"matrix product {self.gemm / 1e9:.0f} (PyTorch), {self.numpy_gemm / 1e9:.0f} (numpy) "
            f"GFLOP/s; copy {self.copy / 1e9:.1f} GB/s"
        )


def measure_ceilings(threads: int) -> Ceilings:
    """Measures all of them, one after the other; takes a few seconds."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    left, right = (torch.rand(_SIDE, _SIDE) for _ in range(2))
    product = torch.empty(_SIDE, _SIDE)
    source, copied = torch.rand(_COPIED), torch.empty(_COPIED)
    flops = 2 * _SIDE**3
    with threadpool_limits(threads, user_api="blas"):
        a, b, c = (tensor.numpy() for tensor in (left, right, product))
        numpy_gemm = flops / best(lambda: np.matmul(a, b, out=c))
    return Ceilings(
        threads,
        fma_peak(threads),
        flops / best(lambda: torch.mm(left, right, out=product)),
        numpy_gemm,
        2 * source.nbytes / best(lambda: copied.copy_(source)),
    )
