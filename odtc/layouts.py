"""What a user asks of the layouts of images in a training step: the best, ONNX's, or a plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from odtc.backends.layout_cost import ERROR, layout_costs
from odtc.backends.targets import CPU, Target
from odtc.core.errors import UnsupportedError, UsageError
from odtc.frontend.training import TRAIN_STEP
from odtc.passes.contract import Pass
from odtc.passes.layout.plan_text import parse_plan
from odtc.passes.layout.select import SelectLayouts

AUTO, CHEAPEST, ONNX = "auto", "cheapest", "native"
DEFAULT = ONNX
# Those that are found by a model: the share by which they have to be better than that of ONNX.
_FOUND = {AUTO: ERROR, CHEAPEST: 0.0}


@dataclass(frozen=True)
class LayoutChoice:
    """What is asked for.

    Attributes:
        is_native: whether all images stay as ONNX has them.
        plan: layouts of operators, by name; None for the best ones.
        margin: share of a step by which these have to be better than the layout of ONNX.
        is_tight: whether bytes of the arena are worth something, as there is a budget.
    """

    is_native: bool = False
    plan: Mapping[str, str] | None = None
    margin: float = 0.0
    is_tight: bool = False

    def passes(self, target: Target) -> tuple[Pass, ...]:
        """What gives a training step for a target its layouts."""
        if self.is_native:
            return ()
        costs = layout_costs(target, is_tight=self.is_tight)
        return (SelectLayouts(TRAIN_STEP, costs, self.plan, self.margin),)


NATIVE = LayoutChoice(is_native=True)


def layout_choice(target: Target, layout: str, *, is_mixed: bool, is_tight: bool) -> LayoutChoice:
    """Reads the option `layout`.

    Args:
        target: what is compiled for.
        layout: `auto`, `cheapest`, `native`, or the path of a plan.
        is_mixed: whether the step is of mixed precision.
        is_tight: whether it has to keep within a budget.

    Raises:
        UsageError: there is no such plan, or it cannot be read.
        UnsupportedError: there is a plan, and the step has NCHW only.
    """
    has_one = target.kind != CPU or is_mixed
    if layout == ONNX or (layout in _FOUND and has_one):
        return NATIVE
    if layout in _FOUND:
        return LayoutChoice(margin=_FOUND[layout], is_tight=is_tight)
    if has_one:
        raise UnsupportedError(
            "images of a step for a GPU, or in mixed precision, have the layout NCHW only",
            where="layout",
            hint="leave --layout out, or compile for a CPU in float32",
        )
    try:
        text = Path(layout).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the layout {layout!r} is none of {AUTO}, {CHEAPEST} and {ONNX}, and no plan that can "
            f"be read ({error})",
            where="layout",
            hint="`odtc inspect ART --layouts` prints a plan",
        ) from error
    return LayoutChoice(plan=parse_plan(text, layout), is_tight=is_tight)
