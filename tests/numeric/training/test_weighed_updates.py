"""Calls of one update that count as much as their labels do: the update of one batch in PyTorch.

The mean of cross-entropy is over the labels that are not ignored, or over their classes' weights.
The batches here have other numbers of them in each part.
"""

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import odtc
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.core.errors import UnsupportedError
from odtc.runtime_rpc.trainer import Trainer
from tests.numeric.mlp import (
    Batch,
    TorchMlp,
    assert_same,
    batches,
    mlp_artifact,
    mlp_model,
    mlp_trainer,
)
from tests.numeric.training.test_micro_batches import two_towers
from tests.runtime_rpc.adapters.language_models import language, tokens

BATCH, STEPS, LR = 8, 4, 0.5
IGNORED = -7
WEIGHTS = (1.0, 0.5, 3.0, 2.0, 0.1)
LOSSES = {
    "ignored": odtc.CrossEntropy(ignore_index=IGNORED),
    "weights": odtc.CrossEntropy(weight=WEIGHTS),
    "smooth": odtc.CrossEntropy(weight=WEIGHTS, ignore_index=IGNORED, label_smoothing=0.2),
    "nll": odtc.NLL(weight=WEIGHTS, ignore_index=IGNORED),
}
# Ignored labels of each step: many in one part, a whole part, and all.
HOLES = ([0, 1, 2, 5], [4, 5, 6, 7], [], [1])


def ragged(holes: Sequence[Sequence[int]] = HOLES) -> list[Batch]:
    data = batches(len(holes), BATCH)
    for (_, y), there in zip(data, holes, strict=True):
        y[list(there)] = IGNORED
    return data


def whole_loss(
    net: TorchMlp, loss: odtc.CrossEntropy | odtc.NLL, data: Sequence[Batch]
) -> torch.Tensor:
    """The loss of several batches as one."""
    x, y = (torch.from_numpy(np.concatenate(each)) for each in zip(*data, strict=True))
    w1, b1, w2, b2 = net.weights.values()
    scores = F.linear(torch.sigmoid(F.linear(x.double(), w1, b1)), w2, b2)
    options = {
        "weight": None if loss.weight is None else torch.tensor(loss.weight, dtype=torch.float64),
        "ignore_index": -100 if loss.ignore_index is None else loss.ignore_index,
    }
    if isinstance(loss, odtc.NLL):
        return F.nll_loss(scores, y.long(), **options)
    return F.cross_entropy(scores, y.long(), label_smoothing=loss.label_smoothing, **options)


def by_torch(
    loss: odtc.CrossEntropy | odtc.NLL,
    data: Sequence[Batch],
    accumulate: int = 1,
    clip: float | None = None,
) -> tuple[TorchMlp, list[float]]:
    net = TorchMlp()
    optimizer = torch.optim.SGD(list(net.weights.values()), lr=LR, momentum=0.9)
    losses = []
    for first in range(0, len(data), accumulate):
        taken = data[first : first + accumulate]
        losses += [whole_loss(net, loss, [each]).item() for each in taken]
        optimizer.zero_grad()
        whole_loss(net, loss, taken).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(list(net.weights.values()), clip)
        optimizer.step()
    return net, losses


def taken(trainer: Trainer, data: Sequence[Batch]) -> list[float]:
    return [trainer.step(x, y, lr=LR) for x, y in data]


def data_for(loss: odtc.CrossEntropy | odtc.NLL) -> list[Batch]:
    return batches(STEPS, BATCH) if loss.ignore_index is None else ragged()


@pytest.mark.parametrize("name", LOSSES)
def test_micro_batches_are_the_batch(name: str, tmp_path: Path) -> None:
    loss = LOSSES[name]
    data = data_for(loss)
    trainer = mlp_trainer(tmp_path, odtc.SGD(momentum=0.9), BATCH, loss=loss, micro_batches=4)
    net, expected = by_torch(loss, data)
    np.testing.assert_allclose(taken(trainer, data), expected, rtol=1e-6)
    assert_same(trainer.parameters(), net.weights, 1e-6)


