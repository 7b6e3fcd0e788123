"""Which operator of Relax an expression calls."""

from typing import TYPE_CHECKING, TypeGuard

from odtc.core.ir.layouts import SECOND

if TYPE_CHECKING:
    from tvm import relax


def operator_of(value: object) -> str:
    """Name of the operator that an expression calls, or nothing."""
    return getattr(getattr(value, "op", None), "name", "")


def is_call(value: object, operator: str) -> "TypeGuard[relax.Call]":
    """Whether an expression calls the operator of that name."""
    return operator_of(value) == operator


def layout_of(call: "relax.Call") -> str:
    """The layout of the images of one of our own operators."""
    return str(call.attrs["layout"]) if "layout" in call.attrs.keys() else SECOND  # noqa: SIM118
