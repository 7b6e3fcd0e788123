"""Compiles training steps for `benchmarks.gpu.run`: a folder for each network and interface."""

import argparse
import dataclasses
import json
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import onnx
from rich.console import Console

import odtc
from benchmarks.gpu.program_calls import calls_in
from benchmarks.kernel_time.layers import layers_of
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches, make
from benchmarks.models.pytorch.table import FULL
from benchmarks.options import add_sizes, listed
from odtc.artifact import Artifact
from odtc.backends.targets import parse_target
from odtc.core.artifact import bundle as bundles
from odtc.driver.drafts.fitting import PRECISIONS
from odtc.runtime_rpc.native.build import GPUS, Library, runtime_library

NETWORKS = ("squeezenet", "resnet50", "mobilenet_v2", "bert_base")
# Of a first step in mixed precision: no step of these networks overflows.
LOSS_SCALE = 1024
# The usual host code of a machine with a GPU, not that of this machine.
TARGET = "host-opencl{mcpu=x86-64-v3}"
_PRECISION = "float32, or mixed, which is timed beside PyTorch's autocast (default: float32)"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.prepare", description=__doc__)
    add = partial(parser.add_argument, metavar="")
    parser.add_argument("folder", type=Path)
    networks = partial(listed, known=list(FULL), what="network")
    usual = ",".join(NETWORKS)
    add("--networks", type=networks, default=usual, help="by name, joined by commas")
    add_sizes(parser, batch=32)
    add("--target", default=TARGET, help="what to compile for: a|b{mcpu=c} is two")
    add("--precision", default="float32", choices=PRECISIONS, help=_PRECISION)
    return parser


def main() -> None:
    """Writes the folders, and the native runtime beside them."""
    args = _parser().parse_args()
    console = Console(stderr=True)
    copy_runtime(args.folder)
    for name in args.networks:
        for target in targets_of(args.target):
            folder = args.folder / folder_of(name, target, args.precision)
            with console.status(f"{name}: compile"):
                prepare(name, args.batch, target, folder, args.precision)
            console.print(f"{name}: {folder}")


def targets_of(text: str) -> list[str]:
    """The targets of a text that joins them by `|`: the options of the last are those of others."""
    *others, last = text.split("|")
    name, brace, options = last.partition("{")
    return [*(f"{each}{brace}{options}" for each in others), f"{name}{brace}{options}"]


def folder_of(name: str, target: str, precision: str) -> str:
    """The folder of a network's step, so that both precisions may lie side by side."""
    usual = f"{name}-{parse_target(target).kind}"
    return usual if precision == PRECISIONS[0] else f"{usual}-{precision}"


def prepare(name: str, batch: int, target: str, folder: Path, precision: str = "float32") -> None:
    """Compiles one network."""
    entry = dataclasses.replace(FULL[name], batch=batch)
    module = make(entry)
    with tempfile.TemporaryDirectory() as made:
        model = Path(made, "model.onnx")
        x, _ = next(batches(entry))
        export(module, x, model)
        artifact = odtc.compile(
            model,
            target=target,
            batch=batch,
            loss=entry.loss,
            precision=precision,
            optimizer=odtc.Update("sgd", loss_scale=_loss_scale(target, precision)),
        )
        layers = layers_of(onnx.load(model), batch)
    known = module.state_dict()
    strange = [
        item.spec.name
        for item in artifact.manifest.arguments
        if str(item.role) in WEIGHTS and item.spec.name not in known
    ]
    assert not strange, f"the export renamed {strange}"
    said = {
        "network": name,
        "layers": [dataclasses.asdict(layer) for layer in layers],
        "batch": batch,
        "precision": precision,
        "loss_scale": LOSS_SCALE if precision == "mixed" else None,
        "notes": list(artifact.manifest.notes),
    }
    write_step(artifact, folder, said)


def _loss_scale(target: str, precision: str) -> str | None:
    """PyTorch's, where gradients may overflow: a step that is left out parts the losses."""
    may = precision == "mixed" and parse_target(target).has_half_arithmetic
    return f"dynamic{{initial={LOSS_SCALE}}}" if may else None


def write_step(artifact: Artifact, folder: Path, said: Mapping[str, Any]) -> None:
    """Writes the library of a step, and its description, to a folder for `OdtcStep`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        artifact.save(Path(made, "step.odtc"))
        bundle = bundles.load(Path(made, "step.odtc"), artifact.manifest.tvm)
        for member in (bundles.LIBRARY, bundles.PROGRAM, bundles.PARAMETERS):
            shutil.copy(bundle.root / member, folder / member)
    arguments = [
        {
            "role": str(item.role),
            "name": item.spec.name,
            "shape": list(item.spec.shape),
            "dtype": item.spec.dtype,
        }
        for item in artifact.manifest.arguments
    ]
    about = {
        **said,
        "target": artifact.manifest.target,
        "odtc": artifact.manifest.odtc,
        "arena_bytes": artifact.memory.arena_bytes,
        "parameter_bytes": artifact.memory.parameter_bytes,
        "arguments": arguments,
        "calls": calls_in((folder / bundles.PROGRAM).read_bytes()),
    }
    (folder / "step.json").write_text(json.dumps(about), encoding="utf-8")


def copy_runtime(folder: Path, library: Library = GPUS) -> None:
    """Writes the native runtime beside the folders of steps."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / library.name).write_bytes(runtime_library(library))


WEIGHTS = ("parameter", "frozen", "statistic")

if __name__ == "__main__":
    main()
