"""Untrusted model files: each is refused in time, in little memory, by an error.

Each file is made here; what an ordinary large model has passes.
"""

import resource
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from odtc.cli.main import main
from odtc.core.errors import ExitCode, ModelError
from odtc.frontend.file import inline_functions
from odtc.frontend.file.onnx_file import load_model
from odtc.frontend.normalize import constants

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
    """They matter to a reader of that node only; nothing here needs it."""
    other = helper.make_node("Cached", ["x"], ["z"], domain="com.example", context=b"\xff\xfe")
    model = model_of([product(), other])
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    onnx.save(model, tmp_path / "m.onnx")
    assert check(tmp_path / "m.onnx", capsys, "--all") == (ExitCode.OK, "")


def doubled(first: np.ndarray, times: int = 40) -> onnx.ModelProto:
    """A tensor that is joined to itself over and over."""
    nodes = [
        helper.make_node("Concat", [f"d{at}", f"d{at}"], [f"d{at + 1}"], axis=0)
        for at in range(times)
    ]
    return reduced(nodes, f"d{times}", {"d0": first})


def reduced(nodes: list[onnx.NodeProto], name: str, held: dict[str, object]) -> onnx.ModelProto:
    """A model whose output has the sum of a tensor added."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        *nodes,
        helper.make_node("Cast", [name], ["floats"], to=F32),
        helper.make_node("ReduceSum", ["floats"], ["sum"], keepdims=0),
        helper.make_node("Add", ["m", "sum"], ["y"]),
    ]
    return model_of(nodes, [numpy_helper.from_array(np.asarray(v), k) for k, v in held.items()])


def made_by(op_type: str, *values: object, **attributes) -> onnx.ModelProto:
    """A tensor that an operator makes as large as constants say."""
    names = [f"c{at}" for at in range(len(values))]
    node = helper.make_node(op_type, names, ["large"], **attributes)
    return reduced([node], "large", dict(zip(names, values, strict=True)))


def looping(trips: int, depth: int = 1, table: int = 0) -> onnx.ModelProto:
    """Loops in each other, the innermost with a table of so many numbers."""

    def body(level: int) -> onnx.GraphProto:
        info, end = helper.make_tensor_value_info, f"{level}"
        ends = [info(f"t{end}", TensorProto.INT64, []), info(f"c{end}", TensorProto.BOOL, [])]
        state = [info(f"s{end}", F32, None)]
        given = [info(f"going{end}", TensorProto.BOOL, []), info(f"o{end}", F32, None)]
        nodes = [helper.make_node("Identity", [f"c{end}"], [f"going{end}"])]
        if level < depth:
            names = ["trips", "", f"s{end}"]
            nodes.append(helper.make_node("Loop", names, [f"o{end}"], body=body(level + 1)))
        elif table:
            held = numpy_helper.from_array(np.zeros(table, np.int64))
            nodes += [
                helper.make_node("Constant", [], ["k"], value=held),
                helper.make_node("ReduceSum", ["k"], ["r"], keepdims=0),
                helper.make_node("Cast", ["r"], ["f"], to=F32),
                helper.make_node("Add", [f"s{end}", "f"], [f"o{end}"]),
            ]
        else:
            nodes.append(helper.make_node("Relu", [f"s{end}"], [f"o{end}"]))
        return helper.make_graph(nodes, "body", [*ends, *state], given)

    loop = helper.make_node("Loop", ["trips", "", "m"], ["y"], body=body(1))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), loop]
    return model_of(nodes, [numpy_helper.from_array(np.array(trips), "trips")])


def scanned(steps: int) -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    add = helper.make_node("Add", ["state", "item"], ["sum"])
    ends = [info("state", F32, None), info("item", F32, None)]
    body = helper.make_graph([add], "body", ends, [info("sum", F32, None)])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("ConstantOfShape", ["steps"], ["zeros"]),
        helper.make_node("Scan", ["m", "zeros"], ["y"], body=body, num_scan_inputs=1),
    ]
    return model_of(nodes, [numpy_helper.from_array(np.array([steps]), "steps")])


def recurrent(steps: int) -> onnx.ModelProto:
    """A layer that no kernel serves: it is unrolled."""
    shapes = {"i": (1, 2, 2), "r": (1, 2, 2)}
    held = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    held |= {"steps": np.array([steps, 2, 2]), "lengths": np.array([5, 7], np.int32)}
    names = ["zeros", "i", "r", "", "lengths"]
    nodes = [
        helper.make_node("ConstantOfShape", ["steps"], ["zeros"]),
        helper.make_node("RNN", names, ["", "last"], hidden_size=2, activations=["Affine"]),
    ]
    return reduced(nodes, "last", held)


FEW, LARGE = np.arange(4), 1 << 40


@pytest.mark.parametrize(
    ("model", "exit_code", "said"),
    [
        (doubled(FEW), ExitCode.MODEL, "a tensor has the shape [2147483648]"),
        (doubled(np.sqrt(FEW, dtype=np.float32)), ExitCode.MODEL, "the shape [2147483648]"),
        (made_by("Expand", FEW, [LARGE, 4]), ExitCode.MODEL, f"the shape [{LARGE}, 4]"),
        (made_by("Tile", FEW, [LARGE]), ExitCode.MODEL, f"the shape [{4 * LARGE}]"),
        (made_by("ConstantOfShape", [LARGE]), ExitCode.MODEL, f"the shape [{LARGE}]"),
        (
            made_by("Range", 0, LARGE, 1),
            ExitCode.MODEL,
            f"0 to {LARGE} by 1 is not a range of",
        ),
        (made_by("Pad", FEW, [LARGE, LARGE]), ExitCode.MODEL, f"the shape [{2 * LARGE + 4}]"),
        (looping(1 << 60), ExitCode.UNSUPPORTED, ""),
        (looping(90, 3), ExitCode.UNSUPPORTED, "would become 100"),
        (looping(2000, table=20_000), ExitCode.UNSUPPORTED, "bytes of nodes, over 268435456"),
        (scanned(1 << 18), ExitCode.UNSUPPORTED, "would become 524288 nodes, over 100000"),
        (scanned(1 << 28), ExitCode.UNSUPPORTED, "would become 536870912 nodes, over 100000"),
        (recurrent(1 << 17), ExitCode.UNSUPPORTED, "would become 393216 nodes, over 100000"),
    ],
    ids="integers floats Expand Tile Constant Range Pad trips nested table Scan scan RNN".split(),
)
def test_tensors_and_loops_that_grow(model, exit_code, said, tmp_path: Path, capsys) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, text = check(tmp_path / "m.onnx", capsys, "--batch", "2")
    assert code == exit_code
    assert said in text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000  # kB


def test_constants_are_added_up(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(constants, "MOST_FOLDED_BYTES", 1 << 20)
    names = [f"z{at}" for at in range(9)]
    nodes = [helper.make_node("ConstantOfShape", ["size"], [name]) for name in names]
    total = helper.make_node("Sum", names, ["total"])
    onnx.save(reduced([*nodes, total], "total", {"size": [1 << 15]}), tmp_path / "m.onnx")
    code, text = check(tmp_path / "m.onnx", capsys)
    assert code == ExitCode.MODEL
    assert "have 1179648 bytes so far; odtc takes at most 1048576" in text


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


def elsewhere(tensor: TensorProto, **place: object) -> TensorProto:
    """A tensor whose data is said to lie in another file."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", **place}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def with_weight(dims: list[int], **place: object) -> onnx.ModelProto:
    model = model_of([product()])
    model.graph.initializer[0].dims[:] = dims
    elsewhere(model.graph.initializer[0], **place)
    return model


