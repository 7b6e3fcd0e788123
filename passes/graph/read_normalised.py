"""Batch normalisations are applied where they are read, and their results are never in memory.

A convolution, a normalisation and a convolution pass through memory what the first one makes, and
what becomes of it: the second of these is written, read by the next convolution, and kept for the
gradients of its weights and of the activation. Here the normalisation takes the statistics alone.
Each reader computes `act((x - mean) * (gamma * scale) + beta)` of what the first convolution made,
which the gradient of the normalisation keeps anyway: convolutions as they copy their image, and
elementwise kernels as they read (Jung et al., "Restructuring Batch Normalization to Accelerate CNN
Training", 2018). The values are the same to the bit.

A normalisation qualifies if all of its readers do, and are not so many that computing its result
again for each takes longer than writing it once.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import ClassVar

import tvm
from tvm import relax

from odtc.core.ir.layouts import SECOND
from odtc.core.ir.relax_calls import layout_of, operator_of
from odtc.dialect.images.batch_norm import (
    Rates,
    batch_norm,
    batch_statistics,
    normalised,
)
from odtc.dialect.images.grouped_weight_gradient import grouped_weight_gradient
from odtc.dialect.table import OPERATORS
from odtc.passes.contract import Pass
from odtc.passes.graph.read_copies import FUSED, fused_kernels
from odtc.passes.ir.bindings import bind, bindings_of, rebuilding, replaced

_CALL_TIR = "relax.call_tir"
_RATES = frozenset(each.name for each in fields(Rates))
# Layouts of convolutions, and of the gradients of their weights, that have their channels second.
_SECOND = ("NCHW", "CNHW", "NCDHW", "CNDHW")
# Among the results of a batch normalisation.
RESULT = 0
# Copies that a convolution makes of its image: blocks overlap, and tasks may copy the same ones.
_OF_A_CONVOLUTION = 2


def is_convolution_of(value: relax.Expr, image: relax.Var) -> bool:
    """Whether a binding convolves an image, or is a gradient of weights, whose kernel copies it."""
    name = operator_of(value)
    if name in ("relax.nn.conv2d", "relax.nn.conv3d"):
        is_second = str(value.attrs.data_layout) in _SECOND
    elif name == grouped_weight_gradient.name:
        is_second = layout_of(value) == SECOND
    else:
        return False
    first, second = value.args
    return is_second and first.same_as(image) and not second.same_as(image)


@dataclass(frozen=True)
class Readers:
    """The readers of the results of the normalisations of a step.

    Attributes:
        function: the training step.
        kernels: names of the kernels that map elements.
        most: copies of a result that are worth it.
    """

    function: relax.Function
    kernels: frozenset[str]
    most: int

    @cached_property
    def normal(self) -> dict[relax.Var, relax.Var]:
        """The results that are computed where they are read, each with its normalisation."""
        bindings = bindings_of(self.function)
        calls = {
            b.var for b in bindings if operator_of(b.value) == batch_norm.name and is_plain(b.value)
        }
        # Absorbed activations leave more than one of a call, of which one is read.
        results = {b.var: b.value.tuple_value for b in bindings if _is_result(b.value, calls)}
        copies: Counter[relax.Var] = Counter()
        stay = set(relax.analysis.free_vars(self.function.body.body))
        for binding in bindings:
            for variable in relax.analysis.free_vars(binding.value):
                if variable in results:
                    made = self.copies(binding.value, variable)
                    copies[results[variable]] += made
                    stay |= set() if made else {variable}
        stay = {results[each] for each in stay if each in results}
        stay |= {call for call, made in copies.items() if made > self.most}
        return {result: call for result, call in results.items() if call not in stay}

    def copies(self, value: relax.Expr, result: relax.Var) -> int:
        """How many copies of a result a binding makes as it reads it; 0 where it cannot."""
        if is_convolution_of(value, result):
            return _OF_A_CONVOLUTION
        return int(self.maps(value, result))

    def maps(self, value: relax.Expr, result: relax.Var) -> bool:
        """Whether a binding maps elements of a result."""
        if _shape(value) != _shape(result):
            return False
        name = operator_of(value)
        if name == _CALL_TIR:
            return value.args[0].name_hint in self.kernels
        return name in FUSED or (name in OPERATORS and OPERATORS[name].maps)


def _shape(value: relax.Expr) -> list[int] | None:
    """The sizes of a tensor; None of what is none."""
    type_ = value.ty
    return [int(size) for size in type_.shape] if isinstance(type_, relax.TensorType) else None


def _is_result(value: relax.Expr, calls: Collection[relax.Var]) -> bool:
    """Whether a binding takes the normalised data out of the results of one of these calls."""
    is_field = isinstance(value, relax.TupleGetItem) and value.index == RESULT
    return is_field and value.tuple_value in calls


def is_plain(call: relax.Call) -> bool:
    """Whether a normalisation has its channels second, and tensors of which none is another one."""
    data, gamma, beta, *_ = call.args
    has_tensors = all(isinstance(each, relax.Var) for each in (data, gamma, beta))
    is_float = str(data.ty.dtype) == "float32"
    return has_tensors and is_float and layout_of(call) == SECOND and not gamma.same_as(beta)


@dataclass(frozen=True)
class ReadNormalised(Pass):
    """Lets the readers of batch normalisations apply them.

    Attributes:
        function: name of the training step: one dataflow block.
        most: copies of a normalised tensor, each made as it is read, that cost no more than writing
            it once.
    """

    name: ClassVar[str] = "read-normalised"
    function: str = field(repr=False)
    most: int

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites the training step."""
        function = module[self.function]
        normal = Readers(function, fused_kernels(module), self.most).normal
        if not normal:
            return module
        calls = set(normal.values())
        # By normalisation: its statistics, and what computes its result for a reader.
        made: dict[relax.Var, tuple[relax.Var, Callable[[], relax.Call]]] = {}
        with rebuilding(module, self.function) as builder:
            for binding in bindings_of(function):
                variable, value = binding.var, binding.value
                if variable in calls:
                    made[variable] = _statistics(builder, variable, value)
                    continue
                if variable in normal:
                    continue
                if isinstance(value, relax.TupleGetItem) and value.tuple_value in made:
                    value = relax.TupleGetItem(made[value.tuple_value][0], value.index - 1)
                read = [each for each in relax.analysis.free_vars(value) if each in normal]
                instead = {
                    each: builder.emit(made[normal[each]][1](), name_hint=each.name)
                    for each in read
                }
                bind(builder, variable, replaced(value, instead) if instead else value)
        return builder.finalize()


def _statistics(
    builder: relax.BlockBuilder, variable: relax.Var, call: relax.Call
) -> tuple[relax.Var, Callable[[], relax.Call]]:
    """Emits the statistics; gives them, and what makes the normalised data for a reader."""
    data, gamma, beta, *running = call.args
    said = batch_norm.read(call)
    rates = {key: value for key, value in call.attrs.items() if key in _RATES}
    found = builder.emit(batch_statistics(data, *running, **rates), name_hint=variable.name)
    mean, scale = (
        builder.emit(relax.TupleGetItem(found, place), name_hint=variable.name) for place in (2, 3)
    )
    tensors = [data, mean, gamma, scale, beta]
    return found, lambda: normalised(*tensors, activation=said.activation)
