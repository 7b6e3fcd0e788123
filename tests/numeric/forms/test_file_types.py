"""Files whose weights are no float32, or scalars: trained in float32, written back as they were."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

import odtc
from odtc.core.onnx_model.weight_places import float_tensors

LR = 0.1
X = np.random.default_rng(1).standard_normal((4, 8), dtype=np.float32)
Y = np.random.default_rng(2).standard_normal((4, 3), dtype=np.float32)
# ReZero's factor in the type of the file; a weight in a Constant node; a frozen one.
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
net ({dtype}[N, 8] x) => ({dtype}[N, 3] y) {{
    m = MatMul (x, w) n = MatMul (x, v) s = Mul (n, alpha) t = Add (m, s) y = Add (t, c) }}"""
TYPES = {"float16": "float16", "bfloat16": "bfloat16", "float64": "double", "float32": "float"}


def model_of(dtype: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(MODEL.format(dtype=TYPES[dtype]))
    rng = np.random.default_rng(0)
    for name, shape in {"w": (8, 3), "v": (8, 3), "alpha": (), "c": (3,)}.items():
        value = np.asarray(rng.standard_normal(shape)).astype(np.dtype(dtype))
        if name == "c":
            node = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(value))
            model.graph.node.insert(0, node)
        else:
            model.graph.initializer.append(numpy_helper.from_array(value, name))
    return model


def arrays_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {name: numpy_helper.to_array(each) for name, each in float_tensors(model.graph)}


def by_torch(start: dict[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
    p = {name: torch.tensor(value.astype(np.float32)) for name, value in start.items()}
    trained = [p[name].requires_grad_() for name in ("w", "alpha", "c")]
    optimizer = torch.optim.SGD(trained, LR)
    x, y = torch.tensor(X), torch.tensor(Y)
    for _ in range(steps):
        optimizer.zero_grad()
        ((x @ p["w"] + x @ p["v"] * p["alpha"] + p["c"] - y) ** 2).mean().backward()
        optimizer.step()
    return {name: value.detach().numpy() for name, value in p.items()}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_trains_in_float32_and_comes_out_in_its_own_type(dtype: str, tmp_path: Path) -> None:
    model = model_of(dtype)
    onnx.save(model, tmp_path / "m.onnx")
    options = {"batch": 4, "loss": "mse", "train": ["w", "alpha", "c"]}
    trainer = odtc.compile(tmp_path / "m.onnx", **options).trainer(threads=1)
    for _ in range(3):
        trainer.step(X, Y, lr=LR)
    start = arrays_of(model)
    expected = by_torch(start, 3)
    for name, value in trainer.parameters().items():
        # What is frozen may stay as it is.
        is_half = name == "v" and dtype == "float16"
        assert value.dtype == (np.float16 if is_half else np.float32)
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6)
    # A caller may feed the type of the file, too; the export compares itself with `evaluate`.
    fed = X.astype(np.dtype(dtype))
    np.testing.assert_allclose(trainer.evaluate(fed), trainer.evaluate(fed.astype(np.float32)))
    trainer.export_onnx(tmp_path / "new.onnx")
    written = arrays_of(onnx.load(tmp_path / "new.onnx"))
    for name, value in written.items():
        assert value.dtype == np.dtype(dtype)
        master = trainer.parameters()[name]
        np.testing.assert_array_equal(value, start[name] if name == "v" else master.astype(dtype))


UPDATES = {
    "sgd": odtc.Update(odtc.SGD(momentum=0.9, weight_decay=0.1), ema=0.9, accumulate=2),
    "clipped": odtc.Update(
        odtc.AdamW(), [odtc.Group("alpha", lr_factor=3.0)], clip_norm=0.1, loss_scale="dynamic"
    ),
    "layerwise": odtc.LAMB(),
}


@pytest.mark.parametrize("name", UPDATES)
def test_a_scalar_is_updated_as_a_tensor_of_one_element(name: str, tmp_path: Path) -> None:
    results = []
    for shape in ((), (1,)):
        model = model_of("float32")
        (scalar,) = (each for each in model.graph.initializer if each.name == "alpha")
        scalar.dims[:] = shape
        onnx.save(model, tmp_path / "m.onnx")
        artifact = odtc.compile(
            tmp_path / "m.onnx", batch=4, loss="mse", optimizer=UPDATES[name], train=["alpha"]
        )
        artifact.save(tmp_path / "m.odtc")
        trainer = odtc.load(tmp_path / "m.odtc").trainer(threads=1)
        losses = [trainer.step(X, Y, lr=LR) for _ in range(3)]
        trainer.save_checkpoint(tmp_path / "c")
        trainer.set_parameters({"alpha": np.full(shape, 9.0)})
        trainer.load_checkpoint(tmp_path / "c")
        losses += [trainer.step(X, Y, lr=LR) for _ in range(3)]
        assert trainer.parameters()["alpha"].shape == shape
        trainer.export_onnx(tmp_path / "new.onnx")
        alpha = arrays_of(onnx.load(tmp_path / "new.onnx"))["alpha"]
        assert alpha.shape == shape
        results.append([*losses, alpha.item()])
    np.testing.assert_allclose(*results, rtol=1e-6)
    assert len(set(results[0])) > 2
