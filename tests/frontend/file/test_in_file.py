"""Large tensors that stay in the file until they are asked for."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.core.artifact.bundle import file_sha256
from odtc.core.errors import ModelError
from odtc.driver import building
from odtc.frontend.file.onnx_file import load_model
from odtc.frontend.file.specialize import read_graph
from odtc.frontend.weights import in_file
from odtc.frontend.weights.in_file import (
    array_of,
    bytes_of,
    elements_in_files,
    put_into,
    read_in_file,
)

_RNG = np.random.default_rng(0)
VALUES = {
    "w": _RNG.standard_normal((64, 80)).astype(np.float32),
    "half": _RNG.standard_normal((40, 80)).astype(np.float16),
    "wide": _RNG.standard_normal((1, 80)),
    "rows": np.arange(5000),
    "few": np.ones(2, np.float32),
}


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_file, "_LARGE_FILE", 0)
    monkeypatch.setattr(in_file, "_LARGE_TENSOR", 256)


def _model(tensors: list[TensorProto] | None = None, opset: int = 17) -> onnx.ModelProto:
    stored = [numpy_helper.from_array(value, name) for name, value in VALUES.items()]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])
        for name, size in (("x", 64), ("y", 80))
    ]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], tensors or stored)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, producer_name="p"
    )


def _held(model: onnx.ModelProto) -> set[str]:
    """Names of the tensors whose elements the model has."""
    return {t.name for t in model.graph.initializer if not t.external_data}


@pytest.mark.parametrize("apart", [False, True])
def test_the_same_model_comes_out(tmp_path: Path, apart: bool) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(_model(), path, save_as_external_data=apart, location="m.data", size_threshold=256)
    model, whole = load_model(path, in_file=True), load_model(path)
    assert _held(model) == {"rows", "few"}
    for tensor, other in zip(model.graph.initializer, whole.graph.initializer, strict=True):
        value = array_of(tensor)
        np.testing.assert_array_equal(value, VALUES[tensor.name], strict=True)
        assert not value.flags.writeable
        # But for the path, which takes its part.
        assert bytes_of(tensor) == pytest.approx(bytes_of(other), abs=400)
        del tensor.external_data[:], other.external_data[:]
        tensor.ClearField("data_location")
        tensor.ClearField("raw_data")
        other.ClearField("raw_data")
        other.ClearField("data_location")
    assert model == whole


def test_elements_that_are_no_bytes_are_held(tmp_path: Path) -> None:
    value = VALUES["w"]
    tensor = helper.make_tensor("w", TensorProto.FLOAT, value.shape, value.ravel().tolist())
    onnx.save(_model([tensor]), tmp_path / "m.onnx")
    model = load_model(tmp_path / "m.onnx", in_file=True)
    assert _held(model) == {"w"}
    np.testing.assert_array_equal(array_of(model.graph.initializer[0]), value)


def test_a_model_that_onnx_converts_is_read_as_a_whole(tmp_path: Path) -> None:
    onnx.save(_model(opset=6), tmp_path / "m.onnx")
    assert _held(load_model(tmp_path / "m.onnx", in_file=True)) == VALUES.keys()


def _said(path: Path, in_file: bool) -> str:
    with pytest.raises(ModelError) as caught:
        read_graph(load_model(path, in_file=in_file))
    return str(caught.value)


def _cut(path: Path) -> None:
    onnx.save(_model(), path)
    path.write_bytes(path.read_bytes()[:-100])


def _scrambled(path: Path) -> None:
    onnx.save(_model(), path)
    path.write_bytes(b"\xff" * 40 + path.read_bytes())


def _other_shape(path: Path) -> None:
    tensor = numpy_helper.from_array(VALUES["w"], "w")
    tensor.dims[0] = 65
    model = _model([tensor])
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 65
    onnx.save(model, path)


def _odd_bytes(path: Path) -> None:
    tensor = numpy_helper.from_array(VALUES["w"], "w")
    tensor.raw_data = tensor.raw_data + b"\0"
    onnx.save(_model([tensor]), path)


def _without_its_data(path: Path) -> None:
    onnx.save(_model(), path, save_as_external_data=True, location="m.data", size_threshold=256)
    (path.parent / "m.data").unlink()


def _short_data(path: Path) -> None:
    onnx.save(_model(), path, save_as_external_data=True, location="m.data", size_threshold=256)
    (path.parent / "m.data").write_bytes(b"\0" * 300)


def _outside(path: Path) -> None:
    (path.parent / "inner").mkdir()
    onnx.save(_model(), path, save_as_external_data=True, location="m.data", size_threshold=256)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../m.data"
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    "write",
    [_cut, _scrambled, _other_shape, _odd_bytes, _without_its_data, _short_data, _outside],
)
def test_damage_is_told_in_the_same_words(tmp_path: Path, write) -> None:
    path = tmp_path / "m.onnx"
    write(path)
    assert _said(path, in_file=True) == _said(path, in_file=False)


@pytest.mark.parametrize("apart", [False, True])
def test_all_of_them_are_put_into_the_model(tmp_path: Path, apart: bool) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(_model(), path, save_as_external_data=apart, location="m.data", size_threshold=256)
    model = load_model(path, in_file=True)
    put_into(model, VALUES)
    for tensor in model.graph.initializer:
        assert not tensor.external_data
        value = numpy_helper.to_array(tensor)
        np.testing.assert_array_equal(value, VALUES[tensor.name], strict=True)


@pytest.mark.parametrize("apart", [False, True])
def test_a_model_may_go_once_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    """A compile writes the model that it has read, and identifies it by its hash."""
    path = tmp_path / "m.onnx"
    onnx.save(_model(), path, save_as_external_data=apart, location="m.data", size_threshold=256)
    digest = file_sha256(path)
    build_step = building.build_step

    def late(*given: object):
        for each in tmp_path.glob("m.*"):
            each.write_bytes(b"another file")
        return build_step(*given)

    monkeypatch.setattr(building, "build_step", late)
    with odtc.compile(path, batch=2, loss="mse") as artifact:
        assert artifact.manifest.model_sha256 == digest
        skeleton = onnx.load(artifact._bundle.model)
    for tensor in skeleton.graph.initializer:
        if tensor.name != "w":
            value = numpy_helper.to_array(tensor)
            np.testing.assert_array_equal(value, VALUES[tensor.name], strict=True)


def test_an_artifact_is_the_same_however_the_model_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(_model(), path)
    made = []
    for large in (0, 1 << 30):
        monkeypatch.setattr(in_file, "_LARGE_FILE", large)
        with odtc.compile(path, batch=2, loss="mse") as artifact:
            made.append(artifact.manifest.files)
            skeleton = onnx.load(artifact._bundle.model)
        held = {tensor.name for tensor in skeleton.graph.initializer if tensor.raw_data}
        assert held == VALUES.keys() - {"w"}
    assert made[0] == made[1]


def test_a_file_that_is_larger_than_any_model_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "holes.onnx"
    with path.open("wb") as file:
        file.truncate(50 << 30)
    with pytest.raises(ValueError, match="it has 53,687,091,200 bytes; a model"):
        read_in_file(path)
    with pytest.raises(ValueError, match="it has 53,687,091,200 bytes; a model"):
        list(elements_in_files(path))
    for is_in_file in (True, False):
        with pytest.raises(ModelError, match="it has 53,687,091,200 bytes; a model"):
            load_model(path, in_file=is_in_file)


@pytest.mark.parametrize("is_in_file", [False, True])
@pytest.mark.parametrize(
    ("spoil", "said", "hint"),
    [
        # As all files in the cache of Hugging Face's hub are.
        (lambda data, blob: (data.rename(blob), data.symlink_to(blob)), "symbolic link", "cp -rL"),
        (lambda data, blob: blob.hardlink_to(data), "hard links", "cp -rL"),
        (lambda data, _: data.unlink(), "m.data", "copy or download both files"),
        (lambda data, _: (data.unlink(), data.mkdir()), "m.data", "copy or download both files"),
        (lambda data, _: os.truncate(data, 8), "exceeds available data", "copy it again"),
    ],
)
def test_data_that_cannot_be_read_is_told_with_a_way_out(
    tmp_path: Path, spoil: Callable[[Path, Path], object], said: str, hint: str, is_in_file: bool
) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(_model(), path, save_as_external_data=True, location="m.data", size_threshold=256)
    spoil(tmp_path / "m.data", tmp_path / "blob")
    with pytest.raises(ModelError, match="external data cannot be read") as error:
        load_model(path, in_file=is_in_file)
    assert said in str(error.value)
    assert hint in str(error.value.hint)
