"""Options of a step that change nothing, as the model, the target or other options are.

Two tables: of what a draft shows, which `odtc check` tells, too, and of what only the built step
does. A compile warns of them, and the artifact has them among its notes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from odtc.backends.targets import CPU
from odtc.core.adapters import Adapter
from odtc.core.options.idle import Idle
from odtc.driver.drafts.source import Source
from odtc.driver.layouts import AUTO, CHEAPEST
from odtc.frontend.graph import Graph
from odtc.frontend.losses.classification import NLL, CrossEntropy
from odtc.frontend.losses.loss import MEAN
from odtc.frontend.optimizers.groups import Group, ParameterRule, rule_of
from odtc.frontend.optimizers.sgd import SGD
from odtc.frontend.patterns.random_masks import DRAWING
from odtc.frontend.trained.lora import LoRA, parse_lora
from odtc.frontend.trained.selection import Selection

_DROPOUT, _BATCH_NORM = "Dropout", "BatchNormalization"
ADAPTERS_DROP = "adapters drop elements of their input, unless LoRA has dropout=0"
# Axes of a batch of images.
_IMAGES = 4


@dataclass(frozen=True)
class Sketched:
    """What is known of a step before it has gradients.

    Attributes:
        source: what it is made from.
        graph: of the model's own nodes.
        selection: what is trained.
        has_dropout: whether the model has dropout, taken out or not.
        adapters: that are trained.
    """

    source: Source
    graph: Graph
    selection: Selection
    has_dropout: bool
    adapters: Sequence[Adapter] = ()

    @property
    def lora(self) -> LoRA | None:
        """The adapters that were asked for."""
        asked = self.source.options.lora
        return parse_lora(asked) if isinstance(asked, str) else asked

    @property
    def has_dropping(self) -> bool:
        """Whether adapters drop elements of their input."""
        return any(each.dropout for each in self.adapters)

    @property
    def is_drawn(self) -> bool:
        """Whether a step draws something from its seed."""
        return any(node.op_type in DRAWING or node.op_type == _DROPOUT for node in self.graph.nodes)

    @property
    def idle_groups(self) -> list[str]:
        """The groups of parameters each of which an earlier one takes."""
        groups = [group.glob for group in self.source.update.parameter_groups]
        first = {next((g for g in groups if fnmatchcase(n, g)), "") for n in self.selection.trained}
        seen = {glob: groups.index(glob) for glob in groups}
        return [glob for n, glob in enumerate(groups) if glob not in first or seen[glob] < n]

    @property
    def plain_groups(self) -> list[str]:
        """Groups without which each parameter would be updated in the same way."""
        update = self.source.update
        groups = update.parameter_groups
        if not groups:
            return []

        def rules(of: Sequence[Group]) -> list[ParameterRule]:
            return [rule_of(name, update.rule, of) for name in self.selection.trained]

        found = rules(groups)
        without = {g.glob: rules([*groups[:n], *groups[n + 1 :]]) for n, g in enumerate(groups)}
        return [glob for glob in without if without[glob] == found and glob not in self.idle_groups]

    @property
    def damped(self) -> list[SGD]:
        """The rules of trained parameters that dampen."""
        update = self.source.update
        found = (
            rule_of(name, update.rule, update.parameter_groups).optimizer
            for name in self.selection.trained
        )
        return [each for each in found if isinstance(each, SGD) and each.dampening]

    @property
    def class_weights(self) -> list[tuple[float, ...]]:
        """The weights of classes in losses that are means over them."""
        losses = [term.loss for term in self.source.terms]
        return [
            loss.weight
            for loss in losses
            if isinstance(loss, CrossEntropy | NLL)
            and loss.weight
            and loss.reduction == MEAN
            and not (isinstance(loss, CrossEntropy) and loss.soft_labels)
        ]

    @property
    def has_one_layout(self) -> bool:
        """Whether images have the layout of ONNX whatever is asked for."""
        return self.source.target.kind != CPU or self.source.saves_half


def _are_even(weights: Sequence[float]) -> bool:
    """Whether classes weigh the same. Where that is nothing, no label counts at all."""
    return len({*weights}) == 1 and weights[0] > 0


OF_DRAFT: Sequence[Idle[Sketched]] = (
    Idle(
        "seed",
        lambda it: it.source.options.seed != 0,
        lambda it: it.has_dropout and not it.source.options.dropout and not it.is_drawn,
        "dropout is off",
    ),
    Idle(
        "seed",
        lambda it: it.source.options.seed != 0,
        lambda it: not it.is_drawn,
        "the model has no dropout, and draws nothing else; that of the samples' order is given "
        "where it is trained",
    ),
    Idle(
        "dropout",
        lambda it: not it.source.options.dropout,
        lambda it: not it.has_dropout and it.has_dropping,
        f"the model has none; {ADAPTERS_DROP}",
    ),
    Idle(
        "dropout",
        lambda it: not it.source.options.dropout,
        lambda it: not it.has_dropout,
        "the model has none",
    ),
    Idle(
        "freeze_batch_norm",
        lambda it: it.source.options.freeze_batch_norm,
        lambda it: not it.selection.still,
        "no batch normalisation has its parameters frozen",
    ),
    Idle(
        "freeze",
        lambda it: bool(it.source.options.freeze),
        lambda it: bool(it.selection.idle_freezes),
        "nothing of it would be trained",
        lambda it: ", ".join(it.selection.idle_freezes),
    ),
    Idle(
        "groups",
        lambda it: bool(it.source.update.parameter_groups),
        lambda it: bool(it.idle_groups),
        "an earlier group takes each parameter that it matches",
        lambda it: ", ".join(it.idle_groups),
    ),
    Idle(
        "groups",
        lambda it: bool(it.source.update.parameter_groups),
        lambda it: bool(it.plain_groups),
        "each parameter would be updated so without it",
        lambda it: ", ".join(it.plain_groups),
    ),
    Idle(
        "optimizer",
        lambda it: bool(it.damped),
        lambda it: not any(each.momentum for each in it.damped),
        "it is what a momentum leaves out of gradients, and there is no momentum",
        lambda _: "dampening",
    ),
    Idle(
        "loss",
        lambda it: bool(it.class_weights),
        lambda it: any(_are_even(each) for each in it.class_weights),
        "all classes weigh the same, by which a mean is divided",
        lambda _: "weight",
    ),
    Idle(
        "lora",
        lambda it: it.lora is not None and it.lora.rslora,
        lambda it: it.lora is not None and it.lora.has_one_scale([a.weight for a in it.adapters]),
        "all adapters have rank 1, whose root is 1",
        lambda _: "rslora",
    ),
    Idle(
        "lora",
        lambda it: it.lora is not None and it.lora.dropout > 0,
        lambda it: not it.has_dropping,
        "all adapters are of embeddings, which have none",
        lambda _: "dropout",
    ),
    Idle(
        "layout",
        lambda it: it.source.options.layout in (AUTO, CHEAPEST),
        lambda it: it.has_one_layout,
        "images of a step for a GPU, or in mixed precision, have the layout of ONNX",
    ),
    Idle(
        "layout",
        lambda it: it.source.options.layout in (AUTO, CHEAPEST),
        lambda it: not any(len(shape) == _IMAGES for shape in it.graph.shapes.values()),
        "the model has no images",
    ),
    Idle(
        "database",
        lambda it: it.source.options.database is not None,
        lambda it: not it.source.options.tuned,
        "without tuned no measurement is looked at",
    ),
    Idle(
        "device",
        lambda it: it.source.options.device is not None,
        lambda it: not it.source.options.tuned,
        "without tuned no measurement is looked at",
    ),
)


@dataclass(frozen=True)
class Finished:
    """What is known of a step once it is built.

    Attributes:
        source: what it is made from.
        micro_batches: that make a step.
        samples: of a micro-batch.
        stored_bytes: that tensors wait in, in a file.
        is_half: whether it stores as float16 what the backward pass reads, to fit.
        is_measured: whether kernels have loops that were measured, or plans go by measured times.
    """

    source: Source
    micro_batches: int
    samples: int
    stored_bytes: int
    is_half: bool
    is_measured: bool

    @property
    def has_batch_norms(self) -> bool:
        """Whether it normalises by statistics of a batch."""
        return any(node.op_type == _BATCH_NORM for node in self.source.model.graph.node)


OF_STEP: Sequence[Idle[Finished]] = (
    Idle(
        "allow_split_batchnorm",
        lambda it: it.source.options.allow_split_batchnorm,
        lambda it: not it.has_batch_norms,
        "the model has no batch normalisation",
    ),
    Idle(
        "allow_split_batchnorm",
        lambda it: it.source.options.allow_split_batchnorm,
        lambda it: it.micro_batches == 1,
        "the step takes its batch whole",
    ),
    Idle(
        "allow_half_activations",
        lambda it: it.source.options.allow_half_activations,
        lambda it: not it.is_half,
        "within this budget float32 is as fast",
    ),
    Idle(
        "offload",
        lambda it: it.source.options.offload,
        lambda it: not it.stored_bytes,
        "within this budget no tensor waits in a file: other ways are as fast",
    ),
    Idle(
        "eval_batch",
        lambda it: bool(it.source.options.evaluated),
        lambda it: all(n >= it.samples for n in it.source.options.evaluated),
        "this many samples are evaluated at once in any case",
    ),
    Idle(
        "database",
        lambda it: it.source.options.database is not None and it.source.options.tuned,
        lambda it: not Path(it.source.options.database or "").exists(),
        "there is no such file of measurements yet",
    ),
    Idle(
        "database",
        lambda it: it.source.options.database is not None and it.source.options.tuned,
        lambda it: not it.is_measured,
        "nothing of this step was measured for the target and the device",
    ),
    Idle(
        "device",
        lambda it: it.source.options.device is not None and it.source.options.tuned,
        lambda it: not it.is_measured,
        "nothing of this step was measured there, nor on others of its family",
    ),
)
