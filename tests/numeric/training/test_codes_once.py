"""What a file holds as integers is in an artifact once, and in exports as the file has it."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import odtc
from odtc.core.errors import UnsupportedError
from tests.frontend.file import test_contrib as nbits
from tests.numeric.training.test_quantised_base import (
    BASES,
    STEPS,
    TOKENS,
    VOCABULARY,
    Base,
    model_with,
)

KINDS: Mapping[str, Base] = {name: BASES[name] for name in ("uint8", "int4, blocks")}
LORA = odtc.LoRA(rank=2, targets="up|down")


def compiled(name: str, folder: Path) -> odtc.Artifact:
    """An artifact of a small language model over such a base."""
    model_with(KINDS[name], 1, folder / "m.onnx")
    return odtc.compile(folder / "m.onnx", loss="mse", lora=LORA, train=[])


def tensors_of(path: Path) -> dict[str, np.ndarray]:
    return {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}


@pytest.mark.parametrize("name", KINDS)
def test_codes_are_in_one_member(name: str, tmp_path: Path) -> None:
    artifact = compiled(name, tmp_path)
    artifact.save(tmp_path / "m.odtc")
    # Codes of four bits are turned in the model's file.
    found = [
        np.frombuffer(each.raw_data, np.uint8)[:64]
        for each in onnx.load(tmp_path / "m.onnx").graph.initializer
        if each.name in ("up", "down", "table")
    ]
    parts = [part.tobytes() for codes in found for part in (codes, codes ^ 0x88)]
    with zipfile.ZipFile(tmp_path / "m.odtc") as file:
        holding = {
            member: sum(part in file.read(member) for part in parts) for member in file.namelist()
        }
    assert {member: count for member, count in holding.items() if count} == {
        "parameters.safetensors": 3
    }


@pytest.mark.parametrize("name", ["4 bits", "8 bits, zero points", "float16", "a few columns"])
def test_so_are_those_of_onnxruntime(name: str, tmp_path: Path) -> None:
    tensors = nbits.tensors_of(nbits.FORMS[name])
    path = nbits.written(tmp_path / "m.onnx", nbits.FORMS[name], tensors)
    artifact = odtc.compile(path, loss="mse", lora=odtc.LoRA(rank=2), train=[])
    artifact.save(tmp_path / "m.odtc")
    part = tensors["k.weight_Q4"].tobytes()[:16]
    with zipfile.ZipFile(tmp_path / "m.odtc") as file:
        holding = {member for member in file.namelist() if part in file.read(member)}
    # Rows that end within a byte of the step's, or blocks that end behind a row, are in both.
    both = {"model.onnx"} if name == "a few columns" else set()
    assert holding == {"parameters.safetensors"} | both
    artifact.trainer().export_onnx(tmp_path / "out.onnx", merge=False)
    found = tensors_of(tmp_path / "out.onnx")
    assert found.keys() == tensors.keys()
    for key, value in tensors.items():
        np.testing.assert_array_equal(found[key], value)


@pytest.mark.parametrize("name", KINDS)
def test_an_export_beside_adapters_has_the_tensors_of_the_file(name: str, tmp_path: Path) -> None:
    trainer = compiled(name, tmp_path).trainer()
    rng = np.random.default_rng(0)
    ids = rng.integers(0, VOCABULARY, (1, TOKENS))
    for _ in range(STEPS):
        trainer.step(ids, rng.standard_normal((1, TOKENS, VOCABULARY), np.float32), lr=0.1)
    trainer.export_onnx(tmp_path / "out.onnx", merge=False)
    expected, found = tensors_of(tmp_path / "m.onnx"), tensors_of(tmp_path / "out.onnx")
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key].dtype == value.dtype
        np.testing.assert_array_equal(found[key], value)
    # As before it was an argument: no parameter, and no place for what an adapter adds.
    assert {*trainer.parameters()} == {
        name for each in trainer.manifest.adapters for name in (each.down, each.up)
    }
    with pytest.raises(UnsupportedError, match="kept as integers"):
        trainer.export_onnx(tmp_path / "merged.onnx")
