"""What operators compute of some rows alone, and whether they do.

A table by operator. A call gives rows of its result for those of its operands; or it turns a matrix
around for a product that sums over rows; or it is such a sum, to which each chunk adds its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import is_call
from odtc.dialect.rows.cross_entropy import cross_entropy, cross_entropy_slope
from odtc.dialect.rows.softmax import softmax_backward
from odtc.dialect.table import OPERATORS
from odtc.passes.chunks.rows import Chunk, row_rank, shape_of

_PERMUTE = "relax.permute_dims"
_MATRIX = 2


class Kind(Enum):
    """What the result of a call of a region has to do with rows."""

    ROWS = auto()
    TURNED = auto()
    SUM = auto()


@dataclass(frozen=True)
class Region:
    """Calls that are to run some rows at a time.

    Attributes:
        rows: of all tensors that are cut.
        values: what each variable of the function is bound to.
        inside: the variables that the region binds.
    """

    rows: int
    values: Mapping[relax.Var, relax.Expr]
    inside: frozenset[relax.Var]

    def rank(self, expression: relax.Expr) -> int | None:
        """How many of a tensor's dimensions are the rows."""
        return row_rank(expression, self.rows)

    def is_matrix(self, expression: relax.Expr) -> bool:
        """Whether a tensor is a matrix of the rows."""
        return len(shape_of(expression) or ()) == _MATRIX and self.rank(expression) == 1

    def untwisted(self, expression: relax.Expr) -> relax.Expr | None:
        """The matrix of the rows that a variable is the transpose of."""
        value = self.values.get(expression) if isinstance(expression, relax.Var) else None
        if not is_call(value, _PERMUTE) or not self.is_matrix(value.args[0]):
            return None
        axes = value.attrs.axes
        return value.args[0] if not axes or [int(axis) for axis in axes] == [1, 0] else None


@dataclass(frozen=True)
class Form:
    """What is said of an operator.

    Attributes:
        kind: of a call; None of one that cannot be cut.
        part: what the call gives for a chunk.
    """

    kind: Callable[[Region, relax.Call], Kind | None]
    part: Callable[[Region, Chunk, relax.Call], relax.Expr]


def kind_of(region: Region, value: relax.Expr) -> Kind | None:
    """The kind of what a variable of a region is bound to; None where it cannot be cut."""
    if isinstance(value, relax.Var | relax.TupleGetItem):
        return Kind.ROWS
    form = FORMS.get(value.op.name) if is_operator(value) else None
    return form and form.kind(region, value)


def part_of(region: Region, chunk: Chunk, value: relax.Expr) -> relax.Expr:
    """What it is for a chunk."""
    if isinstance(value, relax.Var):
        return chunk.part(value)
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(chunk.parts[value.tuple_value], value.index)
    return FORMS[value.op.name].part(region, chunk, value)


def is_operator(value: relax.Expr) -> bool:
    """Whether a value calls an operator."""
    return isinstance(value, relax.Call) and hasattr(value.op, "name")


def _same(call: relax.Call, *operands: relax.Expr) -> relax.Call:
    return relax.Call(call.op, list(operands), call.attrs)


# Operators whose operands are all rows, the first dimension alone.


def _flat_kind(region: Region, call: relax.Call) -> Kind | None:
    return Kind.ROWS if all(region.rank(each) == 1 for each in call.args) else None


def _flat_part(_: Region, chunk: Chunk, call: relax.Call) -> relax.Expr:
    return _same(call, *map(chunk.part, call.args))


# Elementwise operators, whose operands may be the same for all rows.


def _has_rows(operand: relax.Expr, shape: list[int], rank: int) -> bool:
    """Whether an operand of a result has its rows."""
    own = shape_of(operand) or []
    return len(own) == len(shape) and own[:rank] == shape[:rank]


def _is_for_all(operand: relax.Expr, shape: list[int], rank: int) -> bool:
    """Whether an operand is the same for all rows of a result."""
    own = shape_of(operand)
    return own is not None and all(
        size == 1 for size in own[: max(len(own) - len(shape) + rank, 0)]
    )


