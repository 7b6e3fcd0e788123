"""What a process writes for those that are measured: a model, and a step of odtc for each base.

base/ adapter/ model.onnx batch.npz      ←export
BASE/step.odtc BASE/batch.bin BASE/...   ←compile, for each base
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.external_data_helper import load_external_data_for_model

import odtc
from benchmarks.language_models.models import ALPHA, RANK, TARGETS, UNIT, adapted, made
from benchmarks.models.stored import BLOCK, FORMS, OPSET, store
from odtc.comparison.measures.resident import resident


@dataclass(frozen=True)
class Base:
    """How a base is stored, and the step compiled.

    Attributes:
        form: of `FORMS`.
        half_of: the base of which half the arena is the memory budget; "" for no budget.
    """

    form: str
    half_of: str = ""


# By name on the command line.
BASES = {
    "float32": Base("float32"),
    "float16": Base("float16"),
    "int8": Base("int8 by blocks"),
    "int4": Base("int4 by blocks"),
    "int4 in half": Base("int4 by blocks", half_of="int4"),
}
LOSS = "cross-entropy{axis=2,ignore-index=-100}"
OPTIMIZER = "adamw"
LORA = odtc.LoRA(rank=RANK, alpha=ALPHA, targets="|".join(f"*{each}*" for each in TARGETS))
MODEL, BATCH, ARTIFACT = "model.onnx", "batch.npz", "step.odtc"
FED = "batch.bin"
# Fields of `Compiled`.
COMPILED = "compiled.json"
# Of an artifact, what a program in C opens, in the order of its words.
MEMBERS = ("program.bin", "parameters.safetensors", "step.so")


@dataclass(frozen=True)
class Compiled:
    """A step of odtc.

    Attributes:
        arena: bytes of it.
        arguments: bytes of weights, adapters and state outside of the program.
        artifact: bytes of the file.
        program: bytes of `program.bin`, in which the base of few bits is.
        seconds: of the compile.
        peak: the most memory of the process that compiled.
    """

    arena: int
    arguments: int
    artifact: int
    program: int
    seconds: float
    peak: int


def export(name: str, tokens: int, folder: Path) -> None:
    """Writes a model for PyTorch and for odtc, adapters, and a batch of one sample."""
    import torch

    module = made(name)
    module.save_pretrained(folder / "base")  # pyright: ignore[reportCallIssue]
    ids = np.random.default_rng(0).integers(0, module.config.vocab_size, (1, tokens))  # pyright: ignore
    labels = np.concatenate([ids[:, 1:], [[-100]]], 1)
    np.savez(folder / BATCH, ids=ids, labels=labels)
    odtc.from_torch(module, {"input_ids": torch.from_numpy(ids)}, folder / MODEL)
    adapted(module).save_pretrained(folder / "adapter")  # pyright: ignore[reportCallIssue]


def compile_base(base: str, folder: Path) -> Compiled:
    """Compiles the step over a base, and writes what a program in C opens."""
    own = folder / base
    own.mkdir()
    path = stored(base, folder, own)
    budget = _budget(base, folder)
    began = time.perf_counter()
    artifact = odtc.compile(
        path, batch=1, loss=LOSS, optimizer=OPTIMIZER, lora=LORA, memory_budget=budget
    )
    seconds = time.perf_counter() - began
    artifact.save(own / ARTIFACT)
    for each in MEMBERS:
        (own / each).write_bytes((artifact._bundle.root / each).read_bytes())
    with np.load(folder / BATCH) as arrays:
        (x,), (label,) = artifact.manifest.inputs, artifact.manifest.labels
        fed = arrays["ids"].astype(x.dtype), arrays["labels"].astype(label.spec.dtype)
    (own / FED).write_bytes(b"".join(each.tobytes() for each in fed))
    for other in own.glob("model.onnx*"):
        other.unlink()
    return Compiled(
        artifact.memory.arena_bytes,
        sum(each.spec.nbytes for each in artifact.manifest.arguments),
        (own / ARTIFACT).stat().st_size,
        (own / MEMBERS[0]).stat().st_size,
        seconds,
        resident("VmHWM"),
    )


def _budget(base: str, folder: Path) -> int | None:
    if not (other := BASES[base].half_of):
        return None
    return json.loads((folder / other / COMPILED).read_text())["arena"] // 2


def stored(base: str, folder: Path, own: Path) -> Path:
    """The file of the model whose matrices are in the form of a base."""
    if base == "float32":
        return folder / MODEL
    model = onnx.load(folder / MODEL, load_external_data=False)

    def codes_of(tensor: onnx.TensorProto) -> tuple[np.ndarray, np.ndarray]:
        codes = numpy_helper.to_array(tensor, os.fspath(folder)) / np.float32(UNIT)
        rows, columns = codes.shape
        return codes, np.full((rows, columns // BLOCK), UNIT, np.float32)

    # No operator of an export means anything else in this version of the operators.
    next(each for each in model.opset_import if not each.domain).version = OPSET
    store(model.graph, FORMS[BASES[base].form], codes_of)
    load_external_data_for_model(model, os.fspath(folder))
    onnx.save(model, own / MODEL, save_as_external_data=True, location=f"{MODEL}.data")
    return own / MODEL
