"""Whether commits compile the same steps: `python -m benchmarks.same_steps`.

Compiles the steps of some networks for this machine's CPU, and notes the hash of their code and
programs beside the commit in docs/results/steps.json. Figures of two commits with the same hash are
of the same kernels, whatever else changed in the sources: messages, say, or how fast a plan is
found (`benchmarks.pages.kernels`).
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from rich.console import Console

import odtc
from benchmarks.models.decoder import DecoderShape, decoder
from benchmarks.pages.kernels import STEPS
from benchmarks.step_time.cases import case_of
from odtc.artifact import Artifact
from odtc.backends.targets import parse_target
from odtc.comparison.measures.measure import commit
from odtc.core.artifact import bundle as bundles

NETWORKS = (
    *("lenet", "squeezenet", "mobilenet_v2", "googlenet", "resnet18", "resnet50", "vgg16"),
    *("zoo/densenet121", "bert_base", "char_lstm"),
)
# LoRA over 4 bits of a decoder of the shape of SmolLM2-135M.
_ADAPTERS = "adapters"
_BATCH, _THREADS = 4, (1, 2)


def hash_of(console: Console) -> dict[str, Any]:
    """The target, and the hash of the steps that these sources make for it."""
    found, target = hashlib.sha256(), parse_target("host-cpu").resolved()
    for threads in _THREADS:
        text = f"host-cpu{{mcpu={target.mcpu},threads={threads}}}"
        for name in (*NETWORKS, _ADAPTERS):
            with TemporaryDirectory() as made, console.status(f"{name}, {threads} threads"):
                found.update(_code_of(_compiled(name, text, Path(made)), Path(made)))
    return {"target": f"host-cpu{{mcpu={target.mcpu}}}", "hash": found.hexdigest()[:16]}


def _compiled(name: str, target: str, folder: Path) -> Artifact:
    path = folder / "model.onnx"
    if name == _ADAPTERS:
        onnx.save(decoder(DecoderShape()), path)
        lora, loss = "rank=8,alpha=16", "cross-entropy{axis=-1}"
        return odtc.compile(path, target, batch=1, loss=loss, quantize="int4", lora=lora)
    case = case_of(name, _BATCH)
    onnx.save(case.model, path)
    return odtc.compile(path, target, batch=_BATCH, loss=case.loss)


def _code_of(step: Artifact, folder: Path) -> bytes:
    """The hash of a step's library and program."""
    step.save(folder / "step.odtc")
    bundle = bundles.load(folder / "step.odtc", step.manifest.tvm)
    members = [(bundle.root / name).read_bytes() for name in (bundles.LIBRARY, bundles.PROGRAM)]
    return hashlib.sha256(b"".join(members)).digest()


def main() -> int:
    """Notes this commit; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_steps")
    parser.description = (__doc__ or "").splitlines()[0]
    parser.add_argument("--file", type=Path, default=STEPS, metavar="", help="that is written")
    args = parser.parse_args()
    console, name = Console(stderr=True), commit()
    if name.endswith("-dirty"):
        console.print("sources differ from the commit: commit them first")
        return 1
    entry = {"commit": name, **hash_of(console)}
    said = json.loads(args.file.read_text("utf-8")) if args.file.is_file() else {"commits": []}
    said["commits"] = [e for e in said["commits"] if e["commit"] != name] + [entry]
    args.file.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    console.print(f"{name}: {entry['hash']} for {entry['target']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