def _map_kind(region: Region, call: relax.Call) -> Kind | None:
    shape, rank = shape_of(call), region.rank(call)
    if shape is None or rank is None:
        return None
    fits = all(
        _has_rows(each, shape, rank)
        or (each not in region.inside and _is_for_all(each, shape, rank))
        for each in call.args
    )
    return Kind.ROWS if fits else None


def _map_part(region: Region, chunk: Chunk, call: relax.Call) -> relax.Expr:
    shape, rank = shape_of(call) or [], region.rank(call) or 0
    return _same(
        call,
        *(
            chunk.part(each) if _has_rows(each, shape, rank) else chunk.all_of(each, shape[rank:])
            for each in call.args
        ),
    )


# Views.


def _reshape_kind(region: Region, call: relax.Call) -> Kind | None:
    ranks = region.rank(call.args[0]), region.rank(call)
    return None if None in ranks else Kind.ROWS


def _reshape_part(region: Region, chunk: Chunk, call: relax.Call) -> relax.Expr:
    shape, part = (
        [chunk.size, *(shape_of(call) or [])[region.rank(call) :]],
        chunk.part(call.args[0]),
    )
    return part if shape_of(part) == shape else R.reshape(part, shape)


def _slice_kind(region: Region, call: relax.Call) -> Kind | None:
    rank = region.rank(call.args[0])
    inner = rank is not None and all(int(axis) >= rank for axis in call.args[1].fields)
    return Kind.ROWS if inner else None


def _slice_part(region: Region, chunk: Chunk, call: relax.Call) -> relax.Expr:
    data, axes, *ends = call.args
    shift = 1 - (region.rank(data) or 0)
    moved = relax.Tuple([relax.prim_value(int(axis) + shift) for axis in axes.fields])
    return _same(call, chunk.part(data), moved, *ends)


def _turn_kind(region: Region, call: relax.Call) -> Kind | None:
    axes = call.attrs.axes
    turns = not axes or [int(axis) for axis in axes] == [1, 0]
    return Kind.TURNED if turns and region.is_matrix(call.args[0]) else None


# Products.


def _product_kind(region: Region, call: relax.Call) -> Kind | None:
    left, right = call.args
    if region.untwisted(left) is not None and region.is_matrix(right):
        return Kind.SUM
    shapes = shape_of(left) or [], shape_of(right) or []
    rank = region.rank(left)
    cut = rank is not None and len(shapes[0]) == rank + 1 and len(shapes[1]) == _MATRIX
    return Kind.ROWS if cut and right not in region.inside else None


def _product_part(region: Region, chunk: Chunk, call: relax.Call) -> relax.Expr:
    left, right = call.args
    matrix = region.untwisted(left)
    if matrix is None or not region.is_matrix(right):
        return _same(call, chunk.part(left), right)
    if left not in chunk.parts:
        chunk.parts[left] = chunk.builder.emit(R.permute_dims(chunk.part(matrix)))
    return _same(call, chunk.parts[left], chunk.part(right))


# Reductions.


def _axes(call: relax.Call) -> list[int]:
    """Along which a call reduces its operand; all where it names none."""
    rank, axis = len(shape_of(call.args[0]) or ()), call.attrs.axis
    named = range(rank) if axis is None else axis if hasattr(axis, "__iter__") else [axis]
    return [int(each) % rank for each in named]


def _reduce_kind(region: Region, call: relax.Call) -> Kind | None:
    rank = region.rank(call.args[0])
    if rank is None:
        return None
    axes = _axes(call)
    if all(axis >= rank for axis in axes):
        return Kind.ROWS
    over_rows = sorted(axes) == list(range(rank)) and not call.attrs.keepdims
    return Kind.SUM if over_rows and call.op.name == "relax.sum" else None


def _reduce_part(region: Region, chunk: Chunk, call: relax.Call) -> relax.Expr:
    data = call.args[0]
    rank, make = region.rank(data) or 0, _REDUCTIONS[call.op.name]
    axes = [axis for axis in _axes(call) if axis >= rank]
    if not axes:
        return R.sum(chunk.part(data), [0])
    return make(chunk.part(data), [axis - rank + 1 for axis in axes], bool(call.attrs.keepdims))


