"""Files of models that nobody vouches for: each is refused in time, in little memory, by an error.

Each file is made here; what an ordinary large model has passes.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from odtc.cli.main import main
from odtc.core.errors import ExitCode

F32 = TensorProto.FLOAT
DOMAIN = "local"
OPSETS = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]


def model_of(nodes, weights=(), functions=(), opsets=OPSETS, output=2) -> onnx.ModelProto:
    """Nodes from x of 4 features to y."""
    x, y = (
        helper.make_tensor_value_info(name, F32, ["N", size])
        for name, size in (("x", 4), ("y", output))
    )
    held = [numpy_helper.from_array(np.ones((4, 2), np.float32), "w"), *weights]
    graph = helper.make_graph(nodes, "graph", [x], [y], held)
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=10, functions=functions, producer_name="producer"
    )


def product(given: str = "x") -> onnx.NodeProto:
    return helper.make_node("MatMul", [given, "w"], ["y"], name="product")


def check(path: Path, capsys, *options: str) -> tuple[int, str]:
    """The exit code of `odtc check`, and what it says."""
    code = main(["check", str(path), *options])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["tanh", "product", "graph", "the key", "the value", "noted", "hidden", "x", "w"]
)
def test_text_that_is_not_utf8(text: str, tmp_path: Path, capsys) -> None:
    nodes = [helper.make_node("Gelu", ["x"], ["hidden"], approximate="tanh"), product("hidden")]
    nodes[0].metadata_props.add(key="noted", value="so")
    model = model_of(nodes)
    model.metadata_props.add(key="the key", value="the value")
    encoded = bytes([len(text)]) + text.encode()
    data = model.SerializeToString()
    assert encoded in data
    (tmp_path / "m.onnx").write_bytes(data.replace(encoded, encoded[:-1] + b"\xff"))
    code, said = check(tmp_path / "m.onnx", capsys, "--all")
    assert code == ExitCode.MODEL
    assert "is not UTF-8: byte 0xff at" in said


def test_bytes_of_another_domain_are_its_own(tmp_path: Path, capsys) -> None:
    """They are the business of who reads that node; nothing here needs it."""
    other = helper.make_node("Cached", ["x"], ["z"], domain="com.example", context=b"\xff\xfe")
    model = model_of([product(), other])
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    onnx.save(model, tmp_path / "m.onnx")
    assert check(tmp_path / "m.onnx", capsys, "--all") == (ExitCode.OK, "")
