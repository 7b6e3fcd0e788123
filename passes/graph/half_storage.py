"""Stores in half precision what the backward pass reads of the forward pass.

The forward pass computes in float32; each tensor that outlives it is stored as float16, and widened
again where the backward reads it (delayed precision reduction: Jain et al., "Gist: Efficient Data
Encoding for Deep Neural Network Training", ISCA 2018, section 4). The loss is that of float32,
weights and their gradients stay float32, and saved tensors take half the bytes. Values beyond
float16's range are stored as its largest. Where products round what they multiply anyway, those of
the forward pass read what is stored, too, and what nothing else reads is not written as float32.

Known limit: while a tensor is cast, both copies are alive, and a kernel that is not fused with the
cast gets a widened copy of its own.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax, te, topi
from tvm.relax import op as R  # noqa: N812
from tvm.relax.expr_functor import PyExprMutator, mutator

from odtc.core.ir.argument_roles import arguments_of_role
from odtc.core.ir.kernel_marks import PATTERN, SINK
from odtc.core.ir.relax_calls import operator_of
from odtc.core.specs import Role
from odtc.dialect.table import OPERATORS
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bind, reached_from, rebuilding

_IN_PLACE = "relax.call_tir_inplace"
_EQUAL = "relax.equal"
_RESHAPE = "relax.reshape"
# Places of tensors, not of statistics, among the results of an operator.
_LARGE = {name: each.large for name, each in OPERATORS.items() if each.large}
# The loss is taken from these, in float32 as everywhere. Its derivative is marked as a constant; an
# element's share of a mean may lie below what float16 can hold.
_EXACT = ("relax.nn.log_softmax", "relax.grad.no_grad")
_PRODUCTS = ("relax.matmul", "relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
_LARGEST = float(np.finfo(np.float16).max)


def is_reader(binding: relax.Binding) -> bool:
    """Whether a binding computes; updates take exact values, and results keep theirs."""
    return operator_of(binding.value) != _IN_PLACE and not isinstance(binding.value, relax.Var)


def forward_length(function: relax.Function) -> int:
    """Number of bindings up to the loss, the first field of the function's result."""
    (block,) = function.body.blocks
    loss = relax.analysis.free_vars(function.body.body)[0]
    for index in reversed(range(len(block.bindings))):
        binding = block.bindings[index]
        if binding.var.same_as(loss):
            if not isinstance(binding.value, relax.Var):
                return index + 1
            loss = binding.value
    return 0


@dataclass(frozen=True)
class Bindings:
    """The bindings of a training step.

    Attributes:
        every: all of them, in order.
        forward: how many of them are of the forward pass.
        same: for a variable that is left out, the one that it equals.
    """

    every: list[relax.Binding]
    forward: int
    same: Mapping[relax.Var, relax.Var]


def with_fields_named(bindings: Sequence[relax.Binding], forward: int) -> Bindings:
    """The bindings, with large results of layers taken apart in the forward pass.

    What the backward takes out of them is a tensor that the forward makes, then. Other fields, such
    as the statistics of a batch normalisation, are few numbers and stay exact.
    """
    layers = {
        b.var: _LARGE[operator_of(b.value)]
        for b in bindings[:forward]
        if operator_of(b.value) in _LARGE
    }
    named = {_field(b): b.var for b in bindings[:forward] if _field(b)}
    moved: dict[relax.Var, list[relax.Binding]] = defaultdict(list)
    same: dict[relax.Var, relax.Var] = {}
    rest = []
    for binding in bindings[forward:]:
        field = _field(binding)
        if field is None or field[1] not in layers.get(field[0], ()):
            rest.append(binding)
        elif field in named:
            same[binding.var] = named[field]
        else:
            named[field] = binding.var
            moved[field[0]].append(binding)
    first = [each for b in bindings[:forward] for each in (b, *moved[b.var])]
    return Bindings([*first, *rest], len(first), same)


def _field(binding: relax.Binding) -> tuple[relax.Expr, int] | None:
    """The tuple and place that a binding takes a field from, if it does."""
    value = binding.value
    return (value.tuple_value, value.index) if isinstance(value, relax.TupleGetItem) else None


