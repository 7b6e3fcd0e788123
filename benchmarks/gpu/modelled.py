"""How far the model of a GPU's times is from what was measured on it, by families of kernels.

Steps are made up to the order of their calls, and none is compiled: no GPU is needed. What was
measured is in docs/results/performance/gpu_families.json.
"""

import argparse
import dataclasses
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import onnx
from tvm import tirx
from tvm.tirx.buffer import BufferType

from benchmarks.gpu.figures import FAMILIES, THROUGH
from benchmarks.gpu.roofline import family_of
from benchmarks.kernel_time.calls import KernelCall
from benchmarks.kernel_time.layers import layers_of
from benchmarks.kernel_time.products import products_of
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import TorchModel, batches, make
from benchmarks.models.pytorch.table import FULL
from benchmarks.options import add_sizes, listed
from benchmarks.pages.result import path_of
from odtc.backends.targets import parse_target
from odtc.core.process.progress import silent
from odtc.driver.drafts.source import read_source
from odtc.driver.options.step_options import StepOptions
from odtc.driver.splitting import Cuts
from odtc.passes.ir.tensor_bytes import buffer_bytes

# Those that were measured.
NETWORKS = ("bert_base", "mobilenet_v2", "resnet18", "resnet50", "squeezenet", "vit_tiny")


def families_of(entry: TorchModel, target: str) -> dict[str, float]:
    """Milliseconds that the families of a step take, by the model of a target."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made, "model.onnx")
        export(make(entry), next(batches(entry))[0], path)
        options = StepOptions(batch=entry.batch, loss=entry.loss, micro_batches=1)
        source = read_source(path, parse_target(target), options, silent)
        ordered = next(iter(Cuts(source, silent, for_plans=True))).made.ordered
        layers = layers_of(onnx.load(path), entry.batch)
    calls = [
        _call(binding.value.args[0].name_hint, ordered.module[binding.value.args[0]], seconds)
        for binding, seconds in zip(ordered.calls.bindings, ordered.problem.seconds, strict=True)
    ]
    found: dict[str, float] = defaultdict(float)
    for call, product in zip(calls, products_of(calls, layers), strict=True):
        name = product.kind if product else family_of(call.name)
        found[FAMILIES.get(name, name)] += call.seconds * 1e3
    return found


def _call(name: str, kernel: tirx.PrimFunc, seconds: float) -> KernelCall:
    tensors = [each for each in kernel.params if isinstance(each.ty, BufferType)]
    shapes = tuple(tuple(int(size) for size in each.shape) for each in tensors)
    return KernelCall(name, shapes, sum(map(buffer_bytes, tensors)), seconds)


def ratios_of(
    modelled: Mapping[str, float], measured: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[str, float, float]]:
    """Family, milliseconds measured, and modelled over measured; of families that have both."""
    for name, each in measured.items():
        if name in modelled:
            yield name, each["ms"], modelled[name] / each["ms"]


def report(rows: Sequence[tuple[str, str, float, float]]) -> Iterator[str]:
    """Lines of all families, the medians by family, and that of all."""
    for network, family, ms, ratio in rows:
        yield f"{network:14s} {family:18s} {ms:7.2f} ms measured, modelled {ratio:5.2f} times that"
    for family in dict.fromkeys(family for _, family, *_ in rows):
        found = [ratio for _, name, _, ratio in rows if name == family]
        yield f"median of {family}: {statistics.median(found):.2f} of {len(found)}"
    every = [ratio for *_, ratio in rows]
    yield f"median of all: {statistics.median(every):.2f} of {len(every)}; {_within(every)}"


def _within(ratios: Sequence[float], most: float = 1.5) -> str:
    count = sum(1 / most <= each <= most for each in ratios)
    return f"{count} within a factor of {most}"


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.modelled")
    parser.description = (__doc__ or "").splitlines()[0]
    add = partial(parser.add_argument, metavar="")
    add("--networks", default=",".join(NETWORKS), help="by name, joined by commas")
    add_sizes(parser, batch=32)
    add("--target", default="host-opencl", help="host-opencl or host-vulkan")
    args = parser.parse_args(argv)
    through = THROUGH[parse_target(args.target).kind]
    said = json.loads(path_of("performance/gpu_families").read_text(encoding="utf-8"))
    measured: dict[str, Any] = {
        row["model"]: row["families"] for row in said["rows"] if row["through"] == through
    }
    rows = []
    for name in listed(args.networks, list(measured), "network"):
        entry = dataclasses.replace(FULL[name], batch=args.batch)
        found = families_of(entry, args.target)
        rows += [(name, *each) for each in ratios_of(found, measured[name])]
        print(f"{name} is priced", flush=True)
    print("\n".join(report(rows)))


if __name__ == "__main__":
    main()
