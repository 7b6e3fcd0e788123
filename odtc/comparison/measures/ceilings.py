"""Measured peaks of this machine for the roofline: arithmetic and memory bandwidth.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009. Peaks
are measured and not taken from a data sheet: a virtual machine or a neighbour may take some of
it. Each is the best of several tries, as a ceiling is.
"""

# TVMScript writes shapes where Python has types.
# pyright: reportInvalidTypeForm=false, reportMissingModuleSource=false

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from odtc.comparison.measures.measure import core_count

_TRIES = 10
# Floats of a copy: far more than the caches of any machine here.
_COPIED = 64 << 20
# Independent chains hide the latency of a fused multiply-add; with the two factors they fit the 16
# registers of AVX2.
_CHAINS = 12
_ROUNDS = 1 << 20


def fma_peak(threads: int) -> float:
    """Operations a second of multiply-adds in registers, with this machine's vectors."""
    import tvm

    from odtc.backends.targets import parse_target

    lanes = parse_target("host-cpu").resolved().vector_bits // 32
    run = _compiled(_chains(threads, lanes), threads)
    factors = tvm.runtime.tensor(np.array([0.5, 1.0], np.float32))
    results = tvm.runtime.empty((threads, _CHAINS, lanes), "float32")
    return 2 * threads * _CHAINS * lanes * _ROUNDS / best(lambda: run(factors, results))


def copy_peak(threads: int) -> float:
    """Bytes a second that a copy of large arrays reads and writes."""
    import tvm

    run = _compiled(_copy(threads, _COPIED // threads), threads)
    source, copied = (
        tvm.runtime.tensor(np.ones((threads, _COPIED // threads), np.float32)) for _ in range(2)
    )
    return 2 * 4 * (_COPIED // threads) * threads / best(lambda: run(source, copied))


def best(run: Callable[[], object]) -> float:
    """Least seconds of several runs, after one to warm up."""
    run()
    seconds = []
    for _ in range(_TRIES):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def _compiled(kernel: Any, threads: int) -> Callable[..., object]:
    """A kernel for this machine, with that many threads of TVM's pool."""
    import tvm

    from odtc.backends.targets import parse_target
    from odtc.runtime_rpc.connect import connect

    # As in a session: TVM's pool is made once, on x86 for half of the cores.
    os.environ.setdefault("TVM_NUM_THREADS", str(core_count()))
    target = parse_target("host-cpu").resolved()
    run = tvm.compile(tvm.IRModule({"main": kernel}), target.to_tvm())["main"]
    connect().use_threads(threads)
    return run


def _chains(threads: int, lanes: int) -> Any:
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


def _copy(threads: int, length: int) -> Any:
    """A kernel in which each thread copies its part."""
    from tvm.script import tirx as T  # noqa: N812

    @T.prim_func(s_tir=True)
    def main(
        source: T.Buffer((threads, length), "float32"),
        copied: T.Buffer((threads, length), "float32"),
    ):
        T.func_attr({"tirx.noalias": True, "global_symbol": "main"})
        for thread in T.parallel(threads):
            for part in range(length // 16):
                for lane in T.vectorized(16):
                    with T.sblock("copy"):
                        t = T.axis.spatial(threads, thread)
                        at = T.axis.spatial(length, part * 16 + lane)
                        copied[t, at] = source[t, at]

    return main
