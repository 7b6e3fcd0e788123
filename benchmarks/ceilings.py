"""What this machine can do at most, measured: arithmetic and memory, for the roofline.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009. Peaks
are measured and not taken from a data sheet: a virtual machine or a neighbour may hold some of it
back. Each is the best of several tries, as a ceiling is.
"""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from odtc.comparison.measure import core_count

_TRIES = 10
_SIDE = 2048
# Far more than the caches of any machine here.
_COPIED = 64 << 20
# Independent chains hide the latency of a fused multiply-add; with the two factors they fit the 16
# registers of AVX2.
_CHAINS = 12
_ROUNDS = 1 << 20


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
        numpy_gemm = flops / _best(lambda: np.matmul(a, b, out=c))
    return Ceilings(
        threads,
        fma_peak(threads),
        flops / _best(lambda: torch.mm(left, right, out=product)),
        numpy_gemm,
        2 * source.nbytes / _best(lambda: copied.copy_(source)),
    )


def fma_peak(threads: int) -> float:
    """Operations a second of multiply-adds in registers, with this machine's vectors."""
    import tvm

    from odtc.backends.targets import parse_target
    from odtc.runtime_rpc.connect import connect

    # As a session has it: TVM's pool is made once, on x86 for half of the cores.
    os.environ.setdefault("TVM_NUM_THREADS", str(core_count()))
    target = parse_target("host-cpu").resolved()
    lanes = target.vector_bits // 32
    run = tvm.compile(tvm.IRModule({"main": _chains(threads, lanes)}), target.to_tvm())["main"]
    connect().use_threads(threads)
    factors = tvm.runtime.tensor(np.array([0.5, 1.0], np.float32))
    results = tvm.runtime.empty((threads, _CHAINS, lanes), "float32")
    return 2 * threads * _CHAINS * lanes * _ROUNDS / _best(lambda: run(factors, results))


def _chains(threads: int, lanes: int):
    """A kernel in which each thread computes `x = x * a + b` in every lane of each chain."""
    from tvm.script import tirx as T  # noqa: N812

    @T.prim_func(s_tir=True)
    def main(
        factors: T.Buffer((2,), "float32"),
        results: T.Buffer((threads, _CHAINS, lanes), "float32"),
    ):
        T.func_attr({"tirx.noalias": True, "global_symbol": "main"})
        for thread in T.parallel(threads):
            with T.sblock("thread"):
                t = T.axis.spatial(threads, thread)
                kept = T.sblock_alloc_buffer((_CHAINS, lanes), "float32", scope="local")
                for chain in T.unroll(_CHAINS):
                    for lane in T.vectorized(lanes):
                        kept[chain, lane] = factors[0]
                for _ in range(_ROUNDS):
                    for chain in T.unroll(_CHAINS):
                        for lane in T.vectorized(lanes):
                            kept[chain, lane] = kept[chain, lane] * factors[0] + factors[1]
                for chain in T.unroll(_CHAINS):
                    for lane in T.vectorized(lanes):
                        results[t, chain, lane] = kept[chain, lane]

    return main


def _best(run: Callable[[], object]) -> float:
    """Least seconds of several runs, after one to warm up."""
    run()
    seconds = []
    for _ in range(_TRIES):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)
