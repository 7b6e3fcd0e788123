"""Graphs of a model that are only evaluated, for fewer samples than a step has.

They are compared with that of the step, as micro-batches are: each sample has to be computed alone.
"""

from collections.abc import Sequence

import numpy as np

from odtc.core.errors import ModelError, UnsupportedError, UsageError
from odtc.driver.drafts.draft import Draft
from odtc.driver.drafts.drafting import evaluated_draft_of
from odtc.frontend.graph import Graph
from odtc.frontend.split.apart import find_places

_SAYS_WHERE = "--batch-axis NAME=AXIS says where the samples lie, where none depends on another"


def evaluated_graphs(whole: Draft) -> Sequence[Graph]:
    """The graphs to evaluate the numbers of samples that the user asks for, the most first.

    A whole batch is evaluated in any case.

    Raises:
        UsageError: a number is above the batch.
        UnsupportedError: the model computes something else for so many samples.
    """
    asked = sorted({*whole.source.options.evaluated}, reverse=True)
    if asked and not 1 <= asked[-1] <= asked[0] <= whole.batch:
        wrong = asked[0] if asked[0] > whole.batch else asked[-1]
        raise UsageError(
            f"evaluations of {wrong} samples do not fit a batch of {whole.batch}",
            where="eval_batch",
            hint=f"give 1 to {whole.batch}; more samples are evaluated in turns",
        )
    return [_graph(whole, samples) for samples in asked if samples < whole.batch]


def _graph(whole: Draft, samples: int) -> Graph:
    try:
        graph = evaluated_draft_of(whole.source, samples).graph
        share_weights(whole.graph, graph)
        _check_same(whole, graph, samples)
    except (ModelError, UnsupportedError) as error:
        raise UnsupportedError(
            f"the model cannot be evaluated for {samples} of {whole.batch} samples: {error.what}",
            where=error.where or "eval_batch",
            hint=error.hint,
        ) from error
    return graph


def _check_same(whole: Draft, graph: Graph, samples: int) -> None:
    """Checks that the outputs are those of the whole batch, but for the samples.

    Raises:
        UnsupportedError: they may not be, or none of them holds samples.
    """
    objective = whole.objective
    found = find_places(whole.graph, graph).places
    outputs = list(zip(whole.graph.outputs, graph.outputs, strict=True))
    places = {n: objective.samples_in(n) for _, n in objective.evaluated}
    if not any(places.values()):
        name, _ = objective.evaluated[0]
        raise UnsupportedError(
            "nothing shows where the samples lie in it", where=f"output {name}", hint=_SAYS_WHERE
        )
    for name, number in objective.evaluated:
        place, (output, other) = places[number], outputs[number]
        if place is None:
            continue
        wanted = place.shape_of(whole.graph.shapes[output], samples)
        # What the user says of an output is not found in the graph.
        if found.get(output, place) != place or graph.shapes[other] != wanted:
            raise UnsupportedError(
                "it holds no entry for each sample", where=f"output {name}", hint=_SAYS_WHERE
            )


def share_weights(whole: Graph, part: Graph) -> None:
    """Gives both the same arrays, so that the weights are in memory once.

    Raises:
        UnsupportedError: they have others.
    """
    same = whole.parameters.keys() == part.parameters.keys() and all(
        np.array_equal(value, part.parameters[name], equal_nan=True)
        for name, value in whole.parameters.items()
    )
    if not same:
        raise UnsupportedError("the model has other weights with a smaller batch")
    part.parameters = dict(whole.parameters)
