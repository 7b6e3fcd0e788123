"""The step as a problem of layouts: its images, and the operators that make and read them."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import tvm
from tvm import relax

from odtc.core.ir.layouts import LAST, SECOND, is_same_in_both
from odtc.dialect.channels_last import is_image
from odtc.passes.graph.read_copies import fused_kernels
from odtc.passes.graph.read_normalised import RESULT, Readers
from odtc.passes.ir.bindings import bindings_of
from odtc.passes.ir.tensor_bytes import tensor_bytes, variable_bytes
from odtc.passes.layout.forms import Rule, images_of, rule_of
from odtc.passes.layout.problem import LayoutProblem, OperatorForm, OperatorNode, Tensor


@dataclass(frozen=True)
class Costs:
    """The costs of layouts, by a target's model.

    Attributes:
        call: seconds of a call of an operator in a layout.
        copy: seconds of a copy of so many bytes into another layout.
        written: seconds that a batch normalisation and its readers take more where its result, of
            so many bytes, is in memory than where these compute it.
        most_copies: of a result that they make as they read it, at most; see `ReadNormalised`.
        price: seconds that a byte of the arena is worth.
    """

    call: Callable[[relax.Call, str], float]
    copy: Callable[[int], float]
    written: Callable[[int], float]
    most_copies: int
    price: float = 0.0


@dataclass
class StepGraph:
    """The operators of a step, seen through its aliases and tuples.

    Attributes:
        function: the step.
        rules: of the bindings that can run with channels last.
        sources: of a variable that is another one, or a field of what one operator makes, that one.
        images: variables of images, by the number of their tensor.
        problem: of them.
        operators: number of the operator of each binding that makes or reads an image.
        plumbing: bindings of tuples that are only taken apart again, and of other names.
        unwritten: batch normalisations whose result no kernel writes if the step stays as it is.
    """

    function: relax.Function
    rules: dict[relax.Var, Rule] = field(default_factory=dict)
    sources: dict[relax.Var, relax.Var] = field(default_factory=dict)
    images: dict[relax.Var, int] = field(default_factory=dict)
    operators: dict[relax.Var, int] = field(default_factory=dict)
    plumbing: set[relax.Var] = field(default_factory=set)
    unwritten: frozenset[relax.Var] = frozenset()
    problem: LayoutProblem = field(default_factory=lambda: LayoutProblem((), ()))

    def source(self, variable: relax.Var) -> relax.Var:
        """The variable that an operator makes, of one that may be another name of it."""
        return self.sources.get(variable, variable)


def graph_of(module: tvm.IRModule, name: str, costs: Costs) -> StepGraph:
    """Reads a training step: one dataflow block."""
    normal = Readers(module[name], fused_kernels(module), costs.most_copies).normal
    graph = StepGraph(module[name], unwritten=frozenset(normal.values()))
    bindings = bindings_of(graph.function)
    taken_apart = _taken_apart(graph.function)
    fields: dict[relax.Var, list[relax.Expr]] = {}
    firsts: dict[tuple[relax.Var, int], relax.Var] = {}
    for binding in bindings:
        value, variable = binding.value, binding.var
        if isinstance(value, relax.Var):
            graph.sources[variable] = graph.source(value)
            graph.plumbing.add(variable)
        elif isinstance(value, relax.Tuple) and variable in taken_apart:
            fields[variable] = list(value.fields)
            graph.plumbing.add(variable)
        elif isinstance(value, relax.TupleGetItem):
            given = fields.get(value.tuple_value)
            if given is None:
                first = firsts.setdefault((value.tuple_value, value.index), variable)
                graph.sources[variable] = first
            elif isinstance(given[value.index], relax.Var):
                graph.sources[variable] = graph.source(given[value.index])
                graph.plumbing.add(variable)
        elif isinstance(value, relax.Call) and (rule := rule_of(value, module)) is not None:
            graph.rules[variable] = rule
    _Reader(graph, firsts, costs).read(bindings)
    return graph


def _taken_apart(function: relax.Function) -> set[relax.Var]:
    """Tuples of which nothing but single fields is read."""
    whole = set(relax.analysis.free_vars(function.body.body))
    bindings = bindings_of(function)
    for binding in bindings:
        if not isinstance(binding.value, relax.TupleGetItem):
            whole.update(relax.analysis.free_vars(binding.value))
    return {binding.var for binding in bindings} - whole


class _Reader:
    """Makes the problem, binding by binding."""

    def __init__(
        self, graph: StepGraph, firsts: dict[tuple[relax.Var, int], relax.Var], costs: Costs
    ) -> None:
        self._graph, self._firsts, self._costs = graph, firsts, costs
        self._tensors: list[Tensor] = []
        self._operators: list[OperatorNode] = []
        self._names: Counter[str] = Counter()

    def read(self, bindings: list[relax.Binding]) -> None:
        """Reads all bindings, and the result of the step."""
        graph = self._graph
        for image in self._given(bindings):
            self._tensor(image)
        for binding in bindings:
            if binding.var in graph.plumbing or isinstance(binding.value, relax.TupleGetItem):
                continue
            self._operator(binding)
        results = list(self._read_by(graph.function.body.body))
        self._operators.append(_fixed("result", results, ()))
        graph.problem = LayoutProblem(
            tuple(self._tensors), tuple(self._operators), self._costs.price
        )

    def _given(self, bindings: list[relax.Binding]) -> Iterator[relax.Var]:
        """The images that the step is given."""
        rules = [
            (b.value, self._graph.rules[b.var]) for b in bindings if b.var in self._graph.rules
        ]
        read = {
            self._graph.source(image)
            for value, rule in rules
            if rule.images is not None
            for image in images_of(value, rule)
        }
        yield from (each for each in self._graph.function.params if each in read)

    def _operator(self, binding: relax.Binding) -> None:
        graph, variable, value = self._graph, binding.var, binding.value
        rule = graph.rules.get(variable)
        made = self._made(variable)
        written = self._written(variable)
        read = images_of(value, rule) if rule else []
        if rule is None or any(graph.source(each) not in graph.images for each in read):
            graph.rules.pop(variable, None)
            reads = list(self._read_by(value))
            writes = tuple(self._tensor(each, written) for each in made)
            if reads or writes:
                graph.operators[variable] = len(self._operators)
                self._operators.append(_fixed(self._name(variable), reads, writes))
            return
        reads = [graph.images[graph.source(each)] for each in read]
        made = made if rule.makes_images else []
        writes = tuple(self._tensor(each, written) for each in made)
        graph.operators[variable] = len(self._operators)
        forms = tuple(
            OperatorForm(
                layout,
                (layout,) * len(reads),
                (layout,) * len(writes),
                self._costs.call(value, layout) - spared,
            )
            for layout, spared in ((SECOND, written), (LAST, 0.0))
        )
        self._operators.append(OperatorNode(self._name(variable), tuple(reads), writes, forms))

    def _written(self, variable: relax.Var) -> float:
        """Seconds that the readers of a batch normalisation save that they can compute."""
        if variable not in self._graph.unwritten:
            return 0.0
        return self._costs.written(_type_bytes(variable.ty.fields[RESULT]))

    def _name(self, variable: relax.Var) -> str:
        """The name of a variable, with a number for all but the first of those that share it."""
        self._names[variable.name] += 1
        number = self._names[variable.name]
        return variable.name if number == 1 else f"{variable.name}.{number}"

    def _made(self, variable: relax.Var) -> list[relax.Var]:
        """The images that a binding makes."""
        if isinstance(variable.ty, relax.TupleType):
            fields = range(len(variable.ty.fields))
            found = [self._firsts.get((variable, each)) for each in fields]
            return [each for each in found if each is not None and is_image(each)]
        return [variable] if is_image(variable) else []

    def _read_by(self, value: relax.Expr) -> Iterator[int]:
        """The images that an expression reads."""
        graph = self._graph
        for each in relax.analysis.free_vars(value):
            if graph.source(each) in graph.images:
                yield graph.images[graph.source(each)]

    def _tensor(self, variable: relax.Var, written: float = 0.0) -> int:
        is_view = is_same_in_both([int(size) for size in variable.ty.shape])
        size = 0 if is_view else variable_bytes(variable)
        seconds = 0.0 if is_view else self._costs.copy(size)
        self._graph.images[variable] = len(self._tensors)
        self._tensors.append(Tensor(variable.name, (SECOND, LAST), seconds, size, written))
        return len(self._tensors) - 1


def _type_bytes(type_: relax.TensorType) -> int:
    return tensor_bytes(type_.shape, str(type_.dtype))


def _fixed(name: str, reads: list[int], writes: tuple[int, ...]) -> OperatorNode:
    """An operator that runs as it is."""
    form = OperatorForm(SECOND, (SECOND,) * len(reads), (SECOND,) * len(writes), 0.0)
    return OperatorNode(name, tuple(reads), writes, (form,))
