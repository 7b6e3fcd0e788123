"""An export of a process that has exported before is that of one that has not."""

from pathlib import Path
from unittest.mock import patch

import torch
from torch.onnx._internal import _lazy_import

from tests.calls import calls_of


def exported(path: Path) -> bytes:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.GELU(), torch.nn.Flatten())
    x = (torch.zeros(1, 2, 4, 4),)
    torch.onnx.export(module, x, path, dynamo=True, verbose=False, external_data=False)
    return path.read_bytes()


def test_functions_are_read_once(tmp_path: Path) -> None:
    scripts = _lazy_import.onnxscript_apis
    assert "get_torchlib_ops" in vars(scripts)
    exported(tmp_path / "m.onnx")
    once = calls_of(lambda: exported(tmp_path / "m.onnx"))
    unread = type(scripts)(scripts._name)
    with patch.object(scripts, "get_torchlib_ops", unread.get_torchlib_ops):
        assert calls_of(lambda: exported(tmp_path / "other.onnx")) > 1.5 * once
    assert (tmp_path / "m.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()
