"""Times prepared training steps on this machine's GPU, interleaved with PyTorch's.

It imports no odtc: where a GPU is rented, TVM's compiler mostly is not installed.
"""

import argparse
import ctypes
import dataclasses
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
import tvm_ffi
from tvm.runtime.vm import VirtualMachine

from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import FULL
from benchmarks.reference.torch_module import LOSSES

# Steps of both that have to agree before anything is timed, and by how much.
PARITY_STEPS, PARITY = 3, 1e-3
WARM_UP = 3


def kind_of(about: Mapping[str, Any]) -> str:
    """`opencl` or `vulkan`: the second word of the target's name."""
    return str(about["target"]).partition("{")[0].partition("-")[2]


class OdtcStep:
    """A prepared step on the first device of its kind."""

    def __init__(self, folder: Path, weights: Mapping[str, np.ndarray], lr: float) -> None:
        self.about = json.loads((folder / "step.json").read_text(encoding="utf-8"))
        self._device = tvm.device(kind_of(self.about), 0)
        library = tvm.runtime.load_module(str(folder / "step.so"))
        self._step = VirtualMachine(library, self._device)["train_step"]
        self._tensors, self._inputs, self._labels, self._count = [], [], [], 0
        for item in self.about["arguments"]:
            tensor = tvm.runtime.empty(tuple(item["shape"]), item["dtype"], self._device)
            self._tensors.append(tensor)
            match item["role"]:
                case "input":
                    self._inputs.append((item, tensor))
                case "label":
                    self._labels.append((item, tensor))
                case "learning-rate":
                    tensor.copyfrom(np.float32(lr))
                case "step":
                    self._number = tensor
                case _:
                    tensor.copyfrom(weights[item["name"]].astype(item["dtype"]))

    def __call__(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step; the loss."""
        for item, tensor in self._inputs:
            tensor.copyfrom(x[item["name"]].astype(item["dtype"], copy=False))
        for item, tensor in self._labels:
            tensor.copyfrom(y.astype(item["dtype"], copy=False).reshape(item["shape"]))
        self._number.copyfrom(np.int32(self._count))
        self._count += 1
        return float(self._step(*self._tensors).numpy())


class TorchStep:
    """PyTorch's eager step on the same GPU."""

    def __init__(self, module: torch.nn.Module, loss: str, lr: float) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self._module = module.cuda()
        self._loss = LOSSES[loss]
        self._optimizer = torch.optim.SGD(module.parameters(), lr)

    def __call__(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step; the loss."""
        self._optimizer.zero_grad()
        output = self._module(*(torch.from_numpy(each).cuda() for each in x.values()))
        loss = self._loss(output, torch.from_numpy(y).cuda())
        loss.backward()
        self._optimizer.step()
        return loss.item()


def measure(folder: Path, steps: int) -> dict[str, Any]:
    """Parity, times in milliseconds, and the profile of a step of one network."""
    about = json.loads((folder / "step.json").read_text(encoding="utf-8"))
    entry = dataclasses.replace(FULL[about["network"]], batch=about["batch"])
    module = make(entry)
    weights = {name: value.numpy().copy() for name, value in module.state_dict().items()}
    ours = OdtcStep(folder, weights, entry.lr)
    theirs = TorchStep(module, entry.loss, entry.lr)
    x, y = next(batches(entry))
    losses = [(ours(x, y), theirs(x, y)) for _ in range(PARITY_STEPS)]
    apart = max(abs(a - b) / abs(b) for a, b in losses)
    found: dict[str, Any] = {"about": about, "losses": losses, "apart": apart}
    if apart > PARITY:
        return found
    samples: dict[str, list[float]] = {"odtc": [], "pytorch": []}
    for number in range(WARM_UP + steps):
        for name, step in (("odtc", ours), ("pytorch", theirs)):
            torch.cuda.synchronize()
            start = time.perf_counter()
            step(x, y)
            if number >= WARM_UP:
                samples[name].append((time.perf_counter() - start) * 1e3)
    del theirs
    traced = profile(kind_of(about), lambda: ours(x, y))
    return found | {"milliseconds": samples, "profile": traced}


def profile(kind: str, step: Callable[[], Any]) -> dict[str, Any]:
    """What a step does on the device, in nanoseconds: uploads, kernels, downloads, and gaps."""
    watch, take = (
        tvm_ffi.get_global_func(f"odtc.{kind}.{name}") for name in ("watch", "take_watched")
    )
    watch(True)
    step()
    step()
    take()
    step()
    lines = str(take()).splitlines()
    watch(False)
    commands = [(n, int(s), int(e)) for n, s, e in (line.split() for line in lines)]
    totals: dict[str, int] = defaultdict(int)
    kernels: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, start, end in commands:
        totals[name if name in ("upload", "download", "copy") else "kernels"] += end - start
        kernels[name][0] += 1
        kernels[name][1] += end - start
    span = max(end for *_, end in commands) - min(start for _, start, _ in commands)
    gaps = span - sum(totals.values())
    return {"span": span, **totals, "gaps": gaps, "commands": len(commands), "by_name": kernels}


def report(found: Mapping[str, Any], top: int) -> str:
    """One network's lines."""
    about, apart = found["about"], found["apart"]
    head = (
        f"{about['network']}, batch {about['batch']}, {kind_of(about)}: losses apart by {apart:.1e}"
    )
    if "milliseconds" not in found:
        return f"{head}: WRONG, not timed: {found['losses']}"
    ours, theirs = (found["milliseconds"][name] for name in ("odtc", "pytorch"))
    ratios = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    low, high = _quartiles(ratios)
    traced = found["profile"]
    shares = ", ".join(
        f"{part} {traced.get(part, 0) / traced['span']:.1%}"
        for part in ("upload", "kernels", "copy", "download", "gaps")
    )
    lines = [
        head,
        f"  odtc {statistics.median(ours):.2f} ms, PyTorch {statistics.median(theirs):.2f} ms; "
        f"PyTorch / odtc {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})",
        f"  of {traced['span'] / 1e6:.2f} ms on the device: {shares}",
    ]
    costly = sorted(traced["by_name"].items(), key=lambda each: -each[1][1])[:top]
    lines += [f"    {ns / 1e6:9.3f} ms {count:4d} x {name}" for name, (count, ns) in costly]
    return "\n".join(lines)


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4)
    return low, high


def main() -> None:
    """Prints a report for each network, and writes `gpu.json`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.run", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20, metavar="", help="timed steps of each")
    parser.add_argument("--top", type=int, default=12, metavar="", help="kernels to list")
    parser.add_argument("--output", type=Path, default=Path("gpu.json"), metavar="")
    args = parser.parse_args()
    paths = sorted(args.folder.glob("*/step.json"))
    kinds = sorted({kind_of(json.loads(path.read_text(encoding="utf-8"))) for path in paths})
    for kind in kinds:
        ctypes.CDLL(str((args.folder / f"{kind}.so").resolve()))
    about = {
        **{kind: str(tvm_ffi.get_global_func(f"odtc.{kind}.devices")()[0]) for kind in kinds},
        "cuda": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "steps": args.steps,
    }
    print(", ".join(f"{key} {value}" for key, value in about.items()), flush=True)
    found = []
    for path in paths:
        found.append(measure(path.parent, args.steps))
        torch.cuda.empty_cache()
        print(report(found[-1], args.top), flush=True)
    args.output.write_text(json.dumps({"about": about, "networks": found}), encoding="utf-8")


if __name__ == "__main__":
    main()
