"""Clipping, decay and averages around the optimizer, on whole steps, against PyTorch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import odtc
from tests.fast import fast_if
from tests.numeric.mlp import Batch, TorchMlp, assert_same, batches, mlp_artifact, mlp_trainer

STEPS = 20
LR = 0.05
ADAMW = {"eps": 1e-3, "weight_decay": 0.1}


def run(trainer, lr: Callable[[int], float] = lambda _: LR, data: list[Batch] | None = None):
    """Trains, and returns the losses."""
    return [trainer.step(x, y, lr=lr(trainer.updates)) for x, y in data or batches(STEPS)]


def run_torch(optimizer, net: TorchMlp, before=lambda: None, after=lambda: None) -> None:
    """The plain loop, with something before and after each update."""
    for x, y in batches(STEPS):
        optimizer.zero_grad()
        net.loss(x, y).backward()
        before()
        optimizer.step()
        after()


def all_of(net: TorchMlp) -> list[torch.Tensor]:
    return list(net.weights.values())


@pytest.mark.parametrize("name", ["sgd", "adam", "rmsprop", "adagrad"])
def test_optimizer_on_whole_steps(name: str, tmp_path) -> None:
    ours, theirs = {
        "sgd": (
            odtc.SGD(momentum=0.9, nesterov=True),
            (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        ),
        "adam": (odtc.Adam(eps=1e-3), (torch.optim.Adam, {"eps": 1e-3})),
        "rmsprop": (odtc.RMSProp(eps=1e-2), (torch.optim.RMSprop, {"eps": 1e-2})),
        "adagrad": (
            odtc.Adagrad(initial_accumulator=0.1),
            (torch.optim.Adagrad, {"initial_accumulator_value": 0.1}),
        ),
    }[name]
    trainer, net = mlp_trainer(tmp_path, ours), TorchMlp()
    run(trainer)
    kind, options = theirs
    run_torch(kind(all_of(net), lr=LR, **options), net)
    assert_same(trainer.parameters(), net.weights)


def test_groups(tmp_path) -> None:
    groups = [
        odtc.Group("*.bias", {"weight_decay": 0.0}),
        odtc.Group("fc2.*", {"beta1": 0.5}, lr_factor=0.1),
        # The first that matches counts.
        odtc.Group("fc2.bias", {"weight_decay": 0.9}),
    ]
    trainer = mlp_trainer(tmp_path, odtc.Update(odtc.AdamW(**ADAMW), groups=groups))
    net = TorchMlp()
    weights = net.weights
    optimizer = torch.optim.AdamW(
        [
            {"params": [weights["fc1.weight"]]},
            {"params": [weights["fc1.bias"], weights["fc2.bias"]], "weight_decay": 0.0},
            {"params": [weights["fc2.weight"]], "betas": (0.5, 0.999), "lr": 0.1 * LR},
        ],
        lr=LR,
        **ADAMW,
    )
    run(trainer)
    run_torch(optimizer, net)
    assert_same(trainer.parameters(), weights)


def test_groups_may_differ_in_their_state(tmp_path) -> None:
    update = odtc.Update(odtc.SGD(momentum=0.9), [odtc.Group("*.bias", {"momentum": 0.0})])
    artifact = mlp_artifact(tmp_path, update)
    states = [item.spec.name for item in artifact.manifest.of_role("state")]
    assert states == ["momentum/fc1.weight", "momentum/fc2.weight"]
    trainer, net = artifact.trainer(threads=1), TorchMlp()
    plain = [value for name, value in net.weights.items() if name.endswith("bias")]
    others = [value for name, value in net.weights.items() if name.endswith("weight")]
    groups = [{"params": others, "momentum": 0.9}, {"params": plain}]
    run(trainer)
    run_torch(torch.optim.SGD(groups, lr=LR), net)
    assert_same(trainer.parameters(), net.weights)


@pytest.mark.parametrize("bound", [0.2, 1e3])
def test_clip_by_norm(bound: float, tmp_path) -> None:
    trainer = mlp_trainer(tmp_path, odtc.Update(odtc.SGD(momentum=0.9), clip_norm=bound))
    net = TorchMlp()
    norms = []
    run(trainer)
    run_torch(
        torch.optim.SGD(all_of(net), lr=LR, momentum=0.9),
        net,
        lambda: norms.append(float(torch.nn.utils.clip_grad_norm_(all_of(net), bound))),
    )
    assert all(norm > 0.2 for norm in norms)
    assert all(norm < 1e3 for norm in norms)
    assert_same(trainer.parameters(), net.weights)


def test_clip_by_value(tmp_path) -> None:
    trainer = mlp_trainer(tmp_path, odtc.Update(odtc.SGD(), clip_value=0.01))
    net = TorchMlp()
    run(trainer)
    run_torch(
        torch.optim.SGD(all_of(net), lr=LR),
        net,
        lambda: torch.nn.utils.clip_grad_value_(all_of(net), 0.01),
    )
    assert_same(trainer.parameters(), net.weights)


@pytest.mark.parametrize(
    "clip",
    fast_if(lambda clip: "clip_norm" in clip, [{}, {"clip_norm": 0.1}, {"clip_value": 0.01}]),
)
def test_accumulation_is_one_large_batch(clip: dict[str, float], tmp_path) -> None:
    adam = odtc.Adam(eps=1e-3)
    small = mlp_trainer(tmp_path, odtc.Update(adam, accumulate=4, **clip))
    large = mlp_trainer(tmp_path, odtc.Update(adam, **clip), batch=32)
    data = batches(STEPS)
    for start in range(0, STEPS, 4):
        x, y = (np.concatenate(part) for part in zip(*data[start : start + 4], strict=True))
        before = small.parameters()
        losses = [small.step(*data[start + i], lr=LR) for i in range(3)]
        assert all(np.array_equal(before[k], v) for k, v in small.parameters().items())
        losses.append(small.step(*data[start + 3], lr=LR))
        assert np.mean(losses) == pytest.approx(large.step(x, y, lr=LR), rel=1e-5)
    assert (small.updates, large.updates) == (STEPS // 4, STEPS // 4)
    expected = {name: torch.tensor(value) for name, value in large.parameters().items()}
    assert_same(small.parameters(), expected)


def test_moving_average(tmp_path) -> None:
    trainer = mlp_trainer(tmp_path, odtc.Update(odtc.SGD(momentum=0.9), ema=0.9))
    start = trainer.parameters()
    assert all(np.array_equal(start[k], v) for k, v in trainer.parameters(ema=True).items())
    net = TorchMlp()
    average = {name: value.detach().clone() for name, value in net.weights.items()}

    def after() -> None:
        for name, value in average.items():
            value.lerp_(net.weights[name].detach(), 0.1)

    run(trainer)
    run_torch(torch.optim.SGD(all_of(net), lr=LR, momentum=0.9), net, after=after)
    assert_same(trainer.parameters(), net.weights)
    assert_same(trainer.parameters(ema=True), average)
    x, _ = batches(1)[0]
    logits = trainer.evaluate(x, ema=True)
    assert not np.allclose(logits, trainer.evaluate(x), rtol=1e-3)
    trainer.set_parameters(trainer.parameters(ema=True))
    np.testing.assert_array_equal(logits, trainer.evaluate(x))


SCHEDULED = odtc.schedules.Warmup(odtc.schedules.Cosine(LR, steps=15), steps=5, start=0.1)


def test_schedule_and_all_at_once(tmp_path) -> None:
    update = odtc.Update(
        odtc.AdamW(**ADAMW),
        groups=[odtc.Group("*.bias", {"weight_decay": 0.0}, lr_factor=2.0)],
        clip_norm=0.3,
    )
    trainer, net = mlp_trainer(tmp_path, update), TorchMlp()
    names = ["fc1.weight", "fc2.weight"]
    groups = [
        {"params": [net.weights[name] for name in names]},
        {
            "params": [value for name, value in net.weights.items() if name not in names],
            "weight_decay": 0.0,
            "lr": 2 * LR,
        },
    ]
    optimizer = torch.optim.AdamW(groups, lr=LR, **ADAMW)
    kinds = torch.optim.lr_scheduler
    schedule = kinds.SequentialLR(
        optimizer,
        [kinds.LinearLR(optimizer, 0.1, total_iters=5), kinds.CosineAnnealingLR(optimizer, 15)],
        [5],
    )
    run(trainer, SCHEDULED)
    run_torch(
        optimizer,
        net,
        lambda: torch.nn.utils.clip_grad_norm_(all_of(net), 0.3),
        schedule.step,
    )
    assert_same(trainer.parameters(), net.weights)