@pytest.mark.parametrize(("name", "clip"), [("ignored", None), ("smooth", 0.05)])
def test_an_update_of_several_steps_is_that_of_one_batch(
    name: str, clip: float | None, tmp_path: Path
) -> None:
    loss = LOSSES[name]
    data = data_for(loss)
    update = odtc.Update(odtc.SGD(momentum=0.9), accumulate=2, clip_norm=clip)
    trainer = mlp_trainer(tmp_path, update, BATCH, loss=loss, micro_batches=2)
    net, expected = by_torch(loss, data, 2, clip)
    np.testing.assert_allclose(taken(trainer, data), expected, rtol=1e-6)
    assert_same(trainer.parameters(), net.weights, 1e-6)
    assert trainer.updates == STEPS // 2


def test_tvms_virtual_machine_takes_the_same(tmp_path: Path) -> None:
    loss, data = LOSSES["ignored"], ragged()
    update = odtc.Update(odtc.SGD(momentum=0.9), accumulate=2)
    artifact = mlp_artifact(tmp_path, update, BATCH, loss=loss, micro_batches=4)
    net, expected = by_torch(loss, data, 2)
    with artifact.trainer(VirtualMachineHere(), threads=1) as trainer:
        np.testing.assert_allclose(taken(trainer, data), expected, rtol=1e-6)
        assert_same(trainer.parameters(), net.weights, 1e-6)


@pytest.mark.parametrize("holes", [[range(8), [1, 2, 3]], [range(8), range(8)]], ids=["one", "all"])
def test_steps_without_a_label(holes: list, tmp_path: Path) -> None:
    loss, data = LOSSES["ignored"], ragged(holes)
    update = odtc.Update(odtc.SGD(), accumulate=2)
    trainer = mlp_trainer(tmp_path, update, BATCH, loss=loss, micro_batches=2)
    before = trainer.parameters()
    losses = taken(trainer, data)
    assert losses[0] == 0.0
    if (data[1][1] == IGNORED).all():
        # PyTorch's loss is nan; odtc's is 0, and changes nothing.
        assert losses[1] == 0.0
        for name, value in trainer.parameters().items():
            np.testing.assert_array_equal(value, before[name])
        return
    net = TorchMlp()
    optimizer = torch.optim.SGD(list(net.weights.values()), lr=LR)
    whole_loss(net, loss, data).backward()
    optimizer.step()
    assert_same(trainer.parameters(), net.weights, 1e-6)


@pytest.mark.parametrize("at", [0, 7], ids=["first", "last"])
def test_what_is_not_finite_in_one_part_leaves_the_update_out(at: int, tmp_path: Path) -> None:
    loss, data = LOSSES["ignored"], ragged()
    data[1][0][at], data[1][1][at] = np.nan, 0
    update = odtc.Update(odtc.SGD(momentum=0.9), on_nonfinite="skip")
    trainer = mlp_trainer(tmp_path, update, BATCH, loss=loss, micro_batches=4)
    losses = taken(trainer, data)
    assert [np.isfinite(each) for each in losses] == [True, False, True, True]
    net, _ = by_torch(loss, [data[0], *data[2:]])
    assert_same(trainer.parameters(), net.weights, 1e-6)
    assert trainer.skipped == 1


def test_a_loss_scale_changes_nothing(tmp_path: Path) -> None:
    loss, data = LOSSES["smooth"], ragged()
    update = odtc.Update(odtc.SGD(momentum=0.9), loss_scale="dynamic", accumulate=2)
    trainer = mlp_trainer(tmp_path, update, BATCH, loss=loss, micro_batches=2)
    net, expected = by_torch(loss, data, 2)
    np.testing.assert_allclose(taken(trainer, data), expected, rtol=1e-6)
    assert_same(trainer.parameters(), net.weights, 1e-6)


