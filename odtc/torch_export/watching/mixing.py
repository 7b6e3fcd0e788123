"""Checks that a module computes each sample alone: among others, and in another order.

Where they do not, the samples often lie along another axis than the first: those of PyTorch's
recurrences and transformers do, unless these are made with `batch_first=True`.
"""

import contextlib
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from odtc.torch_export.calls import ExampleCall
from odtc.torch_export.verify import results

# Tolerance relative to an output's largest element: allows another order of sums only.
_TOLERANCE = 1e-3


def mixing_notes(
    module: nn.Module, calls: Sequence[ExampleCall], expected: Sequence[Mapping[str, Tensor]]
) -> list[str]:
    """Returns notes on a module whose samples influence one another's outputs.

    Args:
        module: it runs in inference mode, once.
        calls: with two samples or more, and with one more; one call where there is no batch.
        expected: results of the module for each.
    """
    if len(calls) < 2:
        return []
    backwards: Mapping[str, Tensor] = {}
    # A module may require an order of samples, such as sorted ones.
    with contextlib.suppress(Exception):
        backwards = results(module, calls[1].backwards())
    for (name, tensor), more in zip(expected[0].items(), expected[1].values(), strict=False):
        apart = _apart(tensor, more, backwards.get(name))
        if apart > _TOLERANCE:
            return [_said(calls[0], name, apart)]
    return []


def _apart(tensor: Tensor, more: Tensor, backwards: Tensor | None) -> float:
    """The largest change of an output's samples among others, relative to its largest element.

    Args:
        tensor: the output.
        more: that of one more sample.
        backwards: that of as many, in reverse order.
    """
    if tensor.dim() != more.dim() or not tensor.is_floating_point() or not tensor.numel():
        return 0.0
    sizes = enumerate(zip(tensor.shape, more.shape, strict=True))
    axes = [axis for axis, (size, other) in sizes if other == size + 1]
    if backwards is None or len(axes) != 1:
        return 0.0
    (axis,) = axes
    same = backwards.flip(axis).narrow(axis, 0, tensor.shape[axis])
    return ((same - tensor).abs().max() / tensor.abs().max()).item()


def _said(call: ExampleCall, output: str, apart: float) -> str:
    taken = [(k, a) for k, a in call.axes.items() if a is not None]
    places = ", ".join(f"axis {axis} of {name}" for name, axis in taken)
    name, axis = taken[0]
    other = 1 - axis if axis in (0, 1) else 0
    return (
        f"the samples along {places} change one another's outputs: among others, in another "
        f"order, {output} differs by {apart:.2g} of its largest element. If the samples lie along "
        f"another axis, say so: batch_axis={{{name!r}: {other}}} (--batch-axis {name}={other})"
    )
