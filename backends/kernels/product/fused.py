"""The epilogue that TVM fused after a product, as a function applied when the product stores.

`FuseTIR` leaves one kernel with a block for the product and a block for each operator after it.
A product brings its own loops, so those blocks are read as expressions: the tail of a product is
the value to store at an index of the result for the product there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import Readable, prefetch
from odtc.backends.kernels.common.quantised import CODED, Quantisation
from odtc.backends.kernels.norm.normalised import PARTS, Normal, read_operands
from odtc.core.ir.product_marks import PRODUCT, READ_NORMALISED, READ_QUANTISED

# Steps of a tail, each counted as often as it is read: a longer one is scheduled by itself.
LONGEST_TAIL = 64
# Tensors that are multiplied.
_FACTORS = 2

Tail = Callable[[Sequence[ir.Expr], ir.Expr], ir.Expr]


@dataclass(frozen=True)
class Product:
    """A product in a kernel that is being written.

    Attributes:
        numbers: what describes it beside the shapes of its operands.
        operands: the two tensors.
        result: the tensor that is written.
        tail: the epilogue, applied to a value of the product before it is stored.
    """

    numbers: Sequence[int]
    operands: Sequence[Readable]
    result: tirx.Buffer
    tail: Tail

    def store(self, at: Sequence[ir.Expr], value: ir.Expr) -> None:
        """Emits the store of a value after the epilogue."""
        T.buffer_store(self.result, self.tail(at, value), list(at))

    def ahead(self, at: Sequence[ir.Expr]) -> None:
        """Emits prefetches of what the tail will read at an index, and near it."""
        read: list[ir.TensorLoad] = []
        tvm_ffi.structural_walk(
            self.tail(at, tirx.const(0.0, "float32")), (ir.TensorLoad, read.append)
        )
        near = {r.source: r for r in read if len(r.indices) and r.indices[-1].same_as(at[-1])}
        for each in near.values():
            prefetch(each)


@dataclass(frozen=True)
class FusedProduct:
    """A kernel that is a product and its tail.

    Attributes:
        family: which kind of product it is.
        numbers: what describes it beside the shapes of its operands.
        parameters: of the kernel, the result last.
        operands: positions of the tensors that it reads among the parameters.
        normal: normalisation of its first operand as it is read, if there is one.
        tail: the value to store for a value of the product, given the parameters of the new kernel.
        coded: how its second operand is dequantised as it is read, if it is.
    """

    family: str
    numbers: list[int]
    parameters: list[ir.Var]
    operands: list[int]
    normal: Normal | None
    tail: Callable[[Sequence[ir.Var]], Tail]
    coded: Quantisation | None = None

    def product(self, arguments: Sequence[tirx.Buffer]) -> Product:
        """The product in a new kernel with these arguments, as many as there are parameters."""
        tensors = [arguments[position] for position in self.operands]
        operands = read_operands(self.normal, tensors)
        if self.coded:
            operands = self.coded.read(operands)
        return Product(self.numbers, operands, arguments[-1], self.tail(arguments))


def fused_product(function: tirx.PrimFunc) -> FusedProduct | None:
    """The product in a kernel, where all else in the kernel is its tail."""
    if not any(map(_is_product, _blocks(function))):
        return None
    blocks = _blocks(_inlined_beside(function))
    product = blocks[0]
    if not _is_product(product):
        return None
    parameters = list(function.params)
    sources = _operands(product)
    if not sources or not all(any(p.same_as(s) for p in parameters) for s in sources):
        return None
    steps = {product.writes[0].source: None}
    lengths = {product.writes[0].source: 1}
    for block in blocks[1:]:
        if not _is_pointwise(block, steps, product.writes[0].source):
            return None
        written = block.writes[0].source
        steps[written] = block
        # A step replaces each read of it.
        lengths[written] = 1 + sum(lengths.get(read.source, 0) for read in _loads(block))
        if lengths[written] > LONGEST_TAIL:
            return None
    family, *numbers = product.annotations[PRODUCT]
    return FusedProduct(
        str(family),
        [int(number) for number in numbers],
        parameters,
        [next(i for i, p in enumerate(parameters) if p.same_as(s)) for s in sources],
        _normal(product),
        lambda new: _tail(steps, dict(zip(parameters, new, strict=True))),
        _coded(product),
    )


def _operands(product: s_tir.SBlock) -> list[ir.Var]:
    """The tensors that a product reads, as its family names them; none where that is ambiguous.

    A block names each tensor that it reads once, and a product may be of a tensor and itself.
    """
    read = [region.source for region in product.reads]
    needed = _FACTORS + (PARTS - 1 if _normal(product) else 0)
    needed += CODED - 1 if _coded(product) else 0
    if len(read) == 1:
        read *= _FACTORS
    return read if len(read) == needed else []


def _is_product(block: s_tir.SBlock) -> bool:
    return PRODUCT in block.annotations


def _normal(product: s_tir.SBlock) -> Normal | None:
    """Returns the normalisation of the first operand, whose tensors are read first, or None."""
    if READ_NORMALISED not in product.annotations:
        return None
    activation, held, first = product.annotations[READ_NORMALISED]
    return Normal(str(activation), int(held), int(first))


def _coded(product: s_tir.SBlock) -> Quantisation | None:
    """Returns how the second operand is dequantised, or None."""
    if READ_QUANTISED not in product.annotations:
        return None
    stored, *sizes = product.annotations[READ_QUANTISED]
    return Quantisation.of(str(stored), [int(size) for size in sizes])


def _inlined_beside(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Inlines blocks that do not depend on the product where they are read.

    Such a block may have any shape: numbers of rows in the shape of a column, for one.
    """
    dependent: set[ir.Var] = set()
    schedule = s_tir.Schedule(function)
    for handle in schedule.get_child_blocks(schedule.get_sblock("root")):
        block = schedule.get(handle)
        if _is_product(block) or any(region.source in dependent for region in block.reads):
            dependent.update(region.source for region in block.writes)
        elif _stores_each(block) and schedule.get_consumers(handle):
            schedule.compute_inline(handle)
    return schedule.mod["main"]


