"""From a gradient to a new weight: the optimizer, and all that is around it.

gradients, summed over micro-batches
  -> divided by their number and by the loss scale, clipped
  -> the optimizer's rule, by parameter group
  -> the weight, and the moving average of it
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from odtc.core.errors import UsageError
from odtc.core.options.arguments import plainly_made, read_argument
from odtc.core.options.checked_options import (
    check_options,
    count,
    fraction,
    make_choice,
    options_of,
    positive,
    text,
)
from odtc.core.options.kinds import TEXT, either, instance, several
from odtc.core.specs import ACCUMULATOR, Argument, Role, TensorSpec
from odtc.frontend.optimizers.groups import (
    Group,
    ParameterRule,
    check_groups,
    parse_group,
    rule_of,
)
from odtc.frontend.optimizers.optimizer import Optimizer
from odtc.frontend.optimizers.table import optimizer_of

AVERAGE = "ema"
STOP, SKIP = _ON_NONFINITE = ("stop", "skip")

_GROUPS = several(
    either(instance(Group, "odtc.Group", ""), TEXT),
    "list of groups",
    "give, for example, [odtc.Group('*.bias', {'weight_decay': 0.0})], or "
    "['*.bias{weight-decay=0}']",
)


@plainly_made
@dataclass(frozen=True)
class LossScale:
    """Dynamic loss scaling, as in `torch.amp.GradScaler`.

    The loss is multiplied by the scale before the backward pass, and the gradients are divided by
    it. If a gradient is not finite, the update is skipped and the scale is reduced.

    Args:
        initial: initial scale, above 0.
        growth: factor by which the scale grows after `interval` updates in a row.
        backoff: factor by which the scale shrinks after a skipped update, in [0, 1).
        interval: see `growth`, at least 1.
    """

    initial: float = positive(65536.0)
    growth: float = positive(2.0)
    backoff: float = fraction(0.5)
    interval: int = count(2000)

    def __post_init__(self) -> None:
        check_options(self)


def parse_loss_scale(text: str) -> LossScale:
    """Reads `dynamic` or `dynamic{initial=1024}`.

    Raises:
        UsageError: the text is malformed, or names an option or a value that is none.
    """
    return make_choice(
        "loss scale", text, {"dynamic": LossScale}, "dynamic or dynamic{initial=1024}"
    )


@plainly_made
@dataclass(frozen=True)
class Update:
    """How gradients change the weights.

    Args:
        optimizer: the optimizer, or its text.
        groups: options for some of the parameters, or their texts, such as
            `*.bias{weight-decay=0}`; the first group whose glob matches applies.
        clip_value: each element of a gradient is clipped to [-clip_value, clip_value].
        clip_norm: the norm of all gradients together is clipped to this, as by
            `torch.nn.utils.clip_grad_norm_`; not together with `clip_value`.
        accumulate: number of steps whose gradients are averaged into one update, as if their
            batches were one. If the loss is a mean weighted by labels, such as those that are not
            ignored, or steps have several lengths, each step is weighted by its labels. Steps have
            equal weight if the model computes the loss, or there are several such losses; a note
            says so. For losses that are sums, the gradients are those of the mean of the sums.
        ema: decay of a moving average of each trained parameter; none is kept if None.
        loss_scale: `dynamic`, or a `LossScale` with its options.
        on_nonfinite: what happens at a step whose loss or gradients are not finite: `stop` raises
            an error, `skip` leaves weights, state and the count of updates as they were, to the
            bit. Like `clip_norm`, `skip` needs all gradients at once. By default `stop`; a loss
            scale implies `skip`, with an error when it cannot shrink any further, and cannot be
            combined with `stop`.

    Raises:
        UsageError: a value is outside its bound, both kinds of clipping are given, or a loss scale
            and `stop`.
    """

    optimizer: Optimizer | str
    groups: Sequence[Group | str] = ()
    clip_value: float | None = positive(None)
    clip_norm: float | None = positive(None)
    accumulate: int = count(1)
    ema: float | None = fraction(None)
    loss_scale: LossScale | str | None = field(default=None)
    on_nonfinite: str | None = text(None)

    def __post_init__(self) -> None:
        check_options(self)
        optimizer = optimizer_of(self.optimizer)
        object.__setattr__(self, "optimizer", optimizer)
        object.__setattr__(self, "groups", _groups(self.groups, optimizer))
        if self.clip_value is not None and self.clip_norm is not None:
            raise UsageError(
                f"clip_value {self.clip_value} and clip_norm {self.clip_norm}",
                hint="use one of them to clip gradients",
            )
        if isinstance(self.loss_scale, str):
            object.__setattr__(self, "loss_scale", parse_loss_scale(self.loss_scale))
        if not isinstance(self.loss_scale, LossScale | None):
            raise UsageError(
                f"loss_scale {self.loss_scale!r} is neither a LossScale nor a string",
                hint=f"write, for example, dynamic or LossScale(initial={self.loss_scale!r})",
            )
        if self.on_nonfinite not in (None, *_ON_NONFINITE):
            raise UsageError(
                f"on_nonfinite {self.on_nonfinite!r}", hint=f"give {' or '.join(_ON_NONFINITE)}"
            )
        if self.scaling:
            self.check_may_scale("loss_scale")

    def check_may_scale(self, what: str) -> None:
        """Checks that the loss may be scaled, which leaves updates out.

        Args:
            what: scales it.

        Raises:
            UsageError: each loss that is not finite was to be an error.
        """
        if self.on_nonfinite == STOP:
            raise UsageError(
                f"on_nonfinite {STOP!r} with {what}: when gradients overflow, a loss scale "
                "shrinks and the update is left out",
                hint="leave on_nonfinite out: a run reports how many updates were left out, and "
                "ends when the scale cannot shrink any further",
            )

    @property
    def rule(self) -> Optimizer:
        """The optimizer, read."""
        assert not isinstance(self.optimizer, str)
        return self.optimizer

    @property
    def parameter_groups(self) -> Sequence[Group]:
        """The groups, read."""
        return [group for group in self.groups if not isinstance(group, str)]

    @property
    def scaling(self) -> LossScale | None:
        """The loss scale, read."""
        assert not isinstance(self.loss_scale, str)
        return self.loss_scale

    @property
    def is_controlled(self) -> bool:
        """Whether an update depends on more than its own gradient and the step."""
        return self.needs_total or self.accumulate > 1

    @property
    def needs_total(self) -> bool:
        """Whether an update depends on all gradients."""
        return self.clip_norm is not None or self.skips

    @property
    def skips(self) -> bool:
        """Whether an update is left out for a gradient that is not finite."""
        return self.on_nonfinite == SKIP or self.scaling is not None

    def rule_of(self, parameter: str) -> ParameterRule:
        """How the parameter of that name is updated."""
        return rule_of(parameter, self.rule, self.parameter_groups)

    def options(self) -> dict[str, Any]:
        """All but the optimizer's, as data."""
        data = {name: getattr(self, name) for name in options_of(Update)}
        groups = [dataclasses.asdict(group) for group in self.parameter_groups]
        scale = self.scaling and dataclasses.asdict(self.scaling)
        on_nonfinite = self.on_nonfinite or STOP
        return {"groups": groups, **data, "loss_scale": scale, "on_nonfinite": on_nonfinite}


