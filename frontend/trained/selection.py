"""Selects what is trained: which parameters, and of some of them which part.

Choices add up; `frontend/trained/choices.py` lists them. A sparse choice narrows what another one
selects; where two of them name a weight, the later one counts. What is to be frozen is taken away
last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from odtc.core.errors import UsageError
from odtc.core.options.option_text import did_you_mean
from odtc.core.specs import Argument, Block, Role, TensorSpec
from odtc.frontend.graph import Graph, statistics_of
from odtc.frontend.trained.choices import Parts, read_choice, trainable
from odtc.frontend.weights.notes import listed

_ALL = "*"
_BY_NAME = "--train NAME trains any float tensor by its name"


@dataclass(frozen=True)
class Selection:
    """The tensors that a training step trains.

    Attributes:
        trained: parameters that are trained, and the part of each.
        still: running statistics of batch normalisations in inference mode: they do not move.
        idle_freezes: choices of what is to be frozen of which nothing would be trained anyway.
    """

    trained: Parts
    still: frozenset[str] = frozenset()
    idle_freezes: tuple[str, ...] = ()

    def arguments(self, graph: Graph) -> list[Argument]:
        """The graph's parameters, in order, each with its role."""
        statistics = statistics_of(graph) - self.still
        return [self._argument(spec, statistics) for spec in graph.parameter_specs()]

    def _argument(self, spec: TensorSpec, statistics: frozenset[str]) -> Argument:
        if spec.name in statistics:
            return Argument(Role.STATISTIC, spec)
        if spec.name in self.trained:
            return Argument(Role.PARAMETER, spec, block=self.trained[spec.name])
        return Argument(Role.FROZEN, spec)


def select(
    graph: Graph,
    train: Sequence[str] = (_ALL,),
    freeze: Sequence[str] = (),
    freeze_batch_norm: bool = False,
) -> Selection:
    """Chooses what is trained.

    Args:
        graph: specialised, not yet normalised.
        train: choices, as text; they add up.
        freeze: choices whose parameters are not trained, whatever `train` says.
        freeze_batch_norm: batch normalisations whose scale and shift are both frozen compute with
            their running statistics, which do not move: PyTorch's `eval()` on those modules.
            Without it they normalise by the batch and their statistics move: its `train()`.

    Raises:
        UsageError: a choice is malformed, matches nothing, or nothing is left to train.
        UnsupportedError: a sparse update was asked of a weight that has none.
    """
    chosen: dict[str, Block | None] = {}
    for text in train:
        for name, block in _parts(graph, text).items():
            chosen[name] = block or chosen.get(name)
    idle = []
    for text in freeze:
        names = [] if _is_untrained(graph, text) else [*_parts(graph, text)]
        if chosen.keys().isdisjoint(names):
            idle.append(text)
        for name in names:
            chosen.pop(name, None)
    if train and not chosen:
        raise UsageError(
            f"nothing is left to train: {', '.join(freeze)} freezes all of it",
            hint="freeze less, or train more",
        )
    still = _frozen_statistics(graph, chosen)
    if still and not freeze_batch_norm:
        graph.notes.append(
            "batch normalisations whose parameters are frozen normalise by the batch all the same, "
            "and move their running statistics, as in PyTorch; freeze_batch_norm keeps these"
        )
    return Selection(chosen, still if freeze_batch_norm else frozenset(), tuple(idle))


def _is_untrained(graph: Graph, text: str) -> bool:
    """Whether a text is the name of a tensor that is no parameter as it is."""
    return text in graph.findings and text not in graph.parameters


def _parts(graph: Graph, text: str) -> Parts:
    parts = read_choice(text).parts(graph)
    if not parts:
        bare = _untrained(graph)
        if text == _ALL and graph.frozen and not bare:
            raise UsageError(
                f"all parameters are frozen: the file says so of {len(graph.frozen)}",
                hint="train some by name: --train NAME, train=['NAME']; or export a module whose "
                "parameters require gradients",
            )
        raise UsageError(
            "the model holds no weights that can be trained"
            if bare and text == _ALL
            else f"no trainable parameter matches {text!r}",
            hint=bare
            or f"{did_you_mean(text, trainable(graph))}`odtc check MODEL --all` lists the "
            "parameters' names",
        )
    return parts


def _untrained(graph: Graph) -> str:
    """Names what a model has in place of parameters; empty where it has some."""
    if set(graph.parameters) - statistics_of(graph):
        return ""
    doubtful = [f"{n} ({found.reason})" for n, found in graph.findings.items() if found.is_doubtful]
    if doubtful:
        return "; ".join((*graph.untrainable, f"it has {listed(doubtful)}", _BY_NAME))
    if graph.untrainable:
        return "; ".join(graph.untrainable)
    return f"it has no tensor that odtc treats as a parameter; {_BY_NAME}"


def _frozen_statistics(graph: Graph, trained: Parts) -> frozenset[str]:
    """Running statistics of the batch normalisations whose scale and shift are frozen."""
    moving = {
        name
        for node in graph.nodes
        if node.op_type == "BatchNormalization" and not trained.keys().isdisjoint(node.input[1:3])
        for name in node.input[3:5]
    }
    return statistics_of(graph) - moving
