"""A step of micro-batches: the step of the whole batch, within what rounding leaves.

Beside a step that is not cut, and PyTorch in double precision; and to the bit beside a user who
feeds the parts by hand to a step that accumulates gradients.
"""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import odtc
from benchmarks.models.pytorch.export import export
from benchmarks.models.pytorch.spec import batches as torch_batches
from benchmarks.models.pytorch.spec import make
from benchmarks.models.pytorch.table import SMALL
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.backends.targets import parse_target
from odtc.core.errors import DataError, UnsupportedError, UsageError
from odtc.runtime_rpc.engines.virtual_machine import VirtualMachine
from odtc.runtime_rpc.trainer import Trainer
from tests.fast import fast_if
from tests.numeric.mlp import (
    CLASSES,
    TorchMlp,
    assert_same,
    batches,
    blind_weight,
    mlp_artifact,
    mlp_trainer,
    overflowing,
)
from tests.numeric.plans.test_memory_budget import tower

LR, STEPS = 0.05, 6
TARGET = parse_target("host-cpu{threads=1}")
UPDATES = {
    "sgd": odtc.SGD(),
    "adam": odtc.Adam(eps=1e-3),
    "clipped": odtc.Update(odtc.SGD(momentum=0.9), clip_norm=0.3),
    "accumulated": odtc.Update(odtc.AdamW(eps=1e-3), accumulate=2, clip_value=0.01, ema=0.9),
}


def close(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], bound: float = 1e-6) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert np.abs(found[name] - value).max() <= bound * np.abs(value).max(), name


def losses_of(trainer: Trainer, data=None, lr: float = LR) -> list[float]:
    return [trainer.step(x, y, lr=lr) for x, y in data or batches(STEPS)]


FAST = ("sgd", "accumulated")


@pytest.mark.parametrize("name", fast_if(FAST.__contains__, UPDATES))
def test_it_is_the_step_of_the_whole_batch(name: str, tmp_path: Path) -> None:
    update = UPDATES[name]
    whole = mlp_trainer(tmp_path, update)
    split = mlp_trainer(tmp_path, update, micro_batches=4)
    np.testing.assert_allclose(losses_of(split), losses_of(whole), rtol=1e-6)
    assert (split.steps, split.updates) == (whole.steps, whole.updates)
    close(split.parameters(), whole.parameters())
    if isinstance(update, odtc.Update) and update.ema:
        close(split.parameters(ema=True), whole.parameters(ema=True))
    x = np.concatenate([batch for batch, _ in batches(2)])[:11]
    np.testing.assert_allclose(split.evaluate(x), whole.evaluate(x), rtol=1e-5, atol=1e-6)


def test_it_is_the_step_of_pytorch(tmp_path: Path) -> None:
    trainer, net = mlp_trainer(tmp_path, odtc.SGD(momentum=0.9), micro_batches=2), TorchMlp()
    optimizer = torch.optim.SGD(list(net.weights.values()), lr=LR, momentum=0.9)
    for x, y in batches(STEPS):
        loss = net.loss(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert trainer.step(x, y, lr=LR) == pytest.approx(loss.item(), rel=1e-6)
    assert_same(trainer.parameters(), net.weights)


def test_an_overflow_in_one_part_leaves_the_update_out(tmp_path: Path) -> None:
    scale = odtc.LossScale(initial=2.0**127, interval=3)
    update = odtc.Update(odtc.Adam(eps=1e-3), loss_scale=scale)
    data = overflowing(batches(STEPS), (1, 4))
    for x, _ in data:
        # Three of four parts are as they were.
        x[2:, 0] = 0.0
    whole = mlp_trainer(tmp_path, update)
    split = mlp_trainer(tmp_path, update, micro_batches=4)
    for trainer in (whole, split):
        trainer.set_parameters(blind_weight())
    np.testing.assert_allclose(losses_of(split, data), losses_of(whole, data), rtol=1e-6)
    close(split.parameters(), whole.parameters(), 1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": odtc.CrossEntropy(ignore_index=-1, weight=(1, 2, 3, 4, 5), reduction="sum")},
        {"loss": odtc.CrossEntropy(label_smoothing=0.1), "train": "fc2*"},
        {"lora": odtc.LoRA(rank=2)},
        {"precision": "mixed"},
    ],
    ids=["sum", "frozen", "adapters", "mixed"],
)
def test_sums_frozen_parts_adapters_and_halves(options: dict, tmp_path: Path) -> None:
    data = batches(STEPS)
    if isinstance(options.get("loss"), odtc.CrossEntropy) and options["loss"].ignore_index:
        data[0][1][:3] = -1
    whole = mlp_trainer(tmp_path, odtc.SGD(), **options)
    split = mlp_trainer(tmp_path, odtc.SGD(), micro_batches=2, **options)
    found, wanted = losses_of(split, data, 0.01), losses_of(whole, data, 0.01)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    close(split.parameters(), whole.parameters())