def with_sparse(is_initializer: bool) -> onnx.ModelProto:
    """A sparse tensor of a terabyte of values."""
    values, indices = (
        elsewhere(TensorProto(name=name, data_type=kind, dims=[TERA // 4]), length=TERA)
        for name, kind in (("sparse", F32), ("indices", TensorProto.INT64))
    )
    sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=[TERA])
    if is_initializer:
        model = model_of([product()])
        model.graph.sparse_initializer.append(sparse)
        return model
    constant = helper.make_node("Constant", [], ["large"])
    kind = onnx.AttributeProto.SPARSE_TENSOR
    constant.attribute.append(onnx.AttributeProto(name="sparse_value", type=kind))
    constant.attribute[0].sparse_tensor.CopyFrom(sparse)
    return reduced([constant], "large", {})


TERA = 1 << 40


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (with_weight([1 << 20, 1 << 18], length=TERA), "a tensor has the shape [1048576, 262144]"),
        (with_weight([1 << 20, 1 << 18]), "a tensor has the shape [1048576, 262144]"),
        (with_weight([-4, -2], length=32), "a tensor has the shape [-4, -2]"),
        (with_weight([4, 2], length=TERA), f"needs 32 bytes of external data; {TERA} are given"),
        (with_weight([4, 2]), f"needs 32 bytes of external data; {TERA} are given"),
        (with_sparse(True), f"a tensor has the shape [{TERA // 4}]"),
        (with_sparse(False), f"a tensor has the shape [{TERA // 4}]"),
    ],
    ids="shape whole negative length rest sparse node".split(),
)
@pytest.mark.parametrize("in_file", [True, False])
def test_external_data_that_claims_much(model, said, in_file, tmp_path: Path) -> None:
    """In a file of a terabyte of holes, which takes no room."""
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(TERA)
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path / "m.onnx", in_file=in_file)
    assert said in str(caught.value)
