"""Where a step turns from its forward to its backward pass."""

from collections.abc import Set as AbstractSet


def turn_between(forward: AbstractSet[int], backward: AbstractSet[int], calls: int) -> int:
    """The first call of the backward pass; the number of all where there is none.

    Some of the backward pass comes early: the share of a label in a mean of those that count needs
    nothing of the forward pass. Some of the forward pass comes late: running statistics are updated
    once the loss is known, and logits of many words are computed in parts, each with its gradient.
    So it is the call with the fewest others on the wrong side of it.

    Args:
        forward: calls of the forward pass.
        backward: those of the backward pass, none of which is in `forward`.
        calls: number of all.
    """
    turn, wrong, least = calls, len(forward), calls + 1
    for call in range(calls):
        if call in backward and wrong < least:
            turn, least = call, wrong
        wrong += (call in backward) - (call in forward)
    return turn
