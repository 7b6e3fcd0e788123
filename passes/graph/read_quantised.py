"""Weights of few bits are dequantised where they are read, and their floats are never in memory.

A frozen weight that is stored as integers is cast, shifted and scaled in front of its product: the
floats are four or eight times as many bytes, written and read once in the forward pass and once
more in the backward. Here all of that becomes one operator, `dequantised`, which products apply as
they pack their operand (`passes/graph/absorb_transpose.py`). Rows of a table are dequantised so,
too, behind the Gather that reads them.

Constants whose elements need four bits are packed, two in a byte. They are known by their elements:
a table of bytes that are all below 16 is one of four bits, whatever its dtype in the file.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.ir.expr import GenericConst

from odtc.core.coded import AS_IT_IS, NIBBLES, SHIFT, packed
from odtc.core.ir.relax_calls import is_call, operator_of
from odtc.dialect.elements.dequantised import dequantised
from odtc.passes.contract import Pass
from odtc.passes.ir.bindings import bind, bindings_of, rebuilding

# What an element passes through last: of anything else it is no dequantisation.
_LAST = ("relax.multiply", "relax.reshape", "relax.subtract")
_INTEGERS = ("int8", "uint8")
_MATRIX = 2
# From a variable to what it is bound to; any other expression is what it is.
Bound = Callable[[relax.Expr], relax.Expr]


@dataclass(frozen=True)
class Chain:
    """A dequantisation in operators of Relax.

    Attributes:
        table: the constant that holds the integers.
        take: the call that reads rows of it; None where all are read.
        apart: sizes of what is shifted and scaled, in which blocks may have a dimension of their
            own.
        shape: of the result.
        scale: that is multiplied by; None for one.
        zero: that is subtracted; None for zero.
    """

    table: GenericConst
    take: relax.Call | None
    apart: list[int]
    shape: list[int]
    scale: relax.Expr | None
    zero: relax.Expr | None

    @property
    def axis(self) -> int | None:
        """The dimension that is cut into blocks; None where none is."""
        axes = range(len(self.shape))
        return next((axis for axis in axes if self._is_cut(axis)), None)

    def _is_cut(self, axis: int) -> bool:
        before, parts, behind = self.apart[:axis], self.apart[axis : axis + 2], axis + 2
        whole = math.prod(parts)
        joined = [*before, whole, *self.apart[behind:]]
        return len(parts) == 2 and joined == self.shape

    @property
    def row(self) -> int | None:
        """The first dimension of the result that is within a row of the table.

        0 where all rows are read; None where a row lies in no dimensions of its own.
        """
        if self.take is None:
            return 0
        each = math.prod(sizes_of(self.table)[1:])
        places = range(1, len(self.shape))
        return next((at for at in places if math.prod(self.shape[at:]) == each), None)

    @property
    def table_shape(self) -> list[int]:
        """The sizes of the table, where blocks have no dimension of their own."""
        if self.take is None:
            return self.shape
        return [sizes_of(self.table)[0], *self.shape[self.row :]]


def sizes_of(expression: relax.Expr) -> list[int]:
    """Sizes of a tensor's dimensions."""
    return [int(size) for size in expression.ty.shape]


def is_cast(value: relax.Expr) -> bool:
    """Whether it casts integers of a byte to float32."""
    if not is_call(value, "relax.astype") or str(value.ty.dtype) != "float32":
        return False
    return str(value.args[0].ty.dtype) in _INTEGERS


def is_table(value: relax.Expr) -> bool:
    """Whether it is a constant of integers, of two dimensions or more."""
    is_constant = isinstance(value, GenericConst) and str(value.ty.dtype) in _INTEGERS
    return is_constant and len(sizes_of(value)) >= _MATRIX


def unshaped(value: relax.Expr, bound: Bound) -> relax.Expr:
    """What is reshaped, which is another view of it."""
    while is_call(value, "relax.reshape"):
        value = bound(value.args[0])
    return value


def chain_of(value: relax.Expr, bound: Bound) -> Chain | None:
    """The dequantisation that ends with a value, if one does."""
    if operator_of(value) not in _LAST:
        return None
    shape = sizes_of(value)
    if is_call(value, "relax.reshape"):
        value = bound(value.args[0])
    apart, scale, zero = sizes_of(value), None, None
    if is_call(value, "relax.multiply"):
        first, second = value.args
        # The scale may come first.
        turned = not _leads_to_cast(bound(first), bound)
        data, scale = (second, first) if turned else (first, second)
        value = bound(data)
    if is_call(value, "relax.subtract"):
        data, zero = value.args
        value = bound(data)
    is_whole = is_cast(value) and sizes_of(value) == apart and len(shape) >= _MATRIX
    if not is_whole or (scale is None and zero is None):
        return None
    source, take = unshaped(bound(value.args[0]), bound), None
    if is_call(source, "relax.take") and source.attrs.axis is not None:
        if int(source.attrs.axis) != 0:
            return None
        take, source = source, unshaped(bound(source.args[0]), bound)
    if not is_table(source):
        return None
    chain = Chain(source, take, apart, shape, scale, zero)
    is_known = apart == shape or chain.axis is not None
    return chain if is_known and chain.row is not None else None


def _leads_to_cast(value: relax.Expr, bound: Bound) -> bool:
    return is_cast(bound(value.args[0]) if is_call(value, "relax.subtract") else value)


