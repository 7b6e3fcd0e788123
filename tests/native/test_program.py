"""A program, read by an independent reader, agrees with the artifact's other parts."""

import hashlib
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from tvm import relax

import odtc
from benchmarks.models.digits import digits_model
from odtc.artifact import Artifact
from odtc.backends.program import straight_line
from odtc.backends.program.straight_line import lines_of
from odtc.core.artifact.bundle import BOUND, LIBRARY, PROGRAM, file_sha256, save, seal
from odtc.core.artifact.identity import identity_of
from odtc.core.artifact.library_file import build_id
from odtc.core.disk.content_store import nothing_kept
from odtc.core.errors import ArtifactError
from odtc.core.specs import Role
from tests.native.reader import Read, read
from tests.numeric.mlp import mlp_artifact
from tests.numeric.plans.test_memory_budget import tower

UPDATE = odtc.Update(odtc.AdamW(), accumulate=2, ema=0.9, loss_scale="dynamic")
THREADS = 3


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    path = tmp_path_factory.mktemp("program") / "tower.onnx"
    onnx.save(tower(layers=2), path)
    return odtc.compile(
        path, f"host-cpu{{threads={THREADS}}}", batch=4, optimizer=UPDATE, memory_budget="auto"
    )


@pytest.fixture(scope="module")
def program(artifact: Artifact) -> Read:
    return read((artifact._bundle.root / PROGRAM).read_bytes())


def test_the_header_is_of_the_artifact(artifact: Artifact, program: Read) -> None:
    identity, micro_batches, accumulate, threads, flags, scale = program.header[4:10]
    assert identity.hex() == identity_of(artifact.manifest, BOUND)
    assert (micro_batches, accumulate, threads, flags) == (1, 2, THREADS, 0)
    assert program.arguments[scale]["name"] == "update/loss-scale"
    assert program.facts["model_sha256"] == artifact.manifest.model_sha256
    assert program.facts["target"] == artifact.manifest.target


def test_the_library_has_its_hash(artifact: Artifact) -> None:
    content = (artifact._bundle.root / PROGRAM).read_bytes()
    assert build_id(artifact._bundle.library) == hashlib.sha256(content).hexdigest()
    assert artifact.manifest.files[PROGRAM] == file_sha256(artifact._bundle.root / PROGRAM)


def test_arguments_are_those_of_the_manifest(artifact: Artifact, program: Read) -> None:
    items = artifact.manifest.arguments
    assert len(program.arguments) == len(items)
    for found, item in zip(program.arguments, items, strict=True):
        assert found["role"] == item.role.value
        assert found["name"] == item.spec.name
        assert (found["dtype"], found["shape"]) == (item.spec.dtype, item.spec.shape)
        assert (found["bytes"], found["initial"]) == (item.spec.nbytes, item.initial)
        assert found["flags"] >> 2 == item.is_accumulator
        if item.role is Role.AVERAGE:
            of = program.arguments[found["averaged"]]
            assert (of["role"], f"ema/{of['name']}") == ("parameter", found["name"])
        if item.role is Role.LABEL:
            assert found["bounds"] == (0, 7)


def test_plans_make_the_calls_of_the_memory_plans(artifact: Artifact, program: Read) -> None:
    """The planner's own record of each plan has its kernels and the places of its tensors."""
    plans = [each for each in program.functions if each["output"] is None]
    records = json.loads((artifact._bundle.root / "memory.json").read_text())
    records = records if isinstance(records, list) else records["plans"]
    assert len(plans) == len(artifact.manifest.plans) == len(records) > 1
    for plan, said, record in zip(plans, artifact.manifest.plans, records, strict=True):
        assert (plan["name"], plan["arena"], plan["time"]) == (
            *(said.function, said.arena_bytes, said.time),
        )
        assert plan["budget"] == artifact.manifest.budget_of(said)
        kernels = [kernel.removeprefix("__tvm_ffi_") for kernel, _ in plan["calls"]]
        assert kernels == record["calls"]
        used = {
            (tensor["offset"], nbytes(tensor))
            for _, operands in plan["calls"]
            for tensor in (program.tensors[each] for each in operands)
            if tensor["in"] == "arena"
        }
        planned = {
            (each["offset"], nbytes(each["spec"])) for each in record["tensors"] if "spec" in each
        }
        assert used
        assert used <= planned


