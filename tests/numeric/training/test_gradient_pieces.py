"""Large gradients exist in pieces: the same values as whole, in fewer bytes."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import odtc
from odtc.core.specs import Block
from odtc.frontend.backward import gradient_pieces
from odtc.frontend.backward.gradient_pieces import row_blocks
from tests.fast import fast_if

ROWS, COLUMNS, BATCH, STEPS = 96, 40, 4, 3
FORMS = {
    "transposed": ("Gemm", {"transB": 1}, (ROWS, COLUMNS)),
    "plain": ("Gemm", {}, (COLUMNS, ROWS)),
    "batched": ("MatMul", {}, (COLUMNS, ROWS)),
}
# Blocks, and the most of them: 4 divide the rows of all forms, 7 of none.
BLOCKS = {"equal": (4, 16), "with a rest": (7, 7)}


def model_of(form: str) -> onnx.ModelProto:
    """A hidden layer, whose weight is large, and a small one."""
    op_type, attributes, shape = FORMS[form]
    rng = np.random.default_rng(0)
    weights = {"w": shape, "v": (ROWS, 5)}
    ahead = [3] if form == "batched" else []
    graph = helper.make_graph(
        [
            helper.make_node(op_type, ["x", "w"], ["h"], **attributes),
            helper.make_node("Tanh", ["h"], ["t"]),
            helper.make_node("MatMul", ["t", "v"], ["y"]),
        ],
        "pieces",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, *ahead, COLUMNS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [BATCH, *ahead, 5])],
        [
            numpy_helper.from_array((rng.standard_normal(size) / 6).astype(np.float32), name)
            for name, size in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def trained(form: str, update: odtc.Update, folder: Path) -> tuple[dict[str, np.ndarray], int]:
    """Returns the trained weights with their averages, and the step's number of update calls."""
    path = folder / "model.onnx"
    onnx.save(model_of(form), path)
    artifact = odtc.compile(path, loss="mse", optimizer=update)
    trainer, rng = artifact.trainer(threads=2), np.random.default_rng(1)
    (x,), (label,) = artifact.manifest.inputs, artifact.manifest.labels
    for _ in range(STEPS):
        batch, wanted = (
            rng.standard_normal(s).astype(np.float32) for s in (x.shape, label.spec.shape)
        )
        trainer.step(batch, wanted, lr=0.01)
    averages = trainer.parameters(ema=True) if update.ema else {}
    values = trainer.parameters() | {f"average of {n}": v for n, v in averages.items()}
    return values, sum(call.startswith("update") for call in artifact.memory.plan.calls)


@pytest.mark.parametrize("form", fast_if(lambda form: form == "plain", FORMS))
@pytest.mark.parametrize(
    "update",
    [
        odtc.Update(odtc.SGD()),
        odtc.Update(odtc.AdamW(), ema=0.9, clip_value=0.5),
        # These read the whole gradient.
        odtc.Update(odtc.SGD(momentum=0.9), clip_norm=0.1),
        odtc.Update(odtc.SGD(), accumulate=2),
    ],
    ids=["sgd", "adamw with average", "clipped by norm", "accumulated"],
)
@pytest.mark.parametrize("blocks", BLOCKS)
def test_the_same_values(
    blocks: str, form: str, update: odtc.Update, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, most = BLOCKS[blocks]
    whole, updates = trained(form, update, tmp_path)
    rows, columns = FORMS[form][2]
    monkeypatch.setattr(gradient_pieces, "_PIECE", -(-rows * columns * 4 // count))
    monkeypatch.setattr(gradient_pieces, "_MOST_PIECES", most)
    pieces, more_updates = trained(form, update, tmp_path)
    for name, value in whole.items():
        np.testing.assert_allclose(pieces[name], value, rtol=1e-6, atol=1e-7, err_msg=name)
    is_whole = update.accumulate > 1 or update.clip_norm is not None
    assert more_updates - updates == (0 if is_whole else count - 1)


def test_only_a_piece_is_planned(tmp_path: Path) -> None:
    rows, columns = 4096, 4096
    weight = np.zeros((rows, columns), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)],
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, columns])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [BATCH, rows])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "wide.onnx")
    sizes = odtc.compile(tmp_path / "wide.onnx").manifest.sizes
    assert sizes.train_step < 0.6 * weight.nbytes


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ((4096, 2048), 1),
        ((4096, 4096), 2),
        ((4096, 25088), 16),
        ((30522, 768), 3),
        ((5000, 4096), 4),
    ],
)
def test_blocks_are_of_equal_rows(shape: tuple[int, int], count: int) -> None:
    blocks = row_blocks(shape)
    assert len(blocks) == count
    assert blocks == [Block(0, n * shape[0] // count, shape[0] // count) for n in range(count)]


@pytest.mark.parametrize("shape", [(4099, 25088), (50257, 768), (3, 1 << 25)])
def test_blocks_of_rows_that_nothing_divides(shape: tuple[int, int]) -> None:
    blocks = row_blocks(shape)
    ends = [block.start + block.size for block in blocks]
    assert [block.start for block in blocks] == [0, *ends[:-1]]
    assert ends[-1] == shape[0]
    assert all(0 < block.size <= blocks[0].size for block in blocks)
    assert blocks[0].size * shape[1] * 4 <= max(32 << 20, shape[1] * 4)