def _stores_each(block: s_tir.SBlock) -> bool:
    """Whether a block computes each element of what it writes from nothing but others."""
    own = [axis.var for axis in block.iter_vars]
    return isinstance(block.body, tirx.BufferStore) and _is_same(block.body.indices, own)


def _is_same(index: Sequence[ir.Expr], own: Sequence[ir.Var]) -> bool:
    return len(index) == len(own) and all(
        at.same_as(variable) for at, variable in zip(index, own, strict=True)
    )


def _tail(steps: dict[ir.Var, s_tir.SBlock | None], renamed: dict[ir.Var, ir.Var]) -> Tail:
    """Applies the blocks one after the other, each to the values of those before it."""

    def value(index: Sequence[ir.Expr], product: ir.Expr) -> ir.Expr:
        found: dict[ir.Var, ir.Expr] = {}
        for buffer, block in steps.items():
            found[buffer] = product if block is None else _at(block, index, found, renamed)
        return next(reversed(found.values()))

    return value


def _at(
    block: s_tir.SBlock,
    index: Sequence[ir.Expr],
    found: dict[ir.Var, ir.Expr],
    renamed: dict[ir.Var, ir.Var],
) -> ir.Expr:
    """Returns the value that a block stores at an index, given those of the blocks before it."""
    place = {axis.var: at for axis, at in zip(block.iter_vars, index, strict=True)}

    def load(read: ir.TensorLoad) -> ir.Expr:
        if read.source in found:
            return found[read.source]
        return tirx.BufferLoad(renamed[read.source], list(read.indices))

    placed = tvm_ffi.structural_map(
        block.body.value, (ir.Var, lambda variable: place.get(variable, variable))
    )
    return tvm_ffi.structural_map(placed, (ir.TensorLoad, load))


def _is_pointwise(block: s_tir.SBlock, before: dict[ir.Var, Any], product: ir.Var) -> bool:
    """Whether a block maps the product's elements, and reads others as it reads parameters."""
    if not _stores_each(block):
        return False
    own = [axis.var for axis in block.iter_vars]
    written = block.body.buffer
    same_shape = [int(size) for size in written.shape] == [int(size) for size in product.shape]
    inner = [read for read in _loads(block) if read.source in before]
    return same_shape and all(_is_same(read.indices, own) for read in inner)


def _loads(block: s_tir.SBlock) -> list[ir.TensorLoad]:
    """Returns the loads of a block's one store."""
    reads: list[ir.TensorLoad] = []
    tvm_ffi.structural_walk(block.body.value, (ir.TensorLoad, reads.append))
    return reads


def _blocks(function: tirx.PrimFunc) -> list[s_tir.SBlock]:
    """The blocks of a kernel, in order; none of one that was written without."""
    if not isinstance(function.body, s_tir.SBlockRealize):
        return []
    body = function.body.block.body
    found = []
    for nest in body.seq if isinstance(body, tirx.SeqStmt) else [body]:
        inner = nest
        while isinstance(inner, tirx.For):
            inner = inner.body
        if isinstance(inner, s_tir.SBlockRealize):
            found.append(inner.block)
    return found
