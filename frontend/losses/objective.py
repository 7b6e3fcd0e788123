"""Joins losses to a graph: which tensors are trained, and which an evaluation gives."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.ir.place import Place
from odtc.core.options.option_text import did_you_mean
from odtc.core.specs import free_name
from odtc.frontend.graph import Graph, read_inputs
from odtc.frontend.losses.given import InModel, LossGraph
from odtc.frontend.losses.loss import Loss
from odtc.frontend.losses.merge import merge_loss
from odtc.frontend.losses.scores import require_loss
from odtc.frontend.losses.terms import Term
from odtc.frontend.normalize.structure import without_closing

_LABEL = "label"


@dataclass(frozen=True)
class Aim:
    """A loss on an output that the graph has.

    Attributes:
        output: its name in the ONNX model.
        loss: the loss.
        weight: factor of the loss in the sum.
        label: the name of the label that it is compared with, if the loss takes one.
    """

    output: str
    loss: Loss
    weight: float
    label: str = _LABEL


@dataclass(frozen=True)
class Objective:
    """The losses to minimise and the outputs to evaluate, by place among the graph's outputs.

    Attributes:
        aims: the losses; the first of the graph's outputs are theirs, in this order.
        evaluated: name and place of each output that can be evaluated; the first is the usual one.
        places: where the samples lie in the graph's outputs, each computed alone; None where
            nothing shows it.
        declared: where the file says that they lie, which it says of samples that change one
            another's outputs, too.
        weighed: in how many calls a step is taken, where calls count as much as the labels of the
            only loss weigh; 0 where each counts the same.
    """

    aims: tuple[Aim, ...]
    evaluated: tuple[tuple[str, int], ...]
    places: tuple[Place | None, ...] = ()
    declared: tuple[Place | None, ...] = ()
    weighed: int = 0

    def samples_in(self, output: int) -> Place | None:
        """Where the samples lie in an output, by its number, and each is computed alone."""
        return self.places[output] if self.places else None

    def labels_in(self, output: int) -> Place | None:
        """Where the samples lie in what an output is compared with: a label for each of its own."""
        found = self.samples_in(output)
        return self.declared[output] if found is None and self.declared else found


def join_losses(graph: Graph, terms: Sequence[Term]) -> Objective:
    """Cuts the graph down to what the losses need, and says what was left out.

    Args:
        graph: specialised, with all outputs of the model.
        terms: what the user wants to minimise.

    Raises:
        UsageError: the model has no output of a name.
        UnsupportedError: no loss can be on an output.
        ModelError: a loss does not fit the model.
    """
    declared = list(graph.outputs)
    aims, shown = _aims(graph, terms)
    trained = [aim.output for aim in aims]
    kept = [*trained, *(name for name in shown if name not in trained)]
    left_out = [name for name in (*declared, *graph.aside) if name not in kept]
    if left_out:
        graph.notes.append(f"outputs without a loss are left out: {', '.join(left_out)}")
    graph.outputs = [
        *(without_closing(graph, aim.output, aim.loss) for aim in aims),
        *kept[len(aims) :],
    ]
    graph.drop_unused()
    return Objective(_labelled(graph, aims), tuple((name, kept.index(name)) for name in shown))


def _labelled(graph: Graph, aims: Sequence[Aim]) -> tuple[Aim, ...]:
    """Names the labels: `label`, or like their outputs where several are trained.

    What is fed is told apart by its name alone, so a label that is called like an input or a weight
    gets another name, and a note says which.
    """
    fed = (*read_inputs(graph), *graph.labels)
    taken = {spec.name for spec in fed} | graph.parameters.keys()
    named = []
    for aim in aims:
        usual = _LABEL if len(aims) == 1 else aim.output
        label = usual if usual not in taken else free_name(f"label_of_{aim.output}", taken)
        if label != usual and not isinstance(aim.loss, InModel):
            graph.notes.append(
                f"the label of the output {aim.output!r} is called {label!r}: {usual!r} is the "
                "name of another tensor"
            )
        taken.add(label)
        named.append(replace(aim, label=label))
    return tuple(named)


def _aims(graph: Graph, terms: Sequence[Term]) -> tuple[list[Aim], list[str]]:
    """The losses with their outputs, and the names of the outputs to evaluate."""
    declared = list(graph.outputs)
    aims = []
    for term in terms:
        if isinstance(term.loss, LossGraph):
            loss, joined = merge_loss(graph, term.loss)
            return [Aim(loss, InModel(), 1.0)], joined
        output = _known(graph, term.output)
        if isinstance(term.loss, InModel):
            require_loss(graph, output)
        aims.append(Aim(output, term.loss, term.weight))
    return aims, _evaluated(aims, declared)


def _known(graph: Graph, output: str | None) -> str:
    declared = graph.outputs
    if output is None:
        if graph.aside:
            graph.notes.append(
                f"the loss is on {declared[0]!r}, the first output that can be trained"
            )
        return declared[0]
    if output in graph.aside:
        raise UnsupportedError(
            f"the output {output!r} cannot be trained: {graph.aside[output]}",
            hint=f"put the loss on another one: {', '.join(declared)}",
        )
    if output not in declared:
        raise UsageError(
            f"the model has no output {output!r}",
            hint=f"{did_you_mean(output, declared)}it has {', '.join(declared)}",
        )
    return output


def _evaluated(aims: Sequence[Aim], declared: Sequence[str]) -> list[str]:
    """Outputs with a label; else the first that is no loss; else the loss."""
    trained = [aim.output for aim in aims]
    compared = [aim.output for aim in aims if not isinstance(aim.loss, InModel)]
    others = [name for name in declared if name not in trained]
    return compared or others[:1] or trained[:1]
