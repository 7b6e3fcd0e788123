"""Times prepared training steps on this machine's GPU, interleaved with PyTorch's.

Of odtc it imports only what needs no TVM: where a GPU is rented, that mostly is not installed.
"""

import argparse
import dataclasses
import functools
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import output
from benchmarks.gpu.profile import calls_of, shares_of
from benchmarks.gpu.roofline import GpuCeilings, families_of, measured_ceilings
from benchmarks.gpu.steps import OdtcStep, kind_of
from benchmarks.gpu.torch_step import TorchStep
from benchmarks.kernel_time.products import ProductLayer, products_of
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import FULL
from odtc.comparison.peers.torch_module import LOSSES

# Steps of both that have to agree before anything is timed, and by how much.
PARITY_STEPS, PARITY = 3, {"float32": 1e-3, "mixed": 2e-2}
WARM_UP = 3
# From a precision to the GPU's.
Ceilings = Callable[[str], GpuCeilings]


def measure(folder: Path, steps: int, ceilings: Ceilings) -> dict[str, Any]:
    """Parity, times in milliseconds, profile and families of kernels of one network's step."""
    about = json.loads((folder / "step.json").read_text(encoding="utf-8"))
    entry = dataclasses.replace(FULL[about["network"]], batch=about["batch"])
    module = make(entry)
    ours = OdtcStep(folder, entry.lr)
    sgd = torch.optim.SGD(module.cuda().parameters(), entry.lr)
    precision = precision_of(about)
    theirs = TorchStep(module, LOSSES[entry.loss], sgd, loss_scale=about.get("loss_scale"))
    x, y = next(batches(entry))
    losses = [(ours(x, y), theirs(x, y)) for _ in range(PARITY_STEPS)]
    apart = max(abs(a - b) / abs(b) for a, b in losses)
    found: dict[str, Any] = {"about": about, "losses": losses, "apart": apart, "on": ours.device}
    if apart > PARITY[precision]:
        return found
    samples = in_turn({"odtc": lambda: ours(x, y), "pytorch": lambda: theirs(x, y)}, steps)
    ours.timed()
    timed, begin, end = ours.timed()
    traced, calls = shares_of(timed, begin, end), calls_of(timed, about["calls"])
    families = families_of(calls, products_of(calls, layers_in(about)), ceilings(precision))
    return found | {"milliseconds": samples, "profile": traced, "families": families}


def precision_of(about: Mapping[str, Any]) -> str:
    """`float32` or `mixed`: what a step was compiled in."""
    return str(about.get("precision", "float32"))


def in_turn(sides: Mapping[str, Callable[[], object]], steps: int) -> dict[str, list[float]]:
    """Milliseconds of steps of each side, which take turns; the first few only warm up."""
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(WARM_UP + steps):
        for name, step in sides.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            if number >= WARM_UP:
                samples[name].append((time.perf_counter() - start) * 1e3)
    return samples


def layers_in(about: Mapping[str, Any]) -> list[ProductLayer]:
    """The products of a prepared step."""
    return [ProductLayer(tuple(e["names"]), tuple(e["sizes"]), e["flops"]) for e in about["layers"]]


def report(found: Mapping[str, Any], top: int) -> str:
    """One network's lines."""
    about, apart = found["about"], found["apart"]
    head = (
        f"{about['network']}, batch {about['batch']}, {precision_of(about)}, {kind_of(about)} on "
        f"{found['on']}: losses apart by {apart:.1e}"
    )
    if "milliseconds" not in found:
        return f"{head}: WRONG, not timed: {found['losses']}"
    ours, theirs = (found["milliseconds"][name] for name in ("odtc", "pytorch"))
    traced = found["profile"]
    shares = ", ".join(
        f"{part} {traced[part] / traced['span']:.1%}" for part in ("kernels", "moves", "gaps")
    )
    lines = [
        head,
        f"  odtc {statistics.median(ours):.2f} ms, PyTorch {statistics.median(theirs):.2f} ms; "
        f"PyTorch / odtc {ratio_text(ours, theirs)}",
        f"  of {traced['span'] / 1e6:.2f} ms on the device: {shares}",
    ]
    total = sum(family.seconds for family in found["families"])
    lines += [f"    {family.text(total)}" for family in found["families"]]
    costly = sorted(traced["by_name"].items(), key=lambda each: -each[1][1])[:top]
    lines += [f"    {ns / 1e6:9.3f} ms {count:4d} x {name}" for name, (count, ns) in costly]
    return "\n".join(lines)


def ratio_text(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Median and quartiles of how many times ours their steps take, pair by pair."""
    ratios = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    low, high = _quartiles(ratios)
    return f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})"


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
    about = {
        "cuda": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "steps": args.steps,
    }
    print(", ".join(f"{key} {value}" for key, value in about.items()), flush=True)
    ceilings = functools.cache(measured_ceilings)
    print(ceilings("float32").text(), flush=True)
    found: list[dict[str, Any]] = []
    whole = {
        "run": output.about(),
        "about": about,
        "ceilings": ceilings("float32"),
        "networks": found,
    }
    for path in paths:
        found.append(measure(path.parent, args.steps, ceilings))
        torch.cuda.empty_cache()
        print(report(found[-1], args.top), flush=True)
        output.write_so_far(whole, args.output)


if __name__ == "__main__":
    main()
