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
from benchmarks.language_models.configs import ALPHA, RANK, TARGETS, UNIT
from benchmarks.models.stored import BLOCK, FORMS, OPSET, store
from odtc.comparison.measures.resident import reset_peak, resident
from odtc.core.process.trim import trim


@dataclass(frozen=True)
class Base:
    """How a base is stored, and the step compiled.

    Attributes:
        form: of `FORMS`.
        blocks: of the form's own length that have one scale.
        part_of: the base of which a part of the arena is the memory budget; "" for no budget.
        part: which one, as the number of them that are the whole.
    """

    form: str
    blocks: int = 1
    part_of: str = ""
    part: int = 1


# By name on the command line.
BASES = {
    "float32": Base("float32"),
    "float16": Base("float16"),
    "int8": Base("int8 by blocks"),
    "int4": Base("int4 by blocks"),
    "int4 in half": Base("int4 by blocks", part_of="int4", part=2),
    "int4 in a tenth": Base("int4 by blocks", part_of="int4", part=10),
    "int4 by 128 in a twelfth": Base("int4 by blocks", blocks=4, part_of="int4", part=12),
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
        seconds: of the compile, with an empty cache.
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

    from benchmarks.language_models.models import adapted, made

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
    budget = budget_of(base, folder)
    os.environ["XDG_CACHE_HOME"] = str(own / "cache")  # nothing of an earlier compile
    trim()
    reset_peak()
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


def budget_of(base: str, folder: Path) -> int | None:
    """The memory budget of a base; None where it has none."""
    said = BASES[base]
    if not said.part_of:
        return None
    return json.loads((folder / said.part_of / COMPILED).read_text())["arena"] // said.part


def stored(base: str, folder: Path, own: Path) -> Path:
    """The file of the model whose matrices are in the form of a base."""
    if base == "float32":
        return folder / MODEL
    model, said = onnx.load(folder / MODEL, load_external_data=False), BASES[base]

    def codes_of(tensor: onnx.TensorProto) -> tuple[np.ndarray, np.ndarray]:
        codes = numpy_helper.to_array(tensor, os.fspath(folder)) / np.float32(UNIT)
        rows, columns = codes.shape
        return codes, np.full((rows, columns // BLOCK), UNIT, np.float32)

    def stored_in(codes: np.ndarray, scale: np.ndarray) -> tuple[list[np.ndarray], dict[str, int]]:
        (matrix, *scales), attributes = FORMS[said.form](codes, scale)
        if said.blocks == 1:
            return [matrix, *scales], attributes
        # All scales are the same.
        wider = {"block_size": attributes["block_size"] * said.blocks}
        return [matrix, *(each[:, :: said.blocks] for each in scales)], attributes | wider

    # No operator of an export means anything else in this version of the operators.
    next(each for each in model.opset_import if not each.domain).version = OPSET
    store(model.graph, stored_in, codes_of)
    load_external_data_for_model(model, os.fspath(folder))
    onnx.save(model, own / MODEL, save_as_external_data=True, location=f"{MODEL}.data")
    return own / MODEL
