"""Times prepared training steps on this machine's CPU, in turns with PyTorch's."""

import argparse
import ctypes
import dataclasses
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import output
from benchmarks.gpu.run import PARITY, PARITY_STEPS, ratio_text
from benchmarks.models.pytorch.spec import TorchModel, batches, make
from benchmarks.models.pytorch.table import FULL
from odtc.comparison.measures.measure import busy_share, core_count
from odtc.comparison.peers.torch_module import ModuleTrainer
from odtc.comparison.worker import PAUSE_SECONDS
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.build import CPUS
from odtc.runtime_rpc.native.interface import NativeError, bind

Step = Callable[[], float]


def measure(folder: Path, steps: int) -> dict[str, Any]:
    """Parity, and milliseconds of steps, of one network and number of threads."""
    about = json.loads((folder / "step.json").read_text(encoding="utf-8"))
    entry = dataclasses.replace(FULL[about["network"]], batch=about["batch"])
    threads = threads_of(about["target"])
    torch.set_num_threads(threads)
    sides = {"odtc": our_step(folder, entry, threads), "pytorch": their_step(entry)}
    losses = [[step() for step in sides.values()] for _ in range(PARITY_STEPS)]
    apart = max(abs(a - b) / abs(b) for a, b in losses)
    found = {"about": about, "threads": threads, "losses": losses, "apart": apart}
    if apart > PARITY["float32"]:
        return found
    return found | {"milliseconds": in_turn(sides, steps), "busy": busy_share()}


def threads_of(target: str) -> int:
    """Those that a step was compiled for."""
    found = re.search(r"\bthreads=(\d+)", target)
    assert found, target
    return int(found[1])


def our_step(folder: Path, entry: TorchModel, threads: int) -> Step:
    """A step of odtc on one batch, by the native runtime beside its folder; it returns the loss."""
    library = bind(ctypes.CDLL(str((folder.parent / CPUS.name).resolve())))
    native = NativeTrainer(folder, threads, None, library)
    x, y = next(batches(entry))
    for (role, name), to in native.tensors.items():
        if role in ("input", "label"):
            array = x[name] if role == "input" else y
            to[...] = np.asarray(array).reshape(to.shape)
    return lambda: native.step(entry.lr)


def their_step(entry: TorchModel) -> Step:
    """The same by PyTorch, eager."""
    trainer = ModuleTrainer(make(entry), entry.loss, lr=entry.lr)
    x, y = next(batches(entry))
    return lambda: float(trainer.step(x, y))


def in_turn(sides: Mapping[str, Step], steps: int) -> dict[str, list[float]]:
    """Milliseconds of steps of each side, which take turns.

    Before each, the other side's threads go to sleep, and a step is taken that is not timed.
    """
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(steps):
        for name, step in sides.items():
            time.sleep(PAUSE_SECONDS)
            step()
            start = time.perf_counter()
            step()
            samples[name].append((time.perf_counter() - start) * 1e3)
    return samples


def report(found: Mapping[str, Any]) -> str:
    """The line of one network and number of threads."""
    about = found["about"]
    head = f"{about['network']}, batch {about['batch']}, threads {found['threads']}"
    if "milliseconds" not in found:
        return f"{head}: WRONG, not timed: {found['losses']}"
    ours, theirs = (found["milliseconds"][name] for name in ("odtc", "pytorch"))
    return f"{head}: odtc {np.median(ours):.2f} ms; PyTorch / odtc {ratio_text(ours, theirs)}"


def unfit(paths: Sequence[Path], cores: int) -> str:
    """Why steps cannot be timed with this many cores; empty where they can."""
    if not paths:
        return "the folder has no steps: python -m benchmarks.cores.prepare makes them"
    most = max(threads_of(json.loads(path.read_text("utf-8"))["target"]) for path in paths)
    if most > cores:
        return (
            f"a step is for {most} threads, and this process may use {cores} cores: prepare steps "
            f"with --threads of at most {cores}, or run them on a machine with more"
        )
    return ""


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a line for each step, and writes `cores.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cores.run", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20, metavar="", help="timed steps of each")
    parser.add_argument("--output", type=Path, default=Path("cores.json"), metavar="")
    args = parser.parse_args(argv)
    paths = sorted(args.folder.glob("*/step.json"))
    if why := unfit(paths, core_count()):
        parser.error(f"{args.folder}: {why}")
    found: list[dict[str, Any]] = []
    whole = {"run": output.about(), "steps": found}
    for path in paths:
        try:
            found.append(measure(path.parent, args.steps))
        except NativeError as error:
            parser.error(f"{path.parent}: {error}")
        print(report(found[-1]), flush=True)
        output.write_so_far(whole, args.output)


if __name__ == "__main__":
    main()
