"""Draws what a step is compiled from: a small model of the table, and options that go together."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import onnx

import odtc
from tests.native.same_bits.subject import Subject, products

OPTIMIZERS: tuple[Callable[[Random], Any], ...] = (
    lambda _: odtc.SGD(),
    lambda rng: odtc.SGD(momentum=0.9, nesterov=rng.random() < 0.5),
    lambda rng: odtc.SGD(momentum=0.5, weight_decay=rng.choice([0.0, 0.1])),
    lambda _: odtc.Adam(eps=1e-3),
    lambda _: odtc.AdamW(weight_decay=0.01),
    lambda _: odtc.LAMB(),
    lambda _: odtc.Lion(),
    lambda rng: odtc.RMSProp(momentum=rng.choice([0.0, 0.9])),
    lambda _: odtc.Adagrad(),
)
# Options that change where tensors are, and not what is computed but for its rounding.
_OF_MEMORY = (
    *("memory_budget", "allow_half_activations", "offload", "fast_storage"),
    "micro_batches",
)


@dataclass(frozen=True)
class Drawn:
    """Options of a step.

    Attributes:
        given: to `odtc.compile`.
        dropout: probability in the module.
        share: of the arena of the plain step that is the budget; None for no such budget.
        is_symbolic: whether the batch has no number in the file.
    """

    given: dict[str, Any] = field(default_factory=dict)
    dropout: float = 0.0
    share: float | None = None
    is_symbolic: bool = False

    def compiled(self, subject: Subject) -> odtc.Artifact:
        """The artifact.

        Raises:
            OdtcError: the model does not allow these options.
        """
        path = subject.file(self.dropout, is_symbolic=self.is_symbolic)
        more = {}
        if self.share is not None:
            more["memory_budget"] = int(self.share * subject.arena_bytes)
        return subject.compiled(path, **self.given, **more)

    def again(self, rng: Random) -> "Drawn":
        """The same training in other memory: a checkpoint of one fits the other."""
        given = {name: each for name, each in self.given.items() if name not in _OF_MEMORY}
        if self.is_symbolic:
            given["micro_batches"] = rng.choice([1, 2, 4])
        share, memory = _memory(rng, may_halve="precision" not in given)
        return replace(self, given=given | memory, share=share)


def draw(rng: Random, subject: Subject) -> Drawn:
    """Options, each of them now and then."""
    given: dict[str, Any] = {"optimizer": _update(rng), "seed": rng.randrange(2**62)}
    given |= rng.choice([{}, {}, {"precision": "mixed"}])
    given |= rng.choice([{}, {}, {}, {"layout": "cheapest"}, {"layout": "auto"}])
    given |= rng.choice([{}, {}, {}, {"freeze_batch_norm": True}])
    is_symbolic = rng.random() < 0.3
    if is_symbolic:
        given |= {"micro_batches": rng.choice([2, 4]), "allow_split_batchnorm": True}
    dropout = rng.choice([0.0, 0.2, 0.5])
    given |= _trained(rng, subject)
    share, memory = _memory(rng, may_halve="precision" not in given)
    return Drawn(given | memory, dropout, share, is_symbolic)


def _update(rng: Random) -> odtc.Update:
    scale = odtc.LossScale(initial=2.0 ** rng.choice([0, 16, 127]), interval=rng.choice([1, 2, 9]))
    clipping: dict[str, Any] = rng.choice([{}, {}, {"clip_norm": 0.5}, {"clip_value": 0.01}])
    return odtc.Update(
        rng.choice(OPTIMIZERS)(rng),
        accumulate=rng.choice([1, 1, 2, 3]),
        ema=rng.choice([None, None, 0.9]),
        loss_scale=rng.choice([None, None, scale]),
        on_nonfinite=rng.choice(["stop", "stop", "skip"]),
        **clipping,
    )


def _trained(rng: Random, subject: Subject) -> dict[str, Any]:
    """What is trained: all, some of the weights, or adapters."""
    kind = rng.choice(["all", "all", "some", "adapters"])
    if kind == "all":
        return {}
    path = subject.file()
    if kind == "adapters":
        return {"lora": odtc.LoRA(rank=rng.choice([1, 1, 2, 3]), targets="|".join(products(path)))}
    names = [each.name for each in onnx.load(path).graph.initializer if "running" not in each.name]
    return {"freeze": rng.sample(names, len(names) // 2)}


def _memory(rng: Random, *, may_halve: bool) -> tuple[float | None, dict[str, Any]]:
    """The budget as a share of the arena, and what goes with it."""
    halved = "half" if may_halve else "share"
    kind = rng.choice(["none", "none", "auto", "auto", "share", halved, "storage"])
    if kind == "none":
        return None, {}
    if kind == "auto":
        return None, {"memory_budget": "auto"}
    more: dict[str, dict[str, Any]] = {
        "share": {},
        "half": {"allow_half_activations": True},
        "storage": {"offload": True, "fast_storage": True},
    }
    return rng.choice([0.8, 0.9, 0.97]), more[kind]
