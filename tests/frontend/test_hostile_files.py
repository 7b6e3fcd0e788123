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
from odtc.frontend import inline_functions

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


def calls_of(depth: int, times: int, **inner) -> list[onnx.FunctionProto]:
    """Functions each of which calls the one before it so many times."""
    first = [helper.make_node("Relu", ["a"], ["b0"], **inner)]
    functions = [helper.make_function(DOMAIN, "F0", ["a"], ["b0"], first, OPSETS)]
    for level in range(1, depth):
        names = ["a", *(f"b{time}" for time in range(times))]
        nodes = [
            helper.make_node(f"F{level - 1}", [names[time]], [names[time + 1]], domain=DOMAIN)
            for time in range(times)
        ]
        functions.append(
            helper.make_function(DOMAIN, f"F{level}", ["a"], [names[-1]], nodes, OPSETS)
        )
    return functions


def calling(functions: list[onnx.FunctionProto], times: int = 1) -> onnx.ModelProto:
    """A model that calls the last of them."""
    names = ["x", *(f"h{time}" for time in range(times))]
    nodes = [
        helper.make_node(functions[-1].name, [names[time]], [names[time + 1]], domain=DOMAIN)
        for time in range(times)
    ]
    return model_of([*nodes, product(names[-1])], functions=functions)


@pytest.mark.parametrize(
    ("functions", "times", "said"),
    [
        (calls_of(60, 2), 1, "would become over 1000000000000 nodes; odtc takes at most 250000"),
        (calls_of(1, 1), 251, "would become 251 nodes; odtc takes at most 250"),
        (calls_of(20, 1, doc_string="a" * 300_000), 4000, " bytes; odtc takes at most 1073741824"),
        (calls_of(3000, 1), 1, "Function call chain depth exceeds limit (100)"),
    ],
    ids=["doubling", "side by side", "bytes", "depth"],
)
def test_functions_that_come_to_much(functions, times, said, tmp_path, capsys, monkeypatch) -> None:
    if times == 251:
        monkeypatch.setattr(inline_functions, "MOST_INLINED_NODES", 250)
    onnx.save(calling(functions, times), tmp_path / "m.onnx")
    code, text = check(tmp_path / "m.onnx", capsys)
    assert code == ExitCode.MODEL
    assert said in text


def test_functions_of_ordinary_models_pass(tmp_path: Path, capsys) -> None:
    """Modules in modules, and what nothing calls."""
    unused = calls_of(40, 2)
    for item in unused:
        item.name = f"Unused{item.name}"
        for node in item.node:
            node.op_type = f"Unused{node.op_type}" if node.domain else node.op_type
    onnx.save(calling([*unused, *calls_of(7, 2)], 2), tmp_path / "m.onnx")
    assert check(tmp_path / "m.onnx", capsys) == (ExitCode.OK, "")
