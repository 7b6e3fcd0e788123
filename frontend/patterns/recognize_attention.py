"""Finds attention, which exports spell out, and puts one operator in its place.

`softmax(scale * q k' + mask) v` would keep the matrix of probabilities of every head for the
backward pass; the operator keeps two numbers of each query. Exporters scale queries and keys, each
by the root, or their products. A mask is added, or is a value that stands in place of scores. It
may follow from inputs and from what is frozen, but from nothing that is trained: the operator has
no gradient by it. Probabilities that something else reads, dropout among them, are left.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir.expr import GenericConst
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import is_call
from odtc.core.ir.tensor_tags import on_the_way
from odtc.dialect.rows.softmax import safe_softmax
from odtc.dialect.sequences.attention import attention
from odtc.frontend.backward.rebuild import replayed

_HEADS_INSIDE = [0, 2, 1, 3]
_SOFTMAX = {"relax.nn.softmax": False, safe_softmax.name: True}
# Of these there is one in each attention; `recognize` makes the second of the first.
SOFTMAX = _SOFTMAX.keys()


def recognize_attention(
    module: tvm.IRModule, name: str, varied: Sequence[relax.Var]
) -> tvm.IRModule:
    """The module with the operator in each such place of a function.

    Args:
        module: holds the function, and the kernels that it calls directly.
        name: of the function, which has one block.
        varied: those of its arguments that a gradient may be wanted of.
    """
    return replayed(module, name, _Attention(module[name], varied))


@dataclass(frozen=True)
class _Scores:
    """The operand of a softmax.

    Attributes:
        queries: left operand of the product.
        keys: right operand, transposed keys.
        scale: of the product.
        mask: what is added to it, or a condition.
        replaced: where the mask is a condition, the value in place of scores, and whether that is
            where the condition holds.
    """

    queries: relax.Expr
    keys: relax.Expr
    scale: float
    mask: relax.Expr | None = None
    replaced: tuple[float, bool] | None = None


class _Attention:
    """A replay rule.

    Args:
        function: what is replayed.
        varied: arguments that a mask must not depend on.
    """

    def __init__(self, function: relax.Function, varied: Sequence[relax.Var]) -> None:
        (block,) = function.body.blocks
        self._values: dict[relax.Var, relax.Expr] = {b.var: b.value for b in block.bindings}
        self._varied, self._uses = set(varied), Counter[relax.Var]()
        self._readers: dict[relax.Var, list[relax.Var]] = defaultdict(list)
        for variable, value in self._values.items():
            read = relax.analysis.free_vars(value)
            self._uses.update(read)
            for each in read:
                self._readers[each].append(variable)
            if self._varied.intersection(read):
                self._varied.add(variable)
        self._uses.update(relax.analysis.free_vars(function.body.body))
        # Results with heads apart, to those with heads inside of the steps.
        self._inside: dict[relax.Var, relax.Var] = {}
        # Masks, by what they are: all layers share one.
        self._masks: list[tuple[relax.Expr, relax.Expr]] = []

    def __call__(self, builder: relax.BlockBuilder, binding: relax.Binding) -> relax.Expr | None:
        """Returns what stands in place of a product or a transposition, or None."""
        call = binding.value
        if is_call(call, "relax.matmul"):
            return self._product(builder, binding.var, call)
        if is_call(call, "relax.permute_dims") and _axes(call) == _HEADS_INSIDE:
            inside = self._inside.get(self._same(call.args[0]))
            return None if inside is None else R.reshape(inside, inside.ty.shape)
        return None

    def _product(
        self, builder: relax.BlockBuilder, result: relax.Var, call: relax.Call
    ) -> relax.Expr | None:
        found, blind = self._probabilities(call.args[0]), None
        if found is None:
            found, blind = self._blinded(call.args[0])
        if found is None:
            return None
        scores, safe = self._scores(found.args[0]), _SOFTMAX[found.op.name]
        if scores is None or not _fits(call, scores):
            return None
        mask = self._mask(builder, scores, _shape(call.args[0]))
        if scores.mask is not None and mask is None:
            return None
        q, q_scale = self._scaled(scores.queries)
        k, k_inside, k_scale = self._keys(builder, scores.keys)
        (q, q_inside), (v, v_inside) = (self._matrix(builder, each) for each in (q, call.args[1]))
        inside = blind is None and len(_shape(result)) == 4 and self._goes_inside(result)
        every = attention(
            *(q, k, v, *([] if mask is None else [mask])),
            inner=[q_inside, k_inside, v_inside, inside],
            scale=scores.scale * q_scale * k_scale,
            replaces=scores.replaced is not None,
            safe=safe,
        )
        taken = relax.TupleGetItem(builder.emit(every), 0)
        given = builder.emit(taken, on_the_way(result.name))
        if inside:
            self._inside[result] = given
            return R.permute_dims(given, _HEADS_INSIDE)
        given = R.reshape(given, _shape(result))
        return given if blind is None else R.where(blind, relax.const(0.0), builder.emit(given))

    def _probabilities(self, given: relax.Expr) -> relax.Call | None:
        """The softmax that makes them, over the last dimension, and that nothing else reads."""
        call = self._values.get(given)
        if is_call(call, "relax.nn.softmax"):
            axis = call.attrs.axis
        elif is_call(call, safe_softmax.name):
            axis = call.attrs["axis"]
        else:
            return None
        rank = len(_shape(call))
        return call if self._uses[given] == 1 and int(axis) % rank == rank - 1 else None

    def _blinded(self, given: relax.Expr) -> tuple[relax.Call | None, relax.Expr | None]:
        """As above, behind a condition by which all of a query's probabilities are zero."""
        call = self._values.get(given)
        if self._uses[given] != 1 or not is_call(call, "relax.where"):
            return None, None
        condition, zero, softmax = call.args
        if _shape(condition)[-1:] != [1] or _number(zero) != 0.0:
            return None, None
        return self._probabilities(softmax), condition

    def _scores(self, given: relax.Expr) -> _Scores | None:
        """The products that scores are computed from, if they are attention's."""
        call = self._values.get(given)
        if self._uses[given] != 1 or call is None:
            return None
        if is_call(call, "relax.where"):
            return self._replaced(call)
        if is_call(call, "relax.add"):
            for scores, mask in (call.args, call.args[::-1]):
                plain = self._plain(scores)
                if plain and _shape(scores) == _shape(call) and mask not in self._varied:
                    return _Scores(plain.queries, plain.keys, plain.scale, mask)
        return self._plain(given)

    def _replaced(self, call: relax.Call) -> _Scores | None:
        condition, *cases = call.args
        for holds, (value, scores) in ((True, cases), (False, cases[::-1])):
            number, plain = _number(value), self._plain(scores)
            if number and plain and _shape(scores) == _shape(call):
                replaced = (number, holds)
                return _Scores(plain.queries, plain.keys, plain.scale, condition, replaced)
        return None

    def _plain(self, given: relax.Expr) -> _Scores | None:
        """Scores without a mask."""
        product, scale = self._scaled(given)
        call = self._values.get(product)
        if self._uses[given] != 1 or self._uses[product] != 1 or not is_call(call, "relax.matmul"):
            return None
        return _Scores(call.args[0], call.args[1], scale)

    def _scaled(self, given: relax.Expr) -> tuple[relax.Expr, float]:
        """The operand of a chain of constant factors, and their product."""
        scale = 1.0
        while (found := self._factor(self._values.get(given))) is not None:
            given, number = found
            scale *= number
        return given, scale

    def _factor(self, call: relax.Expr | None) -> tuple[relax.Expr, float] | None:
        """The operand of a product with a constant, or of a quotient by one, and the factor."""
        if is_call(call, "relax.multiply"):
            for inner, by in (call.args, call.args[::-1]):
                if (number := _number(by)) and _shape(inner) == _shape(call):
                    return inner, number
        if is_call(call, "relax.divide"):
            inner, by = call.args
            if (number := _number(by)) and _shape(inner) == _shape(call):
                return inner, 1 / number
        return None

    def _keys(
        self, builder: relax.BlockBuilder, given: relax.Expr
    ) -> tuple[relax.Expr, bool, float]:
        """Keys, whether their heads lie inside of the steps, and their scale."""
        across, scale = self._scaled(given)
        call, rank = self._values.get(across), len(_shape(across))
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        keys = self._swapped(across)
        if is_call(call, "relax.permute_dims"):
            if _axes(call) == [0, 2, 3, 1]:
                keys, more = self._scaled(call.args[0])
                return keys, True, scale * more
            if _axes(call) == swapped:
                keys = call.args[0]
        if keys is None:
            keys = builder.emit(R.permute_dims(across, swapped))
        keys, more = self._scaled(keys)
        return *self._matrix(builder, keys), scale * more

    def _swapped(self, across: relax.Expr) -> relax.Expr | None:
        """Keys that were transposed with all heads of all samples in one dimension, if so."""
        call, shape = self._values.get(across), _shape(across)
        inner = self._values.get(call.args[0]) if is_call(call, "relax.reshape") else None
        if not (is_call(inner, "relax.permute_dims") and _axes(inner) == [0, 2, 1]):
            return None
        flat = self._values.get(inner.args[0])
        if not is_call(flat, "relax.reshape") or _shape(inner)[1:] != shape[-2:]:
            return None
        keys = flat.args[0]
        return keys if _shape(keys) == [*shape[:-2], shape[-1], shape[-2]] else None

    def _matrix(self, builder: relax.BlockBuilder, given: relax.Expr) -> tuple[relax.Expr, bool]:
        """Of four dimensions, and whether heads lie inside of the steps."""
        given = self._same(given)
        shape, call = _shape(given), self._values.get(given)
        if len(shape) == 3:
            return builder.emit(R.reshape(given, [shape[0], 1, *shape[1:]])), False
        if is_call(call, "relax.permute_dims") and _axes(call) == _HEADS_INSIDE:
            return call.args[0], True
        return given, False

    def _same(self, given: relax.Expr) -> relax.Expr:
        """The operand of a reshape to its own shape."""
        while is_call(call := self._values.get(given), "relax.reshape"):
            if _shape(call) != _shape(call.args[0]):
                break
            given = call.args[0]
        return given

    def _goes_inside(self, result: relax.Var) -> bool:
        """Whether the next who reads a result brings its heads inside of the steps."""
        readers = [self._values[variable] for variable in self._readers[result]]
        same = [call for call in readers if is_call(call, "relax.reshape")]
        if same and _shape(same[0]) == _shape(result):
            return self._goes_inside(self._readers[result][readers.index(same[0])])
        return any(is_call(c, "relax.permute_dims") and _axes(c) == _HEADS_INSIDE for c in readers)

    def _mask(
        self, builder: relax.BlockBuilder, scores: _Scores, shape: list[int]
    ) -> relax.Expr | None:
        """The mask with four dimensions; None where there is none, or it has another form."""
        if scores.mask is None:
            return None
        given = self._values.get(scores.mask, scores.mask)
        if scores.replaced is not None:
            number, holds = scores.replaced
            cases = [relax.const(number, "float32"), relax.const(0.0, "float32")]
            given = R.where(scores.mask, *(cases if holds else cases[::-1]))
        form = _mask_form(_shape(scores.mask), shape)
        if form is None:
            return None
        for known, mask in self._masks:
            if _shape(mask) == form and tvm_ffi.structural_equal(known, given):
                return mask
        source = scores.mask if scores.replaced is None else builder.emit(given)
        if str(source.ty.dtype) != "float32":
            return None
        mask = builder.emit(R.reshape(source, form))
        self._masks.append((given, mask))
        return mask


