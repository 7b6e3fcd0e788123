"""The same as `steps.c`, by the trainer of Python: `... steps ENGINE ARTIFACT THREADS BATCH`."""

import sys
import time

import numpy as np

import odtc


def main() -> None:
    """Takes a step for each byte on stdin."""
    engine, path, threads, batch = sys.argv[1:]
    session = None
    if engine == "tvm":
        from benchmarks.virtual_machine import VirtualMachineHere

        session = VirtualMachineHere()
    trainer = odtc.load(path).trainer(session, threads=int(threads))
    with np.load(batch) as arrays:  # which reads the file at each look
        x, y = arrays["x"], arrays["y"]
    while sys.stdin.buffer.read(1):
        start = time.perf_counter_ns()
        loss = trainer.step(x, y, lr=0.01)
        print(time.perf_counter_ns() - start, loss.hex(), flush=True)


if __name__ == "__main__":
    main()
