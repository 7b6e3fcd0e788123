"""Einstein sums as sums, transposes and batched matrix products.

Two operands at a time: indices that nobody else wants are summed first, those of both operands
that are still wanted become the batch of a product, the other common ones its inner dimension.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_letters

import numpy as np

from odtc.frontend.operators.forms import reshape
from odtc.frontend.operators.operator import Emit, Node, Operator
from odtc.frontend.operators.reduction import reduce


@dataclass(frozen=True)
class Term:
    """An operand: its name and the index of each of its dimensions."""

    name: str
    indices: str


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Indices of the operands and of the result; an ellipsis becomes letters of its own.

    Raises:
        ValueError: the equation does not fit the operands.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"equation {equation!r} is not for {len(ranks)} operands")
    free = [letter for letter in ascii_letters if letter not in equation]
    extra = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    if any(n < 0 or (n and "..." not in term) for term, n in zip(terms, extra, strict=True)):
        raise ValueError(f"equation {equation!r} does not fit operands of rank {list(ranks)}")
    width = max(extra)
    dots = "".join(free[:width])
    spelled = [term.replace("...", dots[width - n :]) for term, n in zip(terms, extra, strict=True)]
    if not arrow:
        counted = "".join(spelled)
        right = dots + "".join(sorted(c for c in set(counted) - set(dots) if counted.count(c) == 1))
    return spelled, right.replace("...", dots)


def _fits(node: Node) -> str:
    """The inputs' shapes must be known, and the equation must fit them."""
    if any(name not in node.graph.shapes for name in node.inputs):
        return "the inputs' shapes are not static"
    try:
        parse(node.attrs["equation"], [node.rank(slot) for slot in range(len(node.inputs))])
    except ValueError as error:
        return str(error)
    return ""


def _einsum(node: Node, emit: Emit) -> str:
    slots = range(len(node.inputs))
    spelled, result = parse(node.attrs["equation"], [node.rank(slot) for slot in slots])
    sizes: dict[str, int] = {}
    for slot, indices in enumerate(spelled):
        for index, size in zip(indices, node.shape(slot), strict=True):
            sizes[index] = max(size, sizes.get(index, 1))
    terms = [
        _diagonal(node, emit, Term(node.inputs[slot], indices), node.shape(slot))
        for slot, indices in enumerate(spelled)
    ]
    while len(terms) > 1:
        first, second, *rest = terms
        wanted = set(result).union(*(term.indices for term in rest))
        terms = [_product(node, emit, first, second, wanted, sizes), *rest]
    last = _sum_out(node, emit, terms[0], set(result))
    return _permute(emit, last, result).name


def _diagonal(node: Node, emit: Emit, term: Term, shape: Sequence[int]) -> Term:
    """An index that is repeated reads a diagonal; a dimension of 1 that is broadcast goes."""
    name, indices, sizes = term.name, term.indices, list(shape)
    while len(set(indices)) < len(indices):
        index = next(c for c in indices if indices.count(c) > 1)
        first, second = indices.index(index), indices.rindex(index)
        rest = [at for at in range(len(sizes)) if at not in (first, second)]
        moved = emit("Transpose", name, perm=[*rest, first, second])
        size, kept = sizes[first], [sizes[at] for at in rest]
        flat = reshape(emit, moved, *kept, size * size)
        places = np.arange(size, dtype=np.int64) * (size + 1)
        name = emit("Gather", flat, places, axis=len(kept))
        indices, sizes = "".join(indices[at] for at in rest) + index, [*kept, size]
    return Term(name, indices)


def _sum_out(node: Node, emit: Emit, term: Term, wanted: set[str]) -> Term:
    """Sums over the indices that nobody wants."""
    axes = [at for at, index in enumerate(term.indices) if index not in wanted]
    if not axes:
        return term
    kept = "".join(index for index in term.indices if index in wanted)
    return Term(reduce(node, emit, "ReduceSum", term.name, axes, 0), kept)


def _permute(emit: Emit, term: Term, indices: str) -> Term:
    order = [term.indices.index(index) for index in indices]
    if order == list(range(len(order))):
        return Term(term.name, indices)
    return Term(emit("Transpose", term.name, perm=order), indices)


def _product(
    node: Node, emit: Emit, first: Term, second: Term, wanted: set[str], sizes: Mapping[str, int]
) -> Term:
    """The product of two operands, summed over what nobody wants any more."""
    first = _sum_out(node, emit, first, wanted.union(second.indices))
    second = _sum_out(node, emit, second, wanted.union(first.indices))
    common = [index for index in first.indices if index in second.indices]
    batch = "".join(index for index in common if index in wanted)
    inner = "".join(index for index in common if index not in wanted)
    rows = "".join(index for index in first.indices if index not in common)
    columns = "".join(index for index in second.indices if index not in common)

    def matrix(term: Term, *groups: str) -> str:
        moved = _permute(emit, _full(emit, term, batch + inner, sizes), "".join(groups))
        return reshape(emit, moved.name, *(math.prod(sizes[c] for c in group) for group in groups))

    def grouped(*groups: str) -> tuple[str, ...]:
        """Rank 2 where there is no batch: products of matrices have the better kernels."""
        return (batch, *groups) if batch else groups

    left = matrix(first, *grouped(rows, inner))
    right = matrix(second, *grouped(inner, columns))
    indices = batch + rows + columns
    product = emit("MatMul", left, right)
    return Term(reshape(emit, product, *(sizes[index] for index in indices)), indices)


def _full(emit: Emit, term: Term, indices: str, sizes: Mapping[str, int]) -> Term:
    """Broadcasts the dimensions of these indices; matrix products do not do it."""
    shape = [sizes[c] if c in indices else 1 for c in term.indices]
    return Term(emit("Expand", term.name, np.array(shape, np.int64)), term.indices)


OPERATORS: dict[str, Operator] = {"Einsum": Operator(condition=_fits, expand=_einsum)}
