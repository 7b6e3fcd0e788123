"""The table of options that steps are compared with: each is something that a run can be told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import odtc
from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import Role
from tests.native.same_bits.subject import Subject, products

BeforeStep = Callable[[Any, int], None]
Holds = Callable[[Manifest], object]

SGD, ADAMW = odtc.SGD(momentum=0.9), odtc.AdamW(weight_decay=0.01)
_SHARES = (0.6, 0.75, 0.85, 0.95)


@dataclass(frozen=True)
class Option:
    """A way to compile a step.

    Attributes:
        said: what a page calls it.
        compiled: from a model to its artifact.
        holds: whether an artifact shows the option; one that does not is the plain step.
    """

    said: str
    compiled: Callable[[Subject], odtc.Artifact]
    holds: Holds = lambda _: True


def _plain(given: Mapping[str, Any]) -> Callable[[Subject], odtc.Artifact]:
    return lambda subject: subject.compiled(subject.file(), **given)


def _parts(**given: Any) -> Callable[[Subject], odtc.Artifact]:
    return lambda subject: subject.compiled(
        subject.file(is_symbolic=True), micro_batches=2, allow_split_batchnorm=True, **given
    )


def _dropout(subject: Subject) -> odtc.Artifact:
    if not subject.has_dropout:
        raise odtc.OdtcError("the model has no Dropout")
    return subject.compiled(subject.file(dropout=0.3), optimizer=ADAMW, seed=3)


def _within(holds: Holds = lambda _: True, **given: Any) -> Callable[[Subject], odtc.Artifact]:
    """The step within the smallest share of its arena that it can be compiled for, of a few."""

    def compiled(subject: Subject) -> odtc.Artifact:
        refused = odtc.OdtcError("no smaller budget leaves anything to decide")
        for share in _SHARES:
            budget = int(share * subject.arena_bytes)
            try:
                made = subject.compiled(
                    subject.file(), memory_budget=budget, micro_batches=1, **given
                )
            except odtc.OdtcError as error:
                refused = error
            else:
                if holds(made.manifest):
                    return made
                made.close()
        raise refused

    return compiled


def _lora(subject: Subject) -> odtc.Artifact:
    path = subject.file()
    adapters = odtc.LoRA(rank=2, targets="|".join(products(path)))
    return subject.compiled(path, optimizer=ADAMW, lora=adapters)


def _stored(manifest: Manifest) -> object:
    return manifest.stored_bytes


def _averages(manifest: Manifest) -> object:
    return manifest.of_role(Role.AVERAGE)


# 2**127 overflows at once: the first updates are left out.
_SCALE = odtc.LossScale(initial=2.0**127, interval=2)
_CLIPPED, _SKIPPING = odtc.Update(SGD, clip_norm=0.3), odtc.Update(SGD, on_nonfinite="skip")
_SUMMED = odtc.Update(ADAMW, accumulate=2, clip_value=0.01)

OPTIONS: Mapping[str, Option] = {
    "momentum": Option("SGD with momentum", _plain({"optimizer": SGD})),
    "averages": Option(
        "AdamW, moving averages", _plain({"optimizer": odtc.Update(ADAMW, ema=0.9)}), _averages
    ),
    "clipping": Option("gradients clipped by their norm", _plain({"optimizer": _CLIPPED})),
    "accumulation": Option(
        "gradients of two steps added up, each clipped",
        _plain({"optimizer": _SUMMED}),
        lambda manifest: manifest.accumulate == 2,
    ),
    "loss-scale": Option(
        "a loss scale that overflows at first",
        _plain({"optimizer": odtc.Update(odtc.Adam(eps=1e-3), loss_scale=_SCALE)}),
    ),
    "skipping": Option("updates that are not finite left out", _plain({"optimizer": _SKIPPING})),
    "mixed": Option("mixed precision", _plain({"optimizer": SGD, "precision": "mixed"})),
    "plans": Option(
        "several plans, another one at each step",
        _plain({"optimizer": SGD, "memory_budget": "auto"}),
        lambda manifest: len(manifest.plans) > 1,
    ),
    "budget": Option("a smaller budget", _within(optimizer=SGD)),
    "half": Option(
        "a smaller budget, activations as float16",
        _within(optimizer=SGD, allow_half_activations=True),
    ),
    "storage": Option(
        "a smaller budget, tensors wait in a file",
        _within(_stored, fast_storage=True, optimizer=SGD, offload=True),
        _stored,
    ),
    "micro-batches": Option(
        "two micro-batches",
        _parts(optimizer=odtc.Update(ADAMW, ema=0.9, clip_norm=1.0)),
        lambda manifest: manifest.micro_batches == 2,
    ),
    "micro-sums": Option(
        "two micro-batches, gradients of two steps added up",
        _parts(optimizer=_SUMMED),
        lambda manifest: manifest.micro_batches == 2,
    ),
    "lora": Option("LoRA of rank 2", _lora, lambda manifest: manifest.adapters),
    "dropout": Option("Dropout of 0.3, AdamW", _dropout),
    "layout": Option(
        "images in the cheapest layout", _plain({"optimizer": SGD, "layout": "cheapest"})
    ),
}


def changing(manifest: Manifest) -> BeforeStep | None:
    """What changes the plan before each step; None where there is one plan."""
    plans = manifest.plans
    if len(plans) == 1:
        return None

    def change(trainer: Any, number: int) -> None:
        plan = plans[number % len(plans)]
        trainer.set_budget(manifest.budget_of(plan))

    return change
