"""The same as `steps.c`, by a trainer of Python: `... steps ENGINE FILES THREADS BATCH`.

FILES are an artifact, or the folder of what onnxruntime-training was prepared with.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

Step = Callable[[np.ndarray, np.ndarray], float]
_LR = 0.01


def _native(path: str, threads: int) -> Step:
    import odtc

    trainer = odtc.load(path).trainer(threads=threads)
    return lambda x, y: trainer.step(x, y, lr=_LR)


def _tvm(path: str, threads: int) -> Step:
    import odtc
    from benchmarks.virtual_machine import VirtualMachineHere

    trainer = odtc.load(path).trainer(VirtualMachineHere(), threads=threads)
    return lambda x, y: trainer.step(x, y, lr=_LR)


def _onnxruntime(path: str, threads: int) -> Step:
    from odtc.comparison.peers.onnxruntime_training import OrtTrainer

    return OrtTrainer(Path(path), lr=_LR, threads=threads).step


_ENGINES = {"native": _native, "tvm": _tvm, "onnxruntime": _onnxruntime}


def main() -> None:
    """Takes a step for each byte on stdin."""
    engine, path, threads, batch = sys.argv[1:]
    take = _ENGINES[engine](path, int(threads))
    with np.load(batch) as arrays:  # which reads the file at each look
        x, y = arrays["x"], arrays["y"]
    while sys.stdin.buffer.read(1):
        start = time.perf_counter_ns()
        loss = take(x, y)
        print(time.perf_counter_ns() - start, loss.hex(), flush=True)


if __name__ == "__main__":
    main()
