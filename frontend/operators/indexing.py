"""Operators that read and write by index."""

from odtc.frontend.operators.operator import FORWARD_ONLY, Operator

OPERATORS: dict[str, Operator] = {
    "Slice": FORWARD_ONLY,
}