def _groups(given: Any, optimizer: Optimizer) -> tuple[Group, ...]:
    """Groups, or what their texts say, with options as the optimizer reads them.

    Raises:
        UsageError: one is neither, or has an option or a value that is none.
    """
    held = read_argument(_GROUPS, given, "groups", "odtc.Update")
    groups = (parse_group(each, optimizer) if isinstance(each, str) else each for each in held)
    return tuple(group.read_for(optimizer) for group in groups)


def as_update(optimizer: Optimizer | Update | str) -> Update:
    """An optimizer with nothing around it, or an update as it is."""
    return optimizer if isinstance(optimizer, Update) else Update(optimizer)


# Names that no parameter's state has.
LOSS_SCALE = "update/loss-scale"
UPDATES_MADE = "update/count"


def state_arguments(update: Update, trained: Sequence[Argument]) -> tuple[Argument, ...]:
    """Arguments of the step that the update needs: scalars first, then those of each parameter.

    Raises:
        UsageError: a group matches no parameter.
    """
    check_groups(update.parameter_groups, [item.spec.name for item in trained])
    return (
        *scalar_arguments(update),
        *(state for item in trained for state in parameter_arguments(update, item)),
    )


def scalar_arguments(update: Update) -> tuple[Argument, ...]:
    """State of an update that may be left out: the number of updates that were made.

    With a loss scale the scale and the updates since it was changed are in front of it.
    """
    if not update.skips:
        return ()
    made = Argument(Role.STATE, TensorSpec(UPDATES_MADE, (), "int32"))
    if update.scaling is None:
        return (made,)
    scale = Argument(Role.STATE, TensorSpec(LOSS_SCALE, ()), initial=update.scaling.initial)
    return (scale, Argument(Role.STATE, TensorSpec("update/good", (), "int32")), made)


def parameter_arguments(update: Update, parameter: Argument) -> tuple[Argument, ...]:
    """The state of one parameter: the optimizer's slots, the accumulator, the average."""
    spec = parameter.spec
    slots = update.rule_of(spec.name).optimizer.slots
    states = slots | ({ACCUMULATOR: 0.0} if update.accumulate > 1 else {})

    def state(slot: str, initial: float) -> Argument:
        name = f"{slot}/{spec.name}"
        return Argument(Role.STATE, TensorSpec(name, parameter.trained_shape), initial=initial)

    average = Argument(Role.AVERAGE, TensorSpec(f"{AVERAGE}/{spec.name}", spec.shape))
    return (
        *(state(slot, initial) for slot, initial in states.items()),
        *((average,) if update.ema is not None else ()),
    )
