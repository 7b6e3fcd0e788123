"""The training graph: forward, loss, backward and the optimizer's update in one Relax function.

    train_step(inputs..., labels..., lr, step, weights..., state...) -> (loss, updated...)
    evaluate(inputs..., weights...) -> logits

Parameters, running statistics and optimizer state are updated in place: `updated` are the same
tensors, named in the result so that no pass takes the updates for dead code. The last pass of
lowering leaves the loss alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tvm

from odtc.core.artifact.manifest import Evaluation
from odtc.core.artifact.memory_plan import Origin
from odtc.core.errors import ModelError
from odtc.core.specs import WEIGHT_ROLES, Argument, Role, TensorSpec, free_name, of_role
from odtc.frontend.backward.differentiate import Trained, differentiate, try_to_differentiate
from odtc.frontend.backward.rebuild import results_of
from odtc.frontend.evaluation import add_evaluations, add_smaller
from odtc.frontend.gradients.table import register_gradients
from odtc.frontend.graph import Graph, samples_of
from odtc.frontend.importer import FORWARD, import_forward
from odtc.frontend.indexed_inputs import indexed_rows
from odtc.frontend.losses.objective import Objective
from odtc.frontend.optimizers.update import Update, state_arguments
from odtc.frontend.origins import origins_of
from odtc.frontend.trained.selection import Selection
from odtc.frontend.updates.update import add_updates, weights_argument

TRAIN_STEP = "train_step"


@dataclass(frozen=True)
class TrainingGraph:
    """A training step in Relax.

    Attributes:
        module: holds `train_step`, and a function for each evaluation.
        arguments: of `train_step`, in order.
        evaluations: the outputs that can be evaluated.
        origins: of the tensors whose numbers the variables of `module` are named by.
    """

    module: tvm.IRModule
    arguments: tuple[Argument, ...]
    evaluations: tuple[Evaluation, ...]
    origins: tuple[Origin, ...]


def build_training_graph(
    graph: Graph,
    objective: Objective,
    update: Update,
    selection: Selection,
    smaller: Sequence[Graph] = (),
) -> TrainingGraph:
    """Derives the training step of a normalised graph.

    Args:
        graph: the normalised inference graph.
        objective: the losses on its outputs.
        update: how gradients change the weights.
        selection: what is trained.
        smaller: the graph with fewer samples, with which it can be evaluated, too.

    Raises:
        UsageError: the glob of a group matches no parameter.
        ModelError: the loss does not fit the output.
        UnsupportedError: the graph cannot be imported.
    """
    imported, arguments, losses = _forward(graph, objective, update, selection)
    weighed = objective.weighed
    adjoint = differentiate(
        imported, arguments, losses, unbiased=graph.unbiased, weighed=weighed > 0
    )
    module = add_updates(TRAIN_STEP, adjoint, arguments, update, weighed)
    evaluations = add_evaluations(module, imported, arguments, objective)
    for each in smaller:
        other, samples = import_forward(each, selection.trained), samples_of(each)
        evaluations = add_smaller(module, other, samples, arguments, objective, evaluations)
    origins = tuple(origins_of(graph).values())
    return TrainingGraph(module, arguments, evaluations, origins)


def try_training_graph(
    graph: Graph, objective: Objective, update: Update, selection: Selection
) -> None:
    """Raises what `build_training_graph` would, in less time: it stops after the gradients."""
    try_to_differentiate(*_forward(graph, objective, update, selection))


def _forward(
    graph: Graph, objective: Objective, update: Update, selection: Selection
) -> tuple[tvm.IRModule, tuple[Argument, ...], list[Trained]]:
    """The forward function, the arguments of the step, and the losses."""
    register_gradients()
    imported = import_forward(graph, selection.trained)
    losses = _losses(objective, imported)
    arguments = _arguments(graph, losses, update, selection, is_weighed=objective.weighed > 0)
    return imported, arguments, losses


def _losses(objective: Objective, imported: tvm.IRModule) -> list[Trained]:
    """The losses, each with the argument that it compares with."""
    outputs = results_of(imported[FORWARD])
    losses = []
    for place, aim in enumerate(objective.aims):
        type_ = outputs[place].ty
        shape = tuple(int(size) for size in type_.shape)
        output = TensorSpec(aim.output, shape, str(type_.dtype))
        label, argument = aim.loss.label(output, objective.labels_in(place)), None
        if label is not None:
            spec = TensorSpec(aim.label, label.shape, label.dtype)
            argument = Argument(Role.LABEL, spec, label.classes, place=label.place)
        losses.append(Trained(place, aim.loss, aim.weight, argument))
    return losses


def _arguments(
    graph: Graph,
    losses: Sequence[Trained],
    update: Update,
    selection: Selection,
    *,
    is_weighed: bool,
) -> tuple[Argument, ...]:
    weights = selection.arguments(graph)
    states = state_arguments(update, of_role(weights, Role.PARAMETER))
    if is_weighed:
        states = (weights_argument(), *states)
    rows = indexed_rows(graph)
    fed = (
        *(_fed(graph, Role.INPUT, spec, rows.get(spec.name, 0)) for spec in graph.inputs),
        *(_fed(graph, Role.LABEL, spec) for spec in graph.labels),
        *(item.label for item in losses if item.label is not None),
    )
    _require_own_names((*fed, *weights), states)
    # The names of these two are nobody's business: they give way to those of the model.
    taken = {item.spec.name for item in (*fed, *weights, *states)}
    return (
        *fed,
        Argument(Role.LEARNING_RATE, TensorSpec(free_name("lr", taken), ())),
        Argument(Role.STEP, TensorSpec(free_name("step", taken), (), "int32")),
        *weights,
        *states,
    )


def _require_own_names(tensors: Sequence[Argument], states: Sequence[Argument]) -> None:
    """Checks that no tensor of the model is called as a state of a weight.

    A checkpoint holds weights and states by name, and an app finds inputs among them so.

    Raises:
        ModelError: one is.
    """
    taken = {item.spec.name for item in states}
    for item in tensors:
        if item.spec.name in taken:
            what = "weight" if item.role in WEIGHT_ROLES else item.role
            raise ModelError(
                f"the {what} has the name under which the optimizer's state of another is kept",
                where=f"{what} {item.spec.name}",
                hint="give it another name in the file, or train it with another optimizer",
            )


def _fed(graph: Graph, role: Role, spec: TensorSpec, rows: int = 0) -> Argument:
    """The argument for what a caller feeds."""
    classes, place = graph.classes.get(spec.name), graph.places.get(spec.name)
    return Argument(role, spec, classes, place=place, rows=rows)
