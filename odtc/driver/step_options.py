"""Options of a step, beside the model and the target."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from odtc.autoschedule.tuning.record import Device
from odtc.frontend.feeds import Axes, Shapes
from odtc.frontend.losses.terms import Losses, Term
from odtc.frontend.optimizers.optimizer import Optimizer
from odtc.frontend.optimizers.update import Update
from odtc.frontend.trained.lora import LoRA


class StepOptions(TypedDict, total=False):
    """See `odtc.compile`."""

    batch: int | None
    loss: Losses | Sequence[Term | str]
    optimizer: Optimizer | Update | str | None
    params: Sequence[str] | str | None
    freeze: Sequence[str] | str
    freeze_batch_norm: bool
    lora: LoRA | str | None
    shape: Shapes | None
    batch_axes: Axes | None
    set_inputs: Mapping[str, Any] | None
    precision: str
    dropout: bool
    seed: int
    micro_batches: int | None
    allow_split_batchnorm: bool
    allow_half_activations: bool
    offload: bool
    tuned: bool
    database: str | os.PathLike[str] | None
    device: Device | None
    layout: str
