"""Times prepared training steps on this machine's GPU, interleaved with PyTorch's.

Of odtc it imports only what needs no TVM: where a GPU is rented, TVM's compiler mostly is not
installed.
"""

import argparse
import ctypes
import dataclasses
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
import tvm_ffi
from tvm.runtime.vm import VirtualMachine

from benchmarks import output
from benchmarks.gpu.profile import CommandWatch, shares_of
from benchmarks.gpu.roofline import GpuCeilings, families_of, measured_ceilings
from benchmarks.kernel_time.products import ProductLayer, products_of
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import FULL
from odtc.comparison.peers.torch_module import LOSSES
from odtc.core.artifact.manifest import allocator_of

# Steps of both that have to agree before anything is timed, and by how much.
PARITY_STEPS, PARITY = 3, 1e-3
WARM_UP = 3


def kind_of(about: Mapping[str, Any]) -> str:
    """`opencl` or `vulkan`: the second word of the target's name."""
    return str(about["target"]).partition("{")[0].partition("-")[2]


class OdtcStep:
    """A prepared step on the first device of its kind, by a virtual machine (`machine`).

    Each call sends the batch of the next one while the device computes, as `Trainer.train` does.
    """

    def __init__(self, folder: Path, weights: Mapping[str, np.ndarray], lr: float) -> None:
        self.about = json.loads((folder / "step.json").read_text(encoding="utf-8"))
        self._device = tvm.device(kind_of(self.about), 0)
        library = tvm.runtime.load_module(str(folder / "step.so"))
        self.machine = VirtualMachine(library, self._device)
        self._step = self.machine["train_step"]
        self._arena = self.machine[allocator_of("train_step")]()
        self._upload = tvm_ffi.get_global_func(
            f"odtc.{kind_of(self.about)}.upload", allow_missing=True
        )
        self._tensors, self._count = [], 0
        # Places of what is fed, and two sets of tensors for it.
        self._fed: list[tuple[int, dict[str, Any]]] = []
        for place, item in enumerate(self.about["arguments"]):
            tensor = self._empty(item)
            self._tensors.append(tensor)
            match item["role"]:
                case "input" | "label":
                    self._fed.append((place, item))
                case "learning-rate":
                    tensor.copyfrom(np.float32(lr))
                case "step":
                    self._number = tensor
                case _:
                    tensor.copyfrom(weights[item["name"]].astype(item["dtype"]))
        self._next = [self._empty(item) for _, item in self._fed]
        self._is_sent = False

    def again(self) -> float:
        """A step of the batch that is there, to which nothing is sent meanwhile; the loss."""
        return float(self._step(*self._tensors, self._arena).numpy())

    def _empty(self, item: Mapping[str, Any]) -> Any:
        return tvm.runtime.empty(tuple(item["shape"]), item["dtype"], self._device)

    def _send(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> None:
        """Sends a batch to the tensors of the next call."""
        for (_, item), tensor in zip(self._fed, self._next, strict=True):
            array = x[item["name"]] if item["role"] == "input" else y.reshape(item["shape"])
            array = np.ascontiguousarray(array, item["dtype"])
            if self._upload is None:
                tensor.copyfrom(array)
            else:
                self._upload(tensor, array.ctypes.data, array.nbytes)

    def __call__(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step of what the call before sent, or of this batch in the first one; the loss."""
        if not self._is_sent:
            self._send(x, y)
            self._is_sent = True
        for number, (place, _) in enumerate(self._fed):
            self._tensors[place], self._next[number] = self._next[number], self._tensors[place]
        self._number.copyfrom(np.int32(self._count))
        self._count += 1
        loss = self._step(*self._tensors, self._arena)
        self._send(x, y)
        return float(loss.numpy())


class TorchStep:
    """PyTorch's eager step on the same GPU, which is sent the next batch meanwhile, too."""

    def __init__(self, module: torch.nn.Module, loss: str, lr: float) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self._module = module.cuda()
        self._loss = LOSSES[loss]
        self._optimizer = torch.optim.SGD(module.parameters(), lr)
        self._uploads = torch.cuda.Stream()
        self._pinned: list[torch.Tensor] = []
        self._next: list[torch.Tensor] = []

    def _send(self) -> None:
        with torch.cuda.stream(self._uploads):
            self._next = [each.cuda(non_blocking=True) for each in self._pinned]

    def __call__(self, x: Mapping[str, np.ndarray], y: np.ndarray) -> float:
        """One step; the loss. All calls get the same batch, which waits in pinned memory."""
        if not self._pinned:
            self._pinned = [torch.from_numpy(each).pin_memory() for each in (*x.values(), y)]
            self._send()
        torch.cuda.current_stream().wait_stream(self._uploads)
        *inputs, label = self._next
        self._optimizer.zero_grad()
        loss = self._loss(self._module(*inputs), label)
        loss.backward()
        self._optimizer.step()
        self._send()
        return loss.item()


def measure(folder: Path, steps: int, ceilings: GpuCeilings) -> dict[str, Any]:
    """Parity, times in milliseconds, profile and families of kernels of one network's step."""
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
    with CommandWatch(kind_of(about), lambda: ours(x, y)) as watch:
        traced, calls = shares_of(watch.commands()), watch.calls(ours.machine)
    families = families_of(calls, products_of(calls, layers_in(about)), ceilings)
    return found | {"milliseconds": samples, "profile": traced, "families": families}


def layers_in(about: Mapping[str, Any]) -> list[ProductLayer]:
    """The products of a prepared step."""
    return [ProductLayer(tuple(e["names"]), tuple(e["sizes"]), e["flops"]) for e in about["layers"]]


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
        f"{part} {traced[part] / traced['span']:.1%}" for part in ("kernels", "moves", "gaps")
    )
    lines = [
        head,
        f"  odtc {statistics.median(ours):.2f} ms, PyTorch {statistics.median(theirs):.2f} ms; "
        f"PyTorch / odtc {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})",
        f"  of {traced['span'] / 1e6:.2f} ms on the device: {shares}",
    ]
    total = sum(family.seconds for family in found["families"])
    lines += [f"    {family.text(total)}" for family in found["families"]]
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
    ceilings = measured_ceilings()
    print(ceilings.text(), flush=True)
    found = []
    for path in paths:
        found.append(measure(path.parent, args.steps, ceilings))
        torch.cuda.empty_cache()
        print(report(found[-1], args.top), flush=True)
    whole = {"run": output.about(), "about": about, "ceilings": ceilings, "networks": found}
    args.output.write_text(json.dumps(whole, default=dataclasses.asdict), encoding="utf-8")


if __name__ == "__main__":
    main()
