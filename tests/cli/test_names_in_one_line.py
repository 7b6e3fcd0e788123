"""Names that a file gives do not make lines of their own in what is printed."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from odtc.cli.main import main

# What would look like a line of odtc's, and steers the terminal.
LINE = "\nerror: no such thing\x1b[31m"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "m.onnx"
    weight = numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), f"w{LINE}")
    node = helper.make_node("MatMul", [f"x{LINE}", f"w{LINE}"], [f"y{LINE}"])
    given, found = (
        helper.make_tensor_value_info(f"{name}{LINE}", TensorProto.FLOAT, [f"N{LINE}", size])
        for name, size in (("x", 4), ("y", 3))
    )
    graph = helper.make_graph([node], "g", [given], [found], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert main(["compile", str(path), "--batch", "2", "-o", str(path.with_suffix(".odtc"))]) == 0
    return path


X, Y = np.ones((8, 4), np.float32), np.zeros(8, np.int64)
OPTIONS = ("--shape=none=3", "--loss=none=mse", "--set=none=2", "--batch-axis=none=2")
ARRAYS = {
    "others": {f"x{LINE}": X, "y": Y, f"z{LINE}": Y},
    "missing": {f"z{LINE}": Y},
    "of another shape": {f"x{LINE}": X.T, "y": Y},
    "not finite": {f"x{LINE}": X * np.nan, "y": Y},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_of_options(model: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(model.with_name("out.odtc"))
    assert main(["compile", str(model), "--batch", "2", option, "-o", out]) == 2
    assert_no_line(capsys.readouterr().err)


@pytest.mark.parametrize("what", ARRAYS)
def test_of_data(
    model: Path, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "d.npz", **ARRAYS[what])  # type: ignore[arg-type]
    artifact = str(model.with_suffix(".odtc"))
    main(["train", artifact, "--data", str(tmp_path / "d.npz"), "--steps", "2", "--lr", "0.1"])
    assert_no_line(capsys.readouterr().err)


def assert_no_line(printed: str) -> None:
    assert r"\nerror: no such thing\x1b[31m" in printed
    assert not re.search(r"^error: no such thing", printed, re.MULTILINE)
