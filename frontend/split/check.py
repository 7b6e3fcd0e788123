"""Reasons that keep a step from running as micro-batches whose gradients are added up."""

import math
from collections.abc import Sequence

import onnx

from odtc.core.errors import UnsupportedError
from odtc.frontend.graph import Graph, describe_node
from odtc.frontend.losses.objective import Objective
from odtc.frontend.losses.weighing import require_one
from odtc.frontend.split.apart import places_of
from odtc.frontend.trained.selection import Selection


def check_whole(
    graph: Graph, objective: Objective, selection: Selection, *, allow_batch_norm: bool
) -> None:
    """Finds what can be told without a smaller batch.

    Args:
        graph: normalised, of the whole batch.
        objective: its losses.
        selection: what is trained.
        allow_batch_norm: whether batch statistics may be those of a micro-batch.

    Raises:
        UnsupportedError: the losses of micro-batches do not make the loss of the batch, or
            statistics are taken over the batch.
    """
    require_one(objective.aims)
    nodes = batch_norms(graph, selection)
    if nodes and not allow_batch_norm:
        raise UnsupportedError(
            f"it changes what {len(nodes)} batch normalisations compute: they take the statistics "
            "of the batch",
            where=f"node {describe_node(nodes[0])}",
            hint="allow it with --allow-split-batchnorm (in Python allow_split_batchnorm=True), or "
            "freeze them with --freeze-batch-norm",
        )


def check_part(whole: Graph, part: Graph, selection: Selection) -> None:
    """Checks that a graph computes for a part of a batch what the whole one's does.

    Args:
        whole: normalised.
        part: the same with a smaller batch.
        selection: what is trained.

    Raises:
        UnsupportedError: it may not.
    """
    places = places_of(whole, part)
    for name in whole.outputs:
        if name not in places:
            raise UnsupportedError(
                "it holds no entry for each sample",
                where=f"output {whole.originals.get(name) or name}",
            )
    single = [node for node in batch_norms(part, selection) if _values_of(part, node) == 1]
    if single:
        raise UnsupportedError(
            "a channel has one value in a micro-batch, which has no variance",
            where=f"node {describe_node(single[0])}",
            hint="give a larger batch, or fewer micro-batches",
        )


def batch_norms(graph: Graph, selection: Selection) -> Sequence[onnx.NodeProto]:
    """Batch normalisations that take the statistics of the batch."""
    nodes = [node for node in graph.nodes if node.op_type == "BatchNormalization"]
    return [node for node in nodes if node.input[3] not in selection.still]


def _values_of(graph: Graph, node: onnx.NodeProto) -> int:
    """Values of each channel of a batch normalisation."""
    shape = graph.shapes[node.input[0]]
    return math.prod(shape) // shape[1]