def test_a_run_goes_on_within_an_update_with_other_micro_batches(tmp_path: Path) -> None:
    loss, data = LOSSES["ignored"], ragged()
    update = odtc.Update(odtc.SGD(momentum=0.9), accumulate=4)
    net, _ = by_torch(loss, data, 4)
    kinds = [
        mlp_artifact(tmp_path, update, BATCH, loss=loss, micro_batches=parts) for parts in (1, 4)
    ]
    for first, then in (kinds, kinds[::-1]):
        one, other = first.trainer(threads=1), then.trainer(threads=1)
        taken(one, data[:2])
        one.save_checkpoint(tmp_path / "run.ckpt")
        # What is left of other steps must not count.
        taken(other, data[:1])
        other.load_checkpoint(tmp_path / "run.ckpt")
        taken(other, data[2:])
        assert_same(other.parameters(), net.weights, 1e-6)


def test_several_losses_cannot_be_weighed(tmp_path: Path) -> None:
    path = tmp_path / "towers.onnx"
    onnx.save(two_towers(), path)
    loss = {"rows": odtc.CrossEntropy(ignore_index=0), "far": odtc.MSE()}
    with pytest.raises(UnsupportedError, match="several losses, which are means over different"):
        odtc.compile(path, batch=6, loss=loss, micro_batches=3)
    update = odtc.Update(odtc.SGD(), accumulate=2)
    notes = odtc.compile(path, batch=6, loss=loss, optimizer=update).manifest.notes
    (said,) = [note for note in notes if "counts the same" in note]
    assert "several losses" in said


def test_a_loss_in_the_model_says_that_steps_count_the_same(tmp_path: Path) -> None:
    model = mlp_model()
    mean = onnx.helper.make_node("ReduceMean", ["y"], ["loss"], keepdims=0)
    model.graph.node.append(mean)
    model.graph.output.append(onnx.helper.make_tensor_value_info("loss", 1, []))
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    for accumulate, count in ((1, 0), (2, 1)):
        update = odtc.Update(odtc.SGD(), accumulate=accumulate)
        loss = {"loss": "in-model"}
        notes = odtc.compile(path, batch=4, loss=loss, optimizer=update).manifest.notes
        assert len([note for note in notes if "counts the same" in note]) == count


@pytest.mark.slow
def test_the_trainer_of_transformers_takes_the_same(tmp_path: Path) -> None:
    """It weighs tokens by `num_items_in_batch`: three batches make an update, clipped."""
    from transformers import Trainer as TheirTrainer
    from transformers import TrainingArguments

    sizes = [(2, 8), (1, 3), (8, 8), (5, 1), (3, 3), (2, 2)]
    data = []
    for seed, (first, second) in enumerate(sizes):
        ids, _ = tokens(seed)
        labels = ids.clone()
        labels[0, first:], labels[1, second:] = -100, -100
        data.append((ids, labels))
    module = language("llama").eval()
    odtc.from_torch(module, {"input_ids": data[0][0]}, tmp_path / "m.onnx")
    update = odtc.Update("sgd", accumulate=3, clip_norm=1.0)
    options = {"loss": "cross-entropy{axis=2,ignore-index=-100}", "micro_batches": 2}
    artifact = odtc.compile(tmp_path / "m.onnx", batch=2, optimizer=update, **options)

    class InOrder(TheirTrainer):
        def _get_train_sampler(self, *_: object) -> torch.utils.data.Sampler:
            return torch.utils.data.SequentialSampler(self.train_dataset)  # type: ignore[arg-type]

    rows = [{"input_ids": i, "labels": y} for ids, ys in data for i, y in zip(ids, ys, strict=True)]
    theirs = copy.deepcopy(module)
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=2,
        gradient_accumulation_steps=3,
        num_train_epochs=1,
        learning_rate=0.1,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=1.0,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
    )
    InOrder(model=theirs, args=arguments, train_dataset=rows).train()  # type: ignore[arg-type]
    trainer = artifact.trainer(threads=1)
    for ids, labels in data:
        # Their labels are those of the tokens themselves, and are shifted by the loss.
        following = torch.full_like(labels, -100)
        following[:, :-1] = labels[:, 1:]
        trainer.step(ids.numpy(), following.numpy(), lr=0.1)
    start, wanted = module.state_dict(), theirs.state_dict()
    for name, value in trainer.parameters().items():
        moved = (wanted[name] - start[name]).abs().max().item()
        assert np.abs(value - wanted[name].numpy()).max() <= 2e-5 * moved + 1e-6, name
