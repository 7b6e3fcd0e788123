"""Output of `odtc inspect --layouts`: a plan that `odtc compile --layout` takes, with its costs."""

import dataclasses
from typing import TYPE_CHECKING, Any

from odtc.core.ir.layouts import SECOND

if TYPE_CHECKING:
    from odtc.core.artifact.layout_plan import LayoutPlan


def report(plan: "LayoutPlan | None") -> list[str]:
    """The plan as text; what is no plan is a comment."""
    if plan is None:
        return [f"# all images of the step have the layout {SECOND}"]
    head = [
        "# layouts of the operators that have a choice",
        f"# {_milliseconds(plan.seconds)} by a model of the target, "
        f"{_milliseconds(plan.native_seconds)} in {SECOND} alone{_proof(plan)}",
        f"# {plan.nbytes:,} bytes of copies, and of what {SECOND} alone would not have in memory",
        *(
            f"# copy of {copy.tensor} to {copy.layout}: {copy.nbytes:,} bytes, "
            f"{_milliseconds(copy.seconds)}"
            for copy in plan.copies
        ),
    ]
    lines = [
        f"{each.name} {each.layout}  # "
        + ", ".join(f"{layout} {_milliseconds(each.seconds[layout])}" for layout in each.seconds)
        for each in plan.operators
    ]
    return [*head, *lines]


def _proof(plan: "LayoutPlan") -> str:
    """A sentence on plans that are not taken; empty where this one was asked for."""
    if plan.is_proven:
        less = "costs less, with its bytes" if plan.price else "takes less"
        return f"; no plan {less}"
    with_bytes = ", with its bytes" if plan.price else ""
    least = f"; no plan has less than {_milliseconds(plan.bound)}{with_bytes}"
    return least if plan.bound else ""


def describe(plan: "LayoutPlan | None") -> dict[str, Any] | None:
    """The plan as data, for `--json`."""
    return None if plan is None else dataclasses.asdict(plan) | {"proven": plan.is_proven}


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"