def two_towers() -> onnx.ModelProto:
    """Two inputs, two outputs of different shapes, and rows that are several to a sample."""
    rng = np.random.default_rng(2)
    weights = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in {"a": (6, 5), "b": (3, 5), "c": (5, 4)}.items()
    }
    text = """
        g () => () {
            u = MatMul (x, a) v = MatMul (z, b) w = Unsqueeze (v, one) h = Add (u, w)
            t = Tanh (h) near = MatMul (t, c) rows = Reshape (near, flat)
            s = ReduceMean <axes = [1], keepdims = 0> (t) far = Sigmoid (s)
        }"""
    constants = {"one": np.array([1]), "flat": np.array([-1, 4])}
    graph = helper.make_graph(
        onnx.parser.parse_graph(text).node,
        "towers",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 6]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 3]),
        ],
        [
            helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["R", 4]),
            helper.make_tensor_value_info("far", TensorProto.FLOAT, ["N", 5]),
        ],
        [numpy_helper.from_array(v, k) for k, v in {**weights, **constants}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_several_inputs_outputs_and_rows(tmp_path: Path) -> None:
    path = tmp_path / "towers.onnx"
    onnx.save(two_towers(), path)
    loss = {"rows": odtc.CrossEntropy(), "far": (0.3, odtc.MSE(reduction="sum"))}
    rng = np.random.default_rng(3)
    data = [
        (
            {
                "x": rng.standard_normal((6, 3, 6), np.float32),
                "z": rng.standard_normal((6, 3), np.float32),
            },
            {"rows": rng.integers(0, 4, 18), "far": rng.random((6, 5), np.float32)},
        )
        for _ in range(3)
    ]
    whole = odtc.compile(path, batch=6, loss=loss).trainer(threads=1)
    split = odtc.compile(path, batch=6, loss=loss, micro_batches=3).trainer(threads=1)
    np.testing.assert_allclose(losses_of(split, data), losses_of(whole, data), rtol=1e-6)
    close(split.parameters(), whole.parameters())
    for output in ("rows", "far"):
        found, wanted = (each.evaluate(data[0][0], output) for each in (split, whole))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_batch_statistics_and_masks_are_those_of_parts_fed_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "tower.onnx"
    onnx.save(tower(), path)
    rng = np.random.default_rng(4)
    data = [
        (rng.standard_normal((4, 8, 12, 12), np.float32), rng.integers(0, 8, 4)) for _ in range(3)
    ]
    with pytest.raises(UnsupportedError, match="what 4 batch normalisations compute") as caught:
        odtc.compile(path, micro_batches=2)
    assert "--allow-split-batchnorm" in str(caught.value.hint)
    artifact = odtc.compile(path, micro_batches=2, allow_split_batchnorm=True, seed=3)
    notes = " ".join(artifact.manifest.notes)
    assert "4 batch normalisations take the statistics of each micro-batch" in notes
    assert "dropout has a mask for each micro-batch" in notes
    by_hand = odtc.compile(path, batch=2, optimizer=odtc.Update(odtc.SGD(), accumulate=2), seed=3)
    split, parts = artifact.trainer(threads=1), by_hand.trainer(threads=1)
    for x, y in data:
        loss = split.step(x, y, lr=LR)
        halves = [parts.step(x[at : at + 2], y[at : at + 2], lr=LR) for at in (0, 2)]
        assert loss == sum(halves) / 2
    for name, value in parts.parameters().items():
        np.testing.assert_array_equal(split.parameters()[name], value, err_msg=name)
    with pytest.raises(UnsupportedError, match="one value in a micro-batch"):
        odtc.compile(flat_tower(tmp_path), micro_batches=4, allow_split_batchnorm=True)


def flat_tower(folder: Path) -> Path:
    """A batch normalisation of one value for each sample and channel."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("BatchNormalization", ["h", "g", "b", "m", "v"], ["y"], "norm"),
        ],
        "flat",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 2])],
        [
            numpy_helper.from_array(np.ones((3, 2), np.float32), "w"),
            *(numpy_helper.from_array(np.ones(2, np.float32), name) for name in "gbmv"),
        ],
    )
    path = folder / "flat.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


@pytest.mark.parametrize("accumulate", fast_if(lambda count: count > 1, [1, 3]))
def test_checkpoints_fit_a_step_that_is_cut_otherwise(accumulate: int, tmp_path: Path) -> None:
    update = odtc.Update(odtc.Adam(eps=1e-3), accumulate=accumulate)
    kinds = {count: mlp_artifact(tmp_path, update, micro_batches=count) for count in (1, 2, 4)}
    data, stop = batches(STEPS), 4
    wanted = kinds[1].trainer(threads=1)
    losses_of(wanted, data)
    for first, then in ((1, 2), (2, 1), (4, 2), (4, 4)):
        one, other = kinds[first].trainer(threads=1), kinds[then].trainer(threads=1)
        losses_of(one, data[:stop])
        one.save_checkpoint(tmp_path / "c")
        # What is left of other steps must not count.
        losses_of(other, data[:1])
        other.load_checkpoint(tmp_path / "c")
        assert other.steps == stop
        losses = losses_of(other, data[stop:])
        close(other.parameters(), wanted.parameters())
        if first == then:
            assert losses == losses_of(one, data[stop:])
            for name, value in one.parameters().items():
                np.testing.assert_array_equal(other.parameters()[name], value)


def test_a_step_that_broke_off_is_taken_again(tmp_path: Path) -> None:
    artifact = mlp_artifact(tmp_path, odtc.SGD(momentum=0.9), micro_batches=4)
    broken = artifact.trainer(VirtualMachineHere(), threads=1)
    whole = artifact.trainer(threads=1)
    data = batches(2)
    for trainer in (broken, whole):
        losses_of(trainer, data[:1])
    assert isinstance(broken._engine, VirtualMachine)
    made = broken._engine._stepping.calls
    run, calls = made.run, []

    def failing(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("gone")
        return run(*arguments)

    made.run = failing
    with pytest.raises(odtc.OdtcError, match="gone"):
        broken.step(*data[1], lr=LR)
    assert broken.steps == 1
    assert losses_of(broken, data[1:]) == losses_of(whole, data[1:])
    for name, value in whole.parameters().items():
        np.testing.assert_array_equal(broken.parameters()[name], value)


# Of convolutions, recurrent layers, and attention.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", "char_cnn_lstm", "bert_base"])
def test_small_versions_of_real_models(name: str, tmp_path: Path) -> None:
    model, path = SMALL[name], tmp_path / "model.onnx"
    data = [batch for batch, _ in zip(torch_batches(model), range(3), strict=False)]
    export(make(model), data[0][0], path, batch="N")
    options = {"batch": model.batch, "loss": model.loss}
    whole = odtc.compile(path, "host-cpu{threads=1}", **options).trainer()
    split = odtc.compile(path, "host-cpu{threads=1}", micro_batches=2, **options).trainer()
    found, wanted = losses_of(split, data, model.lr), losses_of(whole, data, model.lr)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    close(split.parameters(), whole.parameters(), 1e-5)


def test_what_is_fed_is_a_whole_batch(tmp_path: Path) -> None:
    trainer = mlp_trainer(tmp_path, odtc.SGD(), micro_batches=4)
    ((x, y),) = batches(1)
    with pytest.raises(DataError, match=r"x has shape \[2, 8\]; the step takes \[8, 8\]"):
        trainer.step(x[:2], y[:2], lr=LR)
    with pytest.raises(DataError, match=f"label 9 is outside .0, {CLASSES}") as caught:
        trainer.step(x, np.array([*y[:7], 9]), lr=LR)
    assert "sample 7" in str(caught.value.where)
    assert trainer.steps == 0


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"micro_batches": 3}, UsageError, "3 micro-batches do not divide a batch of 8"),
        ({"micro_batches": 0}, UsageError, "0 micro-batches do not divide"),
    ],
)
def test_what_cannot_be_cut(options: dict, error: type, text: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=text) as caught:
        mlp_artifact(tmp_path, odtc.SGD(), **options)
    assert caught.value.hint


def test_a_loss_in_the_model_cannot_be_cut(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("ReduceMean", ["h"], ["loss"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "mean",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(np.ones((4, 3), np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match="the model computes the loss") as caught:
        odtc.compile(tmp_path / "m.onnx", batch=8, micro_batches=2, loss="in-model")
    assert caught.value.hint
