"""Training steps on a GPU by TVM's virtual machine and by the native runtime, interleaved.

    python -m benchmarks.gpu.prepare FOLDER --networks squeezenet,resnet50
    python -m benchmarks.gpu.engines FOLDER

The second wants what `benchmarks.gpu.run` does. Both engines run the same kernels, so their losses
have to have the same bits; compared are the time of a step, the processor's time that the host
spends on it, and, by the device's timers, how much of the time between a step's first kernel and
its last one none runs.
"""

import argparse
import ctypes
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from benchmarks import output
from benchmarks.gpu.profile import MOVES, CommandWatch
from benchmarks.gpu.run import WARM_UP, OdtcStep, kind_of
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.build import GPUS
from odtc.runtime_rpc.native.interface import bind_gpus
from odtc.runtime_rpc.native.on_gpu import OnGpu

LR = 1e-3
PARITY_STEPS = 3


class NativeStep:
    """A prepared step in the native runtime; each call sends the batch of the next one meanwhile.

    Args:
        folder: of the step, beside the library.
    """

    def __init__(self, folder: Path) -> None:
        library = bind_gpus(ctypes.CDLL(str((folder.parent / GPUS.name).resolve())))
        self.native = NativeTrainer(folder, 1, None, library)
        self._on_gpu = OnGpu(self.native, self._send)
        self._fed: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def device(self) -> str:
        """Its name and driver."""
        return self._on_gpu.name

    def _send(self) -> None:
        """As the trainer does: floats without a copy."""
        direct = {}
        for number, (to, array) in self._fed.items():
            if array.dtype == to.dtype and array.dtype.kind == "f":
                direct[number] = array
            else:
                to[...] = array
        assert self._on_gpu.send_next_from(direct)

    def __call__(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step of what the call before sent, or of this batch in the first one; the loss."""
        if not self._fed:
            fed = {("input", name): array for name, array in x.items()}
            for number, (key, to) in enumerate(self.native.tensors.items()):
                if key[0] in ("input", "label"):
                    self._fed[number] = to, fed.get(key, y).reshape(to.shape)
                    to[...] = self._fed[number][1]
        return self.native.step(LR)

    def gaps(self) -> float:
        """The share of a step in which no kernel runs."""
        self.native.step(LR)
        self.native.start_clock()
        self.native.step(LR)
        return _gaps((begin, end) for _, begin, end in self.native.stop_clock())


def _gaps(kernels: Iterable[tuple[float, float]]) -> float:
    """The share of the time from the first kernel's begin to the last one's end without any."""
    ordered = sorted(kernels)
    busy, reached = 0.0, ordered[0][0]
    for begin, end in ordered:
        busy += max(end - max(begin, reached), 0)
        reached = max(reached, end)
    return 1 - busy / (reached - ordered[0][0])


def batch_of(about: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Numbers for a step's inputs and label: integers, of classes or words, are 0."""
    rng = np.random.default_rng(0)

    def made(item: Mapping[str, Any]) -> np.ndarray:
        dtype = np.dtype(item["dtype"])
        if dtype.kind != "f":
            return np.zeros(item["shape"], dtype)
        return rng.standard_normal(item["shape"], np.float32).astype(dtype)

    x = {item["name"]: made(item) for item in about["arguments"] if item["role"] == "input"}
    (label,) = (item for item in about["arguments"] if item["role"] == "label")
    return x, made(label)


def measure(folder: Path, steps: int) -> dict[str, Any]:
    """Losses, and for either engine milliseconds and the host's milliseconds of each step."""
    about = json.loads((folder / "step.json").read_text(encoding="utf-8"))
    weights = load_file(folder / "parameters.safetensors")
    machine = OdtcStep(folder, weights, LR)
    # A copy: a library calls one runtime of a process.
    copied = folder.parent / f"{folder.name}.native"
    copied.mkdir(exist_ok=True)
    for path in folder.iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    native = NativeStep(copied)
    x, y = batch_of(about)
    engines: dict[str, Callable[..., float]] = {"machine": machine, "native": native}
    losses = [[step(x, y) for step in engines.values()] for _ in range(PARITY_STEPS)]
    found: dict[str, Any] = {"about": about, "device": native.device, "losses": losses}
    if any(np.float32(a).tobytes() != np.float32(b).tobytes() for a, b in losses):
        return found
    times: dict[str, list[float]] = {name: [] for name in engines}
    host: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(WARM_UP + steps):
        for name, step in engines.items():
            begin, spent = time.perf_counter(), time.process_time()
            step(x, y)
            if number >= WARM_UP:
                host[name].append((time.process_time() - spent) * 1e3)
                times[name].append((time.perf_counter() - begin) * 1e3)
    with CommandWatch(kind_of(about), lambda: machine(x, y)) as watch:
        commands = [(begin, end) for name, begin, end in watch.commands() if name not in MOVES]
    gaps = {"machine": _gaps(commands), "native": native.gaps()}
    return found | {"milliseconds": times, "host_milliseconds": host, "gaps": gaps}


def report(found: Mapping[str, Any]) -> str:
    """One network's lines."""
    about = found["about"]
    head = f"{about['network']}, batch {about['batch']}, {kind_of(about)} on {found['device']}"
    if "milliseconds" not in found:
        return f"{head}: losses DIFFER, not timed: {found['losses']}"
    lines = [head]
    for name, engine in (("machine", "virtual machine"), ("native", "native runtime")):
        step, host = (
            statistics.median(found[k][name]) for k in ("milliseconds", "host_milliseconds")
        )
        lines.append(
            f"  {engine:16} {step:9.3f} ms a step, {host:9.3f} ms of the host's processors, "
            f"gaps {found['gaps'][name]:.1%}"
        )
    pairs = zip(found["milliseconds"]["machine"], found["milliseconds"]["native"], strict=True)
    ratio = statistics.median(a / b for a, b in pairs)
    lines.append(f"  the virtual machine's time is {ratio:.3f} of the native runtime's")
    return "\n".join(lines)


def main() -> None:
    """Prints a report for each network, and writes `engines.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.engines", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=30, metavar="", help="timed steps of each")
    parser.add_argument("--output", type=Path, default=Path("engines.json"), metavar="")
    args = parser.parse_args()
    paths = [path for path in sorted(args.folder.glob("*/step.json")) if ".native" not in str(path)]
    for kind in sorted({kind_of(json.loads(path.read_text(encoding="utf-8"))) for path in paths}):
        ctypes.CDLL(str((args.folder / f"{kind}.so").resolve()))
    found = []
    for path in paths:
        found.append(measure(path.parent, args.steps))
        print(report(found[-1]), flush=True)
    whole = {"run": output.about(), "networks": found}
    args.output.write_text(json.dumps(whole), encoding="utf-8")


if __name__ == "__main__":
    main()