def saved_tensors(bindings: Bindings, least: int) -> set[relax.Var]:
    """Float32 tensors of at least `least` elements that the forward makes and the backward reads.

    A reshape shares its input's storage: the input is saved in its place. Tensors that the backward
    compares with each other stay exact: an extremum would equal none of its rounded elements, and
    their shares of its gradient would be of nothing.
    """
    forward = bindings.forward
    values = {b.var: b.value for b in bindings.every}
    made = {b.var: b for b in bindings.every[:forward]}

    def root_of(variable: relax.Expr) -> relax.Expr:
        root = bindings.same.get(variable, variable)
        while root in values and operator_of(values[root]) == _RESHAPE:
            root = values[root].args[0]
        return root

    saved: set[relax.Var] = set()
    compared: set[relax.Expr] = set()
    for binding in bindings.every[forward:]:
        if not is_reader(binding):
            continue
        if operator_of(binding.value) == _EQUAL:
            roots = {root_of(each) for each in binding.value.args}
            if all(isinstance(each, relax.Var) for each in roots):
                compared |= roots
        for variable in relax.analysis.free_vars(binding.value):
            root = root_of(variable)
            if (
                root in made
                and operator_of(made[root].value) not in _EXACT
                and _is_large(root, least)
            ):
                saved.add(root)
    return saved - compared


def _to_half(tensor: te.Tensor) -> te.Tensor:
    return topi.cast(topi.clip(tensor, -_LARGEST, _LARGEST), "float16")


def _is_large(variable: relax.Var, least: int) -> bool:
    type_ = variable.ty
    if not isinstance(type_, relax.TensorType) or str(type_.dtype) != "float32":
        return False
    return int(np.prod([int(size) for size in type_.shape])) >= least


@mutator
class _Storage(PyExprMutator):
    """Narrows saved tensors where they are made, and widens them wherever the backward reads them.

    Each reader gets a widened tensor of its own, which fusion then takes into the reader.
    """

    def __init__(
        self,
        builder: relax.BlockBuilder,
        saved: set[relax.Var],
        reshaped: dict[relax.Var, relax.Call],
        same: Mapping[relax.Var, relax.Var],
    ) -> None:
        super().__init__()
        self._builder = builder
        self._saved = saved
        self._reshaped = reshaped
        self._same = same
        self._narrow: dict[relax.Var, relax.Var] = {}
        self.reads_stored = False

    def narrow(self, variable: relax.Var) -> None:
        """Stores a tensor in half precision if it is to be saved."""
        if variable in self._saved:
            # Were it open to fusion with its readers, the backward would read the float32 tensor.
            self._narrow[variable] = self._builder.emit_te(
                _to_half,
                variable,
                primfunc_name_hint="to_half",
                primfunc_attrs={PATTERN: SINK},
                name_hint=variable.name,
            )

    def visit_dataflow_var_(self, op: relax.Var) -> relax.Expr:
        """Replaces a variable that is read here."""
        op = self._same.get(op, op)
        found = self._stored(op) if self.reads_stored else None
        return op if found is None else self._builder.emit(R.astype(found, "float32"))

    def _stored(self, variable: relax.Var) -> relax.Expr | None:
        """What is stored of a variable, in its shape: nothing but a cast is left to a reader."""
        if variable in self._narrow or variable not in self._reshaped:
            return self._narrow.get(variable)
        call = self._reshaped[variable]
        source = self._stored(call.args[0])
        if source is None:
            return None
        return self._builder.emit(R.reshape(source, call.args[1]))


@dataclass(frozen=True)
class HalfStorage(Pass):
    """Stores saved tensors of a training step as float16.

    Attributes:
        function: name of the training step: one dataflow block, whose first result is the loss.
        least: tensors of fewer elements stay as they are.
        products_round: whether products multiply float16: those of the forward pass read what is
            stored then, too, small and depthwise ones among them, which do not round by themselves.
    """

    name: ClassVar[str] = "half-storage"
    function: str = field(repr=False)
    least: int = 1024
    products_round: bool = False

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the training step."""
        function = module[self.function]
        (block,) = function.body.blocks
        bindings = with_fields_named(block.bindings, forward_length(function))
        made = bindings.every[: bindings.forward]
        reshaped = {b.var: b.value for b in made if operator_of(b.value) == _RESHAPE}
        saved = saved_tensors(bindings, self.least)
        trained = arguments_of_role(function, Role.PARAMETER)
        if trained is not None:
            # What no gradient flows through, such as the mask of attention, stays exact.
            saved &= reached_from(made, trained)
        with rebuilding(module, self.function) as builder:
            storage = _Storage(builder, saved, reshaped, bindings.same)
            for index, binding in enumerate(bindings.every):
                storage.reads_stored = (
                    is_reader(binding)
                    if index >= bindings.forward
                    else self.products_round and operator_of(binding.value) in _PRODUCTS
                )
                bind(builder, binding.var, storage.visit_expr(binding.value))
                storage.narrow(binding.var)
        return builder.finalize()
