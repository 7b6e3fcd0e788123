"""Products with matrices of 4 and 8 bits, as onnxruntime's quantizers write them."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import odtc
from odtc.core.errors import ModelError, UnsupportedError, UsageError
from tests.fast import fast_if

ROWS = 3
# Bits, rows of the matrix, terms, columns of a block, what zero points are, and the floats' type.
Form = tuple[int, int, int, int, str, type]
FORMS: dict[str, Form] = {
    "4 bits": (4, 96, 128, 32, "", np.float32),
    "zero points": (4, 96, 128, 32, "packed", np.float32),
    "zero points of an odd number": (4, 48, 112, 16, "packed", np.float32),
    "a part of a block": (4, 40, 576, 128, "packed", np.float32),
    "a few columns": (4, 24, 37, 16, "packed", np.float32),
    "zero points of floats": (4, 96, 128, 32, "floats", np.float32),
    "8 bits": (8, 96, 128, 32, "", np.float32),
    "8 bits, zero points": (8, 96, 128, 64, "packed", np.float32),
    "float16": (4, 96, 128, 32, "packed", np.float16),
}


def tensors_of(form: Form) -> dict[str, np.ndarray]:
    bits, rows, depth, block, zeros, dtype = form
    rng, blocks = np.random.default_rng(0), -(-depth // block)
    found = {
        "p": np.ones(depth, dtype),
        "k.weight_Q4": rng.integers(0, 256, (rows, blocks, block * bits // 8), np.uint8),
        "scales": (rng.random(rows * blocks) / 2**bits).astype(dtype),
    }
    if zeros == "packed":
        found["zeros"] = rng.integers(0, 256, rows * -(-blocks * bits // 8)).astype(np.uint8)
    elif zeros:
        found["zeros"] = np.rint(rng.random(rows * blocks) * 9).astype(dtype)
    return found


def written(path: Path, form: Form, tensors: dict[str, np.ndarray]) -> Path:
    """A file of a scale `p` and such a product."""
    bits, rows, depth, block, _, dtype = form
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("Mul", ["x", "p"], ["h"]),
        helper.make_node(
            "MatMulNBits",
            ["h", *(name for name in tensors if name != "p")],
            ["y"],
            domain="com.microsoft",
            K=depth,
            N=rows,
            bits=bits,
            block_size=block,
        ),
    ]
    first, last = (
        [helper.make_tensor_value_info(name, kind, [ROWS, size])]
        for name, size in (("x", depth), ("y", rows))
    )
    held = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "g", first, last, held)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), path)
    return path


def matrix_of(form: Form, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """The matrix, by its definition, element by element."""
    bits, rows, depth, block, kind, _ = form
    blocks, found = -(-depth // block), np.zeros((rows, depth))
    scales = tensors["scales"].reshape(rows, blocks)
    zeros = tensors.get("zeros")

    def element(held: np.ndarray, at: int) -> int:
        return held[at] if bits == 8 else held[at // 2] >> 4 * (at % 2) & 15

    for row, column in np.ndindex(rows, depth):
        of = column // block
        code = int(element(tensors["k.weight_Q4"][row, of], column % block))
        zero = 1 << (bits - 1)
        if zeros is not None:
            each = zeros.reshape(rows, -1)[row]
            zero = float(each[of]) if kind == "floats" else int(element(each, of))
        found[row, column] = (code - zero) * float(scales[row, of])
    return found


@pytest.mark.parametrize(
    "name", fast_if(lambda name: name in ("zero points", "a part of a block"), FORMS)
)
def test_values_and_losses(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    tensors = tensors_of(form)
    path = written(tmp_path / "m.onnx", form, tensors)
    matrix = matrix_of(form, tensors).astype(np.float32)
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((ROWS, size)).astype(np.float32) for size in matrix.shape[::-1])
    trainer = odtc.compile(path, loss="mse", train=["p"]).trainer(threads=1)
    found = trainer.evaluate(x)
    np.testing.assert_allclose(found, x @ matrix.T, rtol=1e-4, atol=1e-4)
    if form[0] == 4 and form[-1] is np.float32:
        (theirs,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
        np.testing.assert_allclose(found, theirs, rtol=1e-5, atol=1e-5)
    # The gradient of the scale, in closed form.
    loss = trainer.step(x, y, lr=1.0)
    error = x @ matrix.T - y
    assert loss == pytest.approx(np.mean(error**2), rel=1e-4)
    expected = 1 - (2 / error.size * (error @ matrix) * x).sum(0)
    np.testing.assert_allclose(trainer.parameters()["p"], expected, rtol=1e-3, atol=1e-3)


def test_adapters_are_named_as_of_the_weight_before(tmp_path: Path) -> None:
    form = FORMS["zero points"]
    path = written(tmp_path / "m.onnx", form, tensors_of(form))
    artifact = odtc.compile(path, loss="mse", lora=odtc.LoRA(rank=2), train=[])
    (adapter,) = artifact.manifest.adapters
    assert (adapter.weight, adapter.down) == ("k.weight_Q4", "k.lora_A.weight")
    with pytest.raises(UsageError, match="--lora trains adapters in addition"):
        odtc.compile(path, loss="mse", train=["k*"])


def test_tensors_that_do_not_fit_are_told_of(tmp_path: Path) -> None:
    form = FORMS["zero points"]
    tensors = tensors_of(form)
    tensors["scales"] = tensors["scales"][1:]
    with pytest.raises(ModelError, match="the matrix does not fit the attributes"):
        odtc.compile(written(tmp_path / "m.onnx", form, tensors), loss="mse")


def spoilt(path: Path, name: str, value: int | str | None) -> Path:
    """A file with another value of an attribute, or without it."""
    model = onnx.load(written(path, FORMS["4 bits"], tensors_of(FORMS["4 bits"])))
    node = model.graph.node[1]
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if value is not None:
        node.attribute.append(helper.make_attribute(name, value))
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("value", [None, 0, -32, "32"])
@pytest.mark.parametrize("name", ["N", "K", "block_size"])
def test_attributes_that_are_no_sizes_are_told_of(
    name: str, value: int | str | None, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=f"attribute {name} is .*an integer above zero"):
        odtc.compile(spoilt(tmp_path / "m.onnx", name, value), loss="mse")


def test_codes_that_are_no_bytes_are_told_of(tmp_path: Path) -> None:
    form = FORMS["4 bits"]
    tensors = tensors_of(form)
    tensors["k.weight_Q4"] = tensors["k.weight_Q4"].astype(np.float32)
    with pytest.raises(ModelError, match="its elements are float32, and have to be uint8"):
        odtc.compile(written(tmp_path / "m.onnx", form, tensors), loss="mse")


@pytest.mark.parametrize(("name", "value"), [("bits", 2), ("weight_prepacked", 1)])
def test_matrices_in_an_order_of_their_own_are_refused(
    name: str, value: int, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match="operator MatMulNBits") as caught:
        odtc.compile(spoilt(tmp_path / "m.onnx", name, value), loss="mse", train=["p"])
    assert "4 or 8 bits" in str(caught.value)


def test_zero_points_that_are_no_integers_are_refused(tmp_path: Path) -> None:
    form = FORMS["zero points of floats"]
    tensors = tensors_of(form)
    tensors["zeros"] += np.float32(0.5)
    with pytest.raises(UnsupportedError, match="zero points are not integers"):
        odtc.compile(written(tmp_path / "m.onnx", form, tensors), loss="mse")
