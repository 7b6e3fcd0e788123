"""Messages of the native runtime that hold names and paths of any bytes and length."""

import errno
import os
import resource
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.core.errors import OutputError
from odtc.runtime_rpc.native.interface import Code, NativeError, loaded_runtime
from tests.native.parity import native_trainer
from tests.numeric.mlp import mlp_artifact

# A message has 100 bytes of a name at most, the last of which is half of a letter here.
NAME = "w" + "é" * 60


def test_a_name_that_is_cut_within_a_letter(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD())
    members = tmp_path / "members"
    with native_trainer(artifact, members) as native, pytest.raises(NativeError) as caught:
        native.evaluate(NAME)
    assert caught.value.code is Code.USAGE
    assert str(caught.value) == f"the output w{'é' * 49}\ufffd cannot be evaluated"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> odtc.Artifact:
    """A model whose state lies in files, where it may."""
    weight = numpy_helper.from_array(np.full((256, 80), 0.01, np.float32), NAME)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", NAME], ["y"])],
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 80])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path := tmp_path_factory.mktemp("wide") / "wide.onnx")
    return odtc.compile(path, batch=2, optimizer=odtc.SGD(momentum=0.9))


def no_file(artifact: odtc.Artifact, folder: Path) -> OutputError:
    with pytest.raises(OutputError) as caught:
        artifact.trainer(threads=1, storage=folder, offload_state=True)
    assert caught.value.where == str(folder)
    return caught.value


@pytest.mark.parametrize("name", ["plain", os.fsdecode(b"\xff\xfe")])
def test_no_room_for_a_file_of_any_name(stored, name: str, tmp_path: Path) -> None:
    loaded_runtime()  # which is a larger file
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        error = no_file(stored, tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert f" bytes for momentum/{NAME[:40]}" in error.what
    assert error.what.endswith(os.strerror(errno.EFBIG))


def deep(folder: Path, length: int) -> Path:
    """A folder in it whose path has so many bytes."""
    while (left := length - len(os.fsencode(folder))) > 1:
        # The last name takes what is left; none is of one byte, beside its separator.
        folder /= "d" * (left - 1 if left <= 200 else 100)
    return folder


def test_long_paths_of_a_folder(stored, tmp_path: Path) -> None:
    """One as long as the system takes; what is beyond that is no fault of the artifact."""
    x, y = np.ones((2, 256), np.float32), np.arange(2)
    with stored.trainer(threads=1, storage=deep(tmp_path, 3000), offload_state=True) as trainer:
        trainer.step(x, y, lr=0.1)
    error = no_file(stored, deep(tmp_path, 4090))
    assert error.what.endswith(os.strerror(errno.ENAMETOOLONG))
