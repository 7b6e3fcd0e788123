"""An export of a process that has exported before is that of one that has not."""

from inspect import ismethod, unwrap
from pathlib import Path
from unittest.mock import patch

import torch
from torch.export import decomp_utils
from torch.onnx._internal import _lazy_import
from torch.onnx._internal.exporter._registration import ONNXRegistry

from tests.calls import calls_of


def exported(path: Path) -> bytes:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.GELU(), torch.nn.Flatten())
    x = (torch.zeros(1, 2, 4, 4),)
    torch.onnx.export(module, x, path, dynamo=True, verbose=False, external_data=False)
    return path.read_bytes()


def test_functions_are_read_once(tmp_path: Path) -> None:
    assert "get_torchlib_ops" in vars(_lazy_import.onnxscript_apis)
    exported(tmp_path / "m.onnx")
    once = calls_of(lambda: exported(tmp_path / "m.onnx"))
    scripts = _lazy_import.onnxscript_apis
    unread = type(scripts)(scripts._name)
    anew = unwrap(ONNXRegistry.from_torchlib, stop=ismethod)
    with (
        patch.object(scripts, "get_torchlib_ops", unread.get_torchlib_ops),
        patch.object(ONNXRegistry, "from_torchlib", anew),
    ):
        assert calls_of(lambda: exported(tmp_path / "other.onnx")) > 1.5 * once
    assert (tmp_path / "m.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()


def test_what_an_export_registers_is_its_own() -> None:
    def relu(x: object) -> object:
        return x

    target = torch.ops.aten.relu.default
    one = ONNXRegistry.from_torchlib(18)
    before = len(one.get_decomps(target))
    one.register_op(target, relu)
    assert len(one.get_decomps(target)) == before + 1
    assert len(ONNXRegistry.from_torchlib(18).get_decomps(target)) == before
    one.functions.clear()
    assert ONNXRegistry.from_torchlib(18).functions
    assert ONNXRegistry.from_torchlib(17).opset_version == 17


def test_operators_that_are_loaded_later_are_found() -> None:
    found = vars(decomp_utils)["_collect_all_valid_cia_ops"]
    assert found() is found()
    assert torch.ops.aten.linear.default in found()
    library = torch.library.Library("odtc_tests", "DEF")
    try:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        assert torch.ops.odtc_tests.twice.default in found()
    finally:
        library._destroy()
