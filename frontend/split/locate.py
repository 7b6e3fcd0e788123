"""Where the samples of a batch lie in the outputs: found by following them through the graph.

The graph is compared with that of another batch, as for micro-batches. What cannot be followed, the
user may say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odtc.core.errors import OdtcError, UsageError
from odtc.core.ir.place import Place
from odtc.frontend.feeds import Axes, checked_axis
from odtc.frontend.graph import Graph, samples_of
from odtc.frontend.split.apart import find_places


@dataclass(frozen=True)
class Located:
    """Where samples lie.

    Attributes:
        outputs: the place of each of the graph's outputs; None where it holds none, or where
            nothing shows it.
        labels: of each label that is a part of the graph.
        refusals: why nothing shows it, by number of the output.
    """

    outputs: tuple[Place | None, ...]
    labels: dict[str, Place]
    refusals: Mapping[int, OdtcError]

    @property
    def is_shown(self) -> bool:
        """Whether every output is followed, and one of them holds samples.

        Where no output grows with an axis that is taken for the batch, nothing says that it is.
        """
        return not self.refusals and any(self.outputs)


def locate(graph: Graph, twin: Graph) -> Located:
    """Follows the samples through a graph.

    Args:
        graph: normalised.
        twin: the same model, normalised with a larger batch.
    """
    try:
        found = find_places(twin, graph)
    except OdtcError as error:
        return nowhere(graph, error)
    places, lost = found.places, found.lost
    pairs = list(zip(graph.outputs, twin.outputs, strict=True))
    refusals = {
        number: lost[other]
        for number, (name, other) in enumerate(pairs)
        # The same for any batch: the samples went into a mean, or the like.
        if other in lost and graph.shapes.get(name) != twin.shapes.get(other)
    }
    outputs = tuple(places.get(other) for _, other in pairs)
    return Located(outputs, _of_labels(graph, twin, outputs), refusals)


def nowhere(graph: Graph, why: OdtcError) -> Located:
    """The result for a model that there is no twin of."""
    numbers = range(len(graph.outputs))
    return Located(tuple(None for _ in numbers), {}, dict.fromkeys(numbers, why))


def _of_labels(graph: Graph, twin: Graph, outputs: Sequence[Place | None]) -> dict[str, Place]:
    """Labels of a loss that is a part of the graph: along the axis that grows with the batch."""
    found = {}
    for spec, other in zip(graph.labels, twin.labels, strict=True):
        grown = [
            n
            for n, pair in enumerate(zip(spec.shape, other.shape, strict=True))
            if len({*pair}) > 1
        ]
        if len(grown) != 1:
            continue
        axis = grown[0]
        many = spec.shape[axis] // samples_of(graph)
        alike = (p for p in outputs if p and p.outer * p.inner == many)
        found[spec.name] = next(alike, Place(0, 1, many)).at(axis)
    return found


def as_said(located: Located, graph: Graph, names: Mapping[str, int], batch_axes: Axes) -> Located:
    """The result, with what the user says of outputs.

    Args:
        located: what was found.
        graph: of the outputs.
        names: of outputs in the model, each with its number.
        batch_axes: what the user says, by name.

    Raises:
        UsageError: the samples are elsewhere, or cannot be there.
    """
    outputs, refusals = list(located.outputs), dict(located.refusals)
    for name, number in names.items():
        if name not in batch_axes:
            continue
        axis, place = batch_axes[name], outputs[number]
        shape = graph.shapes[graph.outputs[number]]
        refusals.pop(number, None)
        if axis is None:
            outputs[number] = None
            continue
        said = checked_axis(axis, len(shape), f"output {name}")
        if place and place.axis != said:
            raise UsageError(
                f"the batch axis {axis} is given; the samples lie along axis {place.axis} of "
                f"{list(shape)}",
                where=f"output {name}",
                hint=f"leave it out, or pass --batch-axis {name}={place.axis}",
            )
        outputs[number] = place or _place_in(shape, said, samples_of(graph), name)
    return Located(tuple(outputs), located.labels, refusals)


def _place_in(shape: Sequence[int], axis: int, samples: int, name: str) -> Place:
    if shape[axis] % samples:
        raise UsageError(
            f"axis {axis} of {list(shape)} holds no entry for each of {samples} samples",
            where=f"output {name}",
            hint=f"give another axis, or none: --batch-axis {name}=none",
        )
    return Place(axis, 1, shape[axis] // samples)
