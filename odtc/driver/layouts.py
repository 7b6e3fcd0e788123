"""The choice of layouts of images in a training step: the best, ONNX's, or a plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.backends.targets import CPU, Target
from odtc.core.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from odtc.passes.contract import Pass

AUTO, CHEAPEST, ONNX = "auto", "cheapest", "native"
DEFAULT = ONNX
# Those that are found by a model.
_FOUND = (AUTO, CHEAPEST)


@dataclass(frozen=True)
class LayoutChoice:
    """The layouts that a user asks for.

    Attributes:
        is_native: whether all images stay as ONNX has them.
        plan: layouts of operators, by name; None for the best ones.
        is_surer: whether these have to be better than the layout of ONNX by what the model errs.
        is_tight: whether bytes of the arena are worth something, as there is a budget.
    """

    is_native: bool = False
    plan: Mapping[str, str] | None = None
    is_surer: bool = False
    is_tight: bool = False

    def passes(self, target: Target) -> "tuple[Pass, ...]":
        """The passes that give a training step for a target its layouts."""
        if self.is_native:
            return ()
        # Kernels come with them, which a dry run goes without.
        from odtc.backends.cost.layout_cost import ERROR, layout_costs
        from odtc.frontend.training import TRAIN_STEP
        from odtc.passes.layout.select import SelectLayouts

        costs = layout_costs(target, is_tight=self.is_tight)
        margin = ERROR if self.is_surer else 0.0
        return (SelectLayouts(TRAIN_STEP, costs, self.plan, margin),)


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
        return LayoutChoice(is_surer=layout == AUTO, is_tight=is_tight)
    if has_one:
        raise UnsupportedError(
            "images of a step for a GPU, or in mixed precision, have the layout NCHW only",
            where="layout",
            hint="leave --layout out, or compile for a CPU in float32",
        )
    try:
        text = Path(layout).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # of a name with a NUL, or of what is no text
        raise UsageError(
            f"the layout {layout!r} is not {AUTO}, {CHEAPEST} or {ONNX}, nor a plan that can be "
            f"read ({error})",
            where="layout",
            hint="`odtc inspect ART --layouts` prints a plan",
        ) from error
    from odtc.passes.layout.plan_text import parse_plan

    return LayoutChoice(plan=parse_plan(text, layout), is_tight=is_tight)