def _collapse_kind(region: Region, call: relax.Call) -> Kind | None:
    data = call.args[0]
    shape, rank = shape_of(data), region.rank(data)
    return Kind.SUM if shape and rank and shape_of(call) == shape[rank:] else None


def _collapse_part(_: Region, chunk: Chunk, call: relax.Call) -> relax.Expr:
    return R.sum(chunk.part(call.args[0]), [0])


def _broadcast_kind(region: Region, call: relax.Call) -> Kind | None:
    data, shape, rank = call.args[0], shape_of(call), region.rank(call)
    if shape is None or rank is None:
        return None
    same = data not in region.inside and _is_for_all(data, shape, rank)
    return Kind.ROWS if same or _has_rows(data, shape, rank) else None


def _broadcast_part(region: Region, chunk: Chunk, call: relax.Call) -> relax.Expr:
    data, shape, rank = call.args[0], shape_of(call) or [], region.rank(call) or 0
    has_rows = _has_rows(data, shape, rank)
    given = chunk.part(data) if has_rows else chunk.all_of(data, shape[rank:])
    return R.broadcast_to(given, [chunk.size, *shape[rank:]])


def _slope_kind(region: Region, call: relax.Call) -> Kind | None:
    ranks = {region.rank(each) for each in call.args}
    axis, size = softmax_backward.read(call).axis, len(shape_of(call) or ())
    (rank, *others) = ranks
    return Kind.ROWS if not others and rank is not None and axis % size >= rank else None


def _slope_part(region: Region, chunk: Chunk, call: relax.Call) -> relax.Expr:
    read, size = softmax_backward.read(call), len(shape_of(call) or ())
    axis = read.axis % size - (region.rank(call) or 0) + 1
    return softmax_backward(*map(chunk.part, call.args), axis=axis, log=read.log)


def _softmax_kind(region: Region, call: relax.Call) -> Kind | None:
    rank = region.rank(call.args[0])
    size = len(shape_of(call) or ())
    return Kind.ROWS if rank is not None and int(call.attrs.axis) % size >= rank else None


def _softmax_part(region: Region, chunk: Chunk, call: relax.Call) -> relax.Expr:
    rank, size = region.rank(call.args[0]) or 0, len(shape_of(call) or ())
    axis = int(call.attrs.axis) % size - rank + 1
    return _SOFTMAXES[call.op.name](chunk.part(call.args[0]), axis)


_REDUCTIONS = {"relax.sum": R.sum, "relax.max": R.max, "relax.min": R.min, "relax.mean": R.mean}
_SOFTMAXES = {"relax.nn.softmax": R.nn.softmax, "relax.nn.log_softmax": R.nn.log_softmax}
_MAPS = (
    *"add subtract multiply divide power maximum minimum where astype negative abs".split(),
    *"exp log sqrt rsqrt square tanh sigmoid equal not_equal less less_equal".split(),
    *"greater greater_equal logical_and logical_or logical_not grad.no_grad".split(),
)
_OWN_MAPS = (name for name, each in OPERATORS.items() if each.maps)

FORMS: Mapping[str, Form] = {
    **dict.fromkeys((*(f"relax.{name}" for name in _MAPS), *_OWN_MAPS), Form(_map_kind, _map_part)),
    **dict.fromkeys((cross_entropy.name, cross_entropy_slope.name), Form(_flat_kind, _flat_part)),
    **dict.fromkeys(_REDUCTIONS, Form(_reduce_kind, _reduce_part)),
    **dict.fromkeys(_SOFTMAXES, Form(_softmax_kind, _softmax_part)),
    "relax.reshape": Form(_reshape_kind, _reshape_part),
    "relax.strided_slice": Form(_slice_kind, _slice_part),
    _PERMUTE: Form(_turn_kind, lambda _, chunk, call: R.permute_dims(chunk.part(call.args[0]))),
    "relax.matmul": Form(_product_kind, _product_part),
    "relax.broadcast_to": Form(_broadcast_kind, _broadcast_part),
    softmax_backward.name: Form(_slope_kind, _slope_part),
    "relax.collapse_sum_to": Form(_collapse_kind, _collapse_part),
}
