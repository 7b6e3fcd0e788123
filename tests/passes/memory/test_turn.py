"""The call at which the backward pass begins."""

import pytest

from odtc.passes.memory.turn import turn_between


@pytest.mark.parametrize(
    ("calls", "turn"),
    [
        ("ffffbbb", 4),
        # A gradient that needs nothing of the forward pass.
        ("bffffbbb", 5),
        # Updates of running statistics, behind the loss's gradient.
        ("ffffbfffbbbb", 8),
        # One call of the forward pass behind it, which is of no weight.
        ("ffffbfbbbb", 4),
        # Parts of logits with their gradients.
        ("fffffbfbfbfbbbb", 5),
        # Calls of neither.
        ("ff.ff.b.b", 6),
        ("bbb", 0),
        ("fff", 3),
        ("", 0),
    ],
)
def test_fewest_calls_are_on_the_wrong_side(calls: str, turn: int) -> None:
    forward, backward = (
        {at for at, each in enumerate(calls) if each == kind} for kind in ("f", "b")
    )
    assert turn_between(forward, backward, len(calls)) == turn