def _mask_form(own: list[int], shape: list[int]) -> list[int] | None:
    """A mask's shape with four dimensions, by that of the scores; None where it does not fit."""
    ones = [1] * (len(shape) - len(own))
    form = [*ones, *own]
    wanted = shape
    if len(shape) == 3:
        form, wanted = [form[0], 1, *form[1:]], [shape[0], 1, *shape[1:]]
    fits = all(size in (1, whole) for size, whole in zip(form, wanted, strict=True))
    return form if fits and form[-1] == wanted[-1] else None


def _fits(call: relax.Call, scores: _Scores) -> bool:
    """Whether all operands are float32 matrices of the same samples and heads."""
    operands = [scores.queries, scores.keys, call.args[1]]
    shapes = [_shape(each) for each in operands]
    return (
        all(str(each.ty.dtype) == "float32" for each in operands)
        and len(shapes[0]) in (3, 4)
        and shapes[0][:-2] == shapes[1][:-2] == shapes[2][:-2]
    )


def _axes(call: relax.Call) -> list[int]:
    rank = len(_shape(call))
    given = call.attrs.axes
    return [int(axis) % rank for axis in given] if given else list(range(rank))[::-1]


def _number(expression: relax.Expr) -> float | None:
    """The value of a constant of one element."""
    if not isinstance(expression, GenericConst):
        return None
    value = expression.value.numpy()
    return float(value.item()) if value.size == 1 and not math.isnan(value.item()) else None


def _shape(expression: relax.Expr) -> list[int]:
    return [int(size) for size in expression.ty.shape]