def nbytes(tensor) -> int:
    return math.prod(tensor["shape"]) * np.dtype(tensor["dtype"]).itemsize


def test_every_operand_lies_within_its_memory(program: Read) -> None:
    for function in program.functions:
        rooms = {"constant": len(program.constants), "arena": function["arena"]}
        rooms["result"] = function["result_bytes"]
        for _, operands in function["calls"]:
            for tensor in (program.tensors[each] for each in operands):
                argument = program.arguments[tensor["number"]]["bytes"]
                room = argument if tensor["in"] == "argument" else rooms[tensor["in"]]
                assert tensor["offset"] + nbytes(tensor) <= room
                assert tensor["offset"] % 64 == 0


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    with nothing_kept():
        first, second = (mlp_artifact(tmp_path, odtc.SGD()) for _ in range(2))
    assert first._bundle.program.read_bytes() == second._bundle.program.read_bytes()


def test_a_step_for_a_gpu_says_so(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD(), target="android-opencl")
    program = read(artifact._bundle.program.read_bytes())
    assert program.facts["gpu"] == "opencl"
    artifact.save(path := tmp_path / "step.odtc")
    with odtc.load(path) as loaded:
        assert PROGRAM in loaded._bundle.members


def test_a_program_cannot_be_left_out_or_exchanged(artifact: Artifact, tmp_path: Path) -> None:
    """Though the manifest's hashes are made anew."""
    other = mlp_artifact(tmp_path, odtc.SGD())
    for instead in (None, other._bundle.program.read_bytes()):
        root = tmp_path / f"edited {instead is None}"
        shutil.copytree(artifact._bundle.root, root)
        (root / PROGRAM).unlink()
        if instead is not None:
            (root / PROGRAM).write_bytes(instead)
        edited = seal(artifact.manifest, root, tmp_path)
        save(edited, path := tmp_path / "edited.odtc")
        with pytest.raises(ArtifactError, match="do not belong together"):
            odtc.load(path)


def test_library_and_program_of_another_artifact_are_refused(
    artifact: Artifact, tmp_path: Path
) -> None:
    """They belong together, and not to the weights and the manifest."""
    other = mlp_artifact(tmp_path, odtc.SGD(momentum=0.5))
    shutil.copytree(artifact._bundle.root, root := tmp_path / "edited")
    for name in (PROGRAM, LIBRARY):
        shutil.copy(other._bundle.root / name, root / name)
    save(seal(artifact.manifest, root, tmp_path), path := tmp_path / "edited.odtc")
    with pytest.raises(ArtifactError, match="do not belong together"):
        odtc.load(path)


def test_what_is_no_straight_line_is_named() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("train_step", [x]):
        builder.emit_func_output(builder.emit(relax.op.exp(x)))
    lines = lines_of(builder.get())
    assert (lines.of, lines.refused) == ({}, "train_step calls relax.exp")


def test_a_model_that_is_none_compiles_and_says_so(tmp_path: Path, monkeypatch) -> None:
    operators = {k: v for k, v in straight_line._OPERATORS.items() if k != "relax.reshape"}
    monkeypatch.setattr(straight_line, "_OPERATORS", operators)
    onnx.save(digits_model(), path := tmp_path / "digits.onnx")
    artifact = odtc.compile(path, batch=4)
    assert artifact._bundle.program is None
    (note,) = (each for each in artifact.manifest.notes if "native runtime" in each)
    assert re.fullmatch(
        r"there is no program for the native runtime: \w+ calls relax.reshape", note
    )
    artifact.save(path := tmp_path / "step.odtc")
    with odtc.load(path) as loaded, loaded.trainer(threads=1) as trainer:
        assert trainer.step(np.zeros((4, 1, 8, 8), np.float32), np.zeros(4, int), lr=0.1) > 0