def joined_sizes(sizes: list[int], chain: Chain) -> list[int] | None:
    """The sizes of a scale or zero point without a dimension of their own for blocks' elements.

    None where it has one for each element of a block.
    """
    whole = [1] * (len(chain.apart) - len(sizes)) + sizes
    if chain.apart == chain.shape:
        return whole
    axis = chain.axis
    assert axis is not None
    if whole[axis + 1] != 1:
        return None
    return [*whole[: axis + 1], *whole[axis + 2 :]]


# Constants as they are stored, by the table and the sizes that it is read in.
Held = dict[tuple[GenericConst, tuple[int, ...]], tuple[GenericConst, str]]


@dataclass(frozen=True)
class _Reading:
    """Emits `dequantised` in the place of a dequantisation.

    Attributes:
        builder: its dataflow block is open.
        bound: from variables to what they are bound to.
        held: constants as they are stored, once for all that read them; is added to.
    """

    builder: relax.BlockBuilder
    bound: Bound
    held: Held

    def call(self, chain: Chain) -> relax.Expr | None:
        """The operator; None where there is a scale for each element of a block."""
        codes, stored = self._codes(chain)
        is_moved = stored == NIBBLES and str(chain.table.ty.dtype) == "int8"
        zero = self._numbers(self._uncast(chain.zero), chain, 0.0, SHIFT * is_moved)
        scale = self._numbers(chain.scale, chain, 1.0)
        if scale is None or zero is None:
            return None
        if chain.take is not None:
            codes = self._rows(chain, chain.take, codes)
        blocks = [1] * len(chain.shape)
        if chain.axis is not None:
            blocks[chain.axis] = chain.apart[chain.axis + 1]
        return dequantised(codes, zero, scale, stored=stored, shape=chain.shape, blocks=blocks)

    def _rows(self, chain: Chain, take: relax.Call, codes: relax.Expr) -> relax.Expr:
        """The rows of the table that are read, with the dimensions of the result."""
        rows = self.builder.emit(relax.Call(take.op, [codes, take.args[1]], take.attrs))
        sizes = [*chain.shape[: chain.row], *sizes_of(codes)[1:]]
        return rows if sizes == sizes_of(rows) else self.builder.emit(relax.op.reshape(rows, sizes))

    def _codes(self, chain: Chain) -> tuple[relax.Expr, str]:
        """The table as it is stored, and how."""
        key = chain.table, tuple(chain.table_shape)
        if key not in self.held:
            values = chain.table.value.numpy().reshape(chain.table_shape)
            nibbles = packed(values)
            is_same = list(values.shape) == sizes_of(chain.table)
            whole = chain.table if is_same else relax.const(values)
            self.held[key] = (
                (whole, AS_IT_IS) if nibbles is None else (relax.const(nibbles), NIBBLES)
            )
        return self.held[key]

    def _uncast(self, zero: relax.Expr | None) -> relax.Expr | None:
        """Zero points as they are stored."""
        if zero is None:
            return None
        cast = self.bound(zero)
        return cast.args[0] if is_cast(cast) else zero

    def _numbers(
        self, given: relax.Expr | None, chain: Chain, usual: float, shift: int = 0
    ) -> relax.Expr | None:
        """Scales or zero points, moved by a shift, with as many dimensions as the result."""
        if given is None:
            return relax.const(np.full([1] * len(chain.shape), usual + shift, np.float32))
        sizes = joined_sizes(sizes_of(given), chain)
        if sizes is None:
            return None
        if isinstance(given, GenericConst):
            values = given.value.numpy().reshape(sizes)
            return relax.const(values.astype(np.float32) + np.float32(shift) if shift else values)
        if shift:
            floats = self.builder.emit(relax.op.astype(given, "float32"))
            given = self.builder.emit(relax.op.add(floats, relax.const(np.float32(shift))))
        if sizes == sizes_of(given):
            return given
        return self.builder.emit(relax.op.reshape(given, sizes))


@dataclass(frozen=True)
class ReadQuantised(Pass):
    """Makes one operator of each dequantisation of a constant; what is dead then goes."""

    name: ClassVar[str] = "read-quantised"

    def run(self, module: tvm.IRModule) -> tvm.IRModule:
        """Rewrites every Relax function of the module."""
        held: Held = {}
        functions = [(v, f) for v, f in module.functions_items() if isinstance(f, relax.Function)]
        for variable, function in functions:
            values = {binding.var: binding.value for binding in bindings_of(function)}
            chains = _chains(values)
            if chains:
                module = _rewritten(module, variable.name_hint, chains, values, held)
        return relax.transform.DeadCodeElimination()(module) if held else module


def _chains(values: Mapping[relax.Var, relax.Expr]) -> dict[relax.Var, Chain]:
    """The dequantisations of a function, by what they end in."""
    found = {}
    for variable, value in values.items():
        chain = chain_of(value, lambda each: values.get(each, each))
        if chain is not None:
            found[variable] = chain
    return found


def _rewritten(
    module: tvm.IRModule,
    name: str,
    chains: Mapping[relax.Var, Chain],
    values: Mapping[relax.Var, relax.Expr],
    held: Held,
) -> tvm.IRModule:
    with rebuilding(module, name) as builder:
        reading = _Reading(builder, lambda each: values.get(each, each), held)
        for variable, value in values.items():
            read = reading.call(chains[variable]) if variable in chains else None
            bind(builder, variable, value if read is None else read)
    return builder.finalize()
