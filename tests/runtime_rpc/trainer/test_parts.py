"""Weights are read and written a part at a time: the same elements, and few bytes beside them."""

import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import rpc

from odtc.core.disk.tensor_file import write_tensors
from odtc.core.errors import DeviceError, OutputError
from odtc.core.onnx_model import weights
from odtc.core.onnx_model.weights import constant_parts, read_tensors
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.sessions.remote import RemoteSession
from odtc.runtime_rpc.sessions.session import Session


@pytest.fixture(scope="module")
def sessions():
    server = rpc.Server("127.0.0.1", 9190, silent=True)
    yield [LocalSession(), RemoteSession("device", rpc.connect("127.0.0.1", server.port))]
    server.terminate()


def filled(session: Session, like: np.ndarray, parts) -> np.ndarray:
    tensor = tvm.runtime.empty(like.shape, str(like.dtype), session.device)
    session.fill(tensor, parts)
    return tensor.numpy()


@settings(max_examples=40, deadline=None)
@given(
    shape=st.lists(st.integers(0, 7), max_size=4).map(tuple),
    dtype=st.sampled_from(["float32", "float16", "int64", "bool"]),
    part=st.sampled_from([1, 8, 100, 500]),
)
def test_parts_are_the_whole(sessions, tmp_path_factory, shape, dtype, part) -> None:
    value = np.random.default_rng(part).integers(0, 2 if dtype == "bool" else 99, shape)
    value = value.astype(dtype)
    path: Path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    write_tensors(path, {"w": value, "other": np.ones(3, np.float32)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "_PART", part)
        parts = dict(read_tensors(path))["w"]
        rows = math.prod(shape[1:]) if shape else 1
        assert all(each.size <= max(rows, part // 8) for each in parts())
        for session in sessions:
            np.testing.assert_array_equal(filled(session, value, parts()), value)
            constant = constant_parts(shape, dtype, 1)
            np.testing.assert_array_equal(filled(session, value, constant), np.ones(shape, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 3)])
def test_a_tensor_is_written_again_and_again(sessions, shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    for session in sessions:
        tensor = tvm.runtime.empty(shape, dtype, session.device)
        write = session.writer(tensor)
        for _ in range(2):
            value = rng.integers(0, 2, shape).astype(dtype)
            write(value)
            np.testing.assert_array_equal(tensor.numpy(), value)


def test_a_scalar_is_read(sessions) -> None:
    for session in sessions:
        scalar = tvm.runtime.empty((), "float32", session.device)
        session.writer(scalar)(np.float32(0.1))
        assert session.number(scalar) == float(np.float32(0.1))


def test_memory_that_is_a_files_pages(sessions, tmp_path: Path) -> None:
    local, of_tvm = sessions
    spec = TensorSpec("m/w", (500, 200))
    tensor = local.file_memory(spec, str(tmp_path / "new"))
    assert (tensor.shape, str(tensor.dtype)) == (spec.shape, spec.dtype)
    value = np.arange(100_000, dtype=np.float32).reshape(spec.shape)
    tensor.copyfrom(value)
    np.testing.assert_array_equal(tensor.numpy(), value)
    assert not any((tmp_path / "new").iterdir())
    with pytest.raises(OutputError, match="no file of 1,152,921,504,606,846,976 bytes"):
        local.file_memory(TensorSpec("m/w", (1 << 60,), "uint8"), str(tmp_path))
    with pytest.raises(DeviceError, match="TVM's RPC server maps no files"):
        of_tvm.file_memory(spec, None)


def test_a_large_weight_is_not_copied_as_a_whole(tmp_path: Path) -> None:
    value = np.zeros((512, 64, 64), np.float32)
    write_tensors(tmp_path / "w.safetensors", {"w": value})
    tensor = tvm.runtime.empty(value.shape, "float32")
    ((_, parts),) = read_tensors(tmp_path / "w.safetensors")
    tracemalloc.start()
    LocalSession().fill(tensor, parts())
    assert tracemalloc.get_traced_memory()[1] < value.nbytes // 4
    tracemalloc.stop()
