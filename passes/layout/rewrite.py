"""Rewrites a step with the layouts of a plan: each copy is made once, before its first reader."""

import tvm
from tvm import ir, relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.layouts import LAST, SECOND, is_same_in_both, permuted
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images import copies
from odtc.passes.ir.bindings import bind, bindings_of, rebuilding
from odtc.passes.layout.element_kernels import permuted_kernel
from odtc.passes.layout.forms import CALL_TIR, read_by
from odtc.passes.layout.problem import LayoutSolution
from odtc.passes.layout.step_graph import StepGraph


def relayout(image: relax.Expr, to: str) -> relax.Call:
    """A copy of an image in another layout; a view, where it lies so."""
    shape = [int(size) for size in image.ty.shape]
    if is_same_in_both(shape if to == LAST else permuted(shape, SECOND)):
        return R.reshape(image, permuted(shape, to))
    return copies.relayout(image, to=to)


def rewritten(
    module: tvm.IRModule, name: str, graph: StepGraph, solution: LayoutSolution
) -> tvm.IRModule:
    """The module with the step as the plan has it."""
    with rebuilding(module, name) as builder:
        writer = _Writer(builder, module, graph, solution)
        for binding in bindings_of(graph.function):
            writer.write(binding)
    return builder.finalize()


class _Writer:
    """Emits the bindings of a step one by one.

    Attributes:
        versions: of each image, by its layout.
    """

    def __init__(
        self,
        builder: relax.BlockBuilder,
        module: tvm.IRModule,
        graph: StepGraph,
        solution: LayoutSolution,
    ) -> None:
        self._builder, self._module, self._graph = builder, module, graph
        self._forms = solution.forms
        self._returned = set(relax.analysis.free_vars(graph.function.body.body))
        self.versions: dict[relax.Var, dict[str, relax.Var]] = {
            given: {SECOND: given} for given in graph.function.params if given in graph.images
        }
        # What operators make that run with channels last: of these no variable is the old one.
        self._instead: dict[relax.Var, relax.Var] = {}
        self._kernels: dict[ir.GlobalVar, ir.GlobalVar] = {}

    def write(self, binding: relax.Binding) -> None:
        """Emits a binding in the form that its operator has."""
        variable, value = binding.var, binding.value
        if variable in self._graph.plumbing and variable not in self._returned:
            return
        number = self._graph.operators.get(variable)
        is_last = number is not None and self._forms[number] > 0
        if is_last:
            self._write_last(variable, value)
        elif isinstance(value, relax.TupleGetItem) and value.tuple_value in self._instead:
            self._write_field(variable, value)
        else:
            bind(self._builder, variable, self._read_second(value))
            if variable in self._graph.images:
                self.versions[variable] = {SECOND: variable}

    def _write_last(self, variable: relax.Var, value: relax.Call) -> None:
        """Emits a call with channels last."""
        rule = self._graph.rules[variable]
        is_kernel = operator_of(value) == CALL_TIR
        read = read_by(value)
        places = range(len(read)) if rule.images is None else rule.images
        arguments = [
            self._image(each, LAST)
            if place in places and self._is_image(each)
            else self._read_second(each)
            for place, each in enumerate(read)
        ]
        if is_kernel:
            shape = permuted([int(size) for size in value.ty.shape], LAST)
            made: relax.Expr = relax.call_tir(
                self._kernel(value.args[0]),
                relax.Tuple(arguments),
                relax.TensorType(shape, value.ty.dtype),
            )
        else:
            made = rule.last(value, arguments)
        if not self._graph.problem.operators[self._graph.operators[variable]].writes:
            bind(self._builder, variable, made)
            return
        made = self._builder.normalize(made)
        new = relax.DataflowVar(variable.name, made.ty)
        bind(self._builder, new, made)
        self._instead[variable] = new
        if variable in self._graph.images:
            self.versions[variable] = {LAST: new}

    def _write_field(self, variable: relax.Var, value: relax.TupleGetItem) -> None:
        """Emits a field of what an operator makes that runs with channels last."""
        field = relax.TupleGetItem(self._instead[value.tuple_value], value.index)
        if self._graph.source(variable) not in self._graph.images:
            bind(self._builder, variable, field)
        elif self._graph.source(variable) is variable or variable in self._graph.images:
            field = self._builder.normalize(field)
            new = relax.DataflowVar(variable.name, field.ty)
            bind(self._builder, new, field)
            self.versions[variable] = {LAST: new}

    def _is_image(self, expression: relax.Expr) -> bool:
        return (
            isinstance(expression, relax.Var)
            and self._graph.source(expression) in self._graph.images
        )

    def _image(self, variable: relax.Var, layout: str) -> relax.Var:
        """An image in a layout; emits the copy if there is none."""
        source = self._graph.source(variable)
        versions = self.versions[source]
        if layout not in versions:
            (other,) = versions.values()
            copy = self._builder.normalize(relayout(other, layout))
            new = relax.DataflowVar(source.name, copy.ty)
            bind(self._builder, new, copy)
            versions[layout] = new
        return versions[layout]

    def _read_second(self, value: relax.Expr) -> relax.Expr:
        """An expression that reads its images with channels second, by the names that are left."""
        if isinstance(value, relax.Var):
            return (
                self._image(value, SECOND) if self._is_image(value) else self._graph.source(value)
            )
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._read_second(field) for field in value.fields])
        if isinstance(value, relax.TupleGetItem):
            return relax.TupleGetItem(self._read_second(value.tuple_value), value.index)
        if isinstance(value, relax.Call):
            arguments = [self._read_second(each) for each in value.args]
            return relax.Call(value.op, arguments, value.attrs, value.ty_args)
        return value

    def _kernel(self, kernel: ir.GlobalVar) -> ir.GlobalVar:
        """The kernel of images with channels last."""
        if kernel not in self._kernels:
            made = permuted_kernel(self._module[kernel])
            self._kernels[kernel] = self._builder.add_func(made, kernel.name_hint)
        return self._kernels[kernel]
