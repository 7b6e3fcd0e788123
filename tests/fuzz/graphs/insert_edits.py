"""Edits that put operators between a value and what reads it, or beside the graph."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.corpus import ints
from tests.fuzz.graphs.editor import Editor, NoPlaceError, Shape, pick

# What is put in, from one value to one of the same shape, as a rule.
Chain = Callable[[Random, Editor, "Put"], str]
_ROWS = "Softmax LogSoftmax Hardmax LpNormalization".split()
_SAME = (
    "Identity Relu Tanh Sigmoid Neg Abs Exp Sqrt Log Erf Softsign Elu Reciprocal Dropout Floor "
    "Sign Gelu Mish HardSwish IsInf Sin MeanVarianceNormalization Celu Shrink Round Size NonZero"
).split()
_BINARY = "Add Sub Mul Div Pow Max Min Mean Sum Mod PRelu Greater MatMul".split()


class Put:
    """Adds nodes at one place of the list of nodes.

    Attributes:
        name: what the chain reads.
        shape: its shape.
    """

    def __init__(self, editor: Editor, name: str, at: int) -> None:
        self.editor, self.name, self.at = editor, name, at
        self.shape: Shape = editor.shape(name) or ()
        if not self.shape:
            # Most chains are about the axes of what they read.
            raise NoPlaceError

    def __call__(self, op_type: str, *inputs: str | np.ndarray, **attributes: Any) -> str:
        """Adds a node, and returns its result; arrays become initializers."""
        read = [each if isinstance(each, str) else self.editor.constant(each) for each in inputs]
        name = self.editor.fresh(f"put_{op_type.lower()}")
        self.editor.graph.node.insert(
            self.at, helper.make_node(op_type, read, [name], name, **attributes)
        )
        self.at += 1
        return name


def _one(rng: Random, editor: Editor, put: Put) -> str:
    return put(rng.choice(_SAME), put.name)


def _rows(rng: Random, editor: Editor, put: Put) -> str:
    return put(rng.choice(_ROWS), put.name, axis=rng.choice([-1, 0, 1]))


def _with_constant(rng: Random, editor: Editor, put: Put) -> str:
    last = put.shape[-1] if put.shape and isinstance(put.shape[-1], int) else 1
    shape = rng.choice([(), (1,), (last,), (1, last)])
    scale = rng.choice([1.0, 0.1, 1e-6, 0.0, 1e6])
    array = np.full(shape, scale) + 0.01 * np.arange(int(np.prod(shape))).reshape(shape)
    inputs = [put.name, array.astype(np.float32)]
    if rng.random() < 0.3:
        inputs.reverse()
    return put(rng.choice(_BINARY), *inputs)


def _with_itself(rng: Random, editor: Editor, put: Put) -> str:
    return put(rng.choice(_BINARY), put.name, put.name)


def _with_another(rng: Random, editor: Editor, put: Put) -> str:
    """With an earlier value of its shape: a residual."""
    known = editor.before(editor.nodes[put.at]) if put.at < len(editor.nodes) else []
    same = [n for n in known if editor.types.get(n) == editor.types.get(put.name) and n != put.name]
    return put(rng.choice(_BINARY), put.name, pick(rng, same))


def _cast(rng: Random, editor: Editor, put: Put) -> str:
    kinds = [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16, TensorProto.INT32]
    there = put("Cast", put.name, to=rng.choice([*kinds, TensorProto.BOOL, TensorProto.UINT8]))
    return put("Cast", there, to=TensorProto.FLOAT)


def _reshape(rng: Random, editor: Editor, put: Put) -> str:
    rank = len(put.shape)
    flat = put("Reshape", put.name, rng.choice([ints(-1), ints(0, -1), ints(-1, 1)]))
    if rng.random() < 0.5:
        return put("Reshape", flat, put("Shape", put.name))
    known = [size if isinstance(size, int) else -1 for size in put.shape]
    return put("Reshape", flat, ints(*known) if known.count(-1) < 2 else ints(*[0] * rank))


def _transpose(rng: Random, editor: Editor, put: Put) -> str:
    order = list(range(len(put.shape)))
    rng.shuffle(order)
    there = put("Transpose", put.name, perm=order)
    return put("Transpose", there, perm=[order.index(at) for at in range(len(order))])


def _unsqueeze(rng: Random, editor: Editor, put: Put) -> str:
    axis = ints(rng.choice([0, 1, -1, len(put.shape)]))
    return put("Squeeze", put("Unsqueeze", put.name, axis), axis)


def _cut_and_join(rng: Random, editor: Editor, put: Put) -> str:
    """Slices, joined again in an order of their own."""
    axis = rng.choice([1, 1, -1, 0])
    cut = rng.choice([1, 1, 2, -1])
    first = put("Slice", put.name, ints(0), ints(cut), ints(axis))
    second = put("Slice", put.name, ints(cut), ints(2**31), ints(axis))
    return put("Concat", *rng.choice([(first, second), (second, first)]), axis=axis)


def _reverse(rng: Random, editor: Editor, put: Put) -> str:
    axis = ints(rng.choice([1, -1]))
    return put("Slice", put.name, ints(-1), ints(-(2**31)), axis, ints(-1))


def _pad_and_cut(rng: Random, editor: Editor, put: Put) -> str:
    rank = len(put.shape)
    pads = ints(*([0] * (rank - 1) + [1] + [0] * rank))
    mode = rng.choice(["constant", "edge", "reflect", "wrap"])
    wide = put("Pad", put.name, pads, mode=mode)
    return put("Slice", wide, ints(1), ints(2**31), ints(-1))


def _gather(rng: Random, editor: Editor, put: Put) -> str:
    """The same places in another order, perhaps one more than once, or outside."""
    axis = rng.randrange(1, max(len(put.shape), 2))
    size = put.shape[axis] if axis < len(put.shape) and isinstance(put.shape[axis], int) else 2
    order = [rng.randrange(-1, int(size)) for _ in range(int(size))]
    return put("Gather", put.name, ints(*order), axis=axis)


def _choose(rng: Random, editor: Editor, put: Put) -> str:
    yes = put("Greater", put.name, np.array(rng.choice([0.0, -1.0, 1e9]), np.float32))
    return put("Where", yes, put.name, np.array(rng.choice([0.0, -1.0, np.inf, np.nan]), "f"))


def _spread(rng: Random, editor: Editor, put: Put) -> str:
    """Broadcasts the result of a reduction back to the shape of its operand."""
    reduced = put(rng.choice("ReduceMax ReduceMean ReduceL2 ReduceProd".split()), put.name)
    return put("Expand", reduced, put("Shape", put.name))


def _range(rng: Random, editor: Editor, put: Put) -> str:
    """Numbers that the graph counts."""
    last = put.shape[-1] if put.shape and isinstance(put.shape[-1], int) else 3
    limit = rng.choice([last, last, last, 0, -1, 1e30, np.inf, np.nan, 2.0**63])
    delta = rng.choice([1, 1, 1, -1, 1e-30])
    kind = np.int64 if limit == last and delta in (1, -1) and rng.random() < 0.3 else np.float32
    counted = put("Range", *(np.array(number, kind) for number in (0, limit, delta)))
    return put("Add", put.name, put("Cast", counted, to=TensorProto.FLOAT))


def _tile(rng: Random, editor: Editor, put: Put) -> str:
    rank = len(put.shape)
    wide = put("Tile", put.name, ints(*[1] * (rank - 1), 2))
    return put("Slice", wide, ints(0), ints(2**31), ints(-1), ints(2))


def _largest(rng: Random, editor: Editor, put: Put) -> str:
    """A mask of the largest, by ArgMax and OneHot."""
    at = put("ArgMax", put.name, axis=-1, keepdims=0)
    size = put.shape[-1] if put.shape and isinstance(put.shape[-1], int) else 3
    mask = put("OneHot", at, np.array(size, np.int64), np.array([0, 1], np.float32))
    return put("Mul", put.name, mask)


def _quantise(rng: Random, editor: Editor, put: Put) -> str:
    scale, zero = np.array(rng.choice([0.1, 1e-3, 0.0]), np.float32), np.array(3, np.uint8)
    return put("DequantizeLinear", put("QuantizeLinear", put.name, scale, zero), scale, zero)


def _drawn(rng: Random, editor: Editor, put: Put) -> str:
    op_type = rng.choice(["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
    return put("Add", put.name, put(op_type, put.name))


_CHAINS: tuple[Chain, ...] = (
    *(_one, _one, _one, _rows, _with_constant, _with_constant, _with_itself, _with_another, _cast),
    *(_reshape, _transpose, _unsqueeze, _cut_and_join, _reverse, _pad_and_cut, _gather, _choose),
    *(_spread, _range, _tile, _largest, _quantise, _drawn),
)


def inserted(rng: Random, editor: Editor) -> None:
    """Operators between a value and what reads it."""
    name = pick(rng, [name for name in editor.floats() if editor.readers(name)])
    readers = editor.readers(name)
    put = Put(editor, name, editor.place_of(name))
    made = rng.choice(_CHAINS)(rng, editor, put)
    chosen = readers if rng.random() < 0.7 else [pick(rng, readers)]
    for reader in chosen:
        reader.input[:] = [made if each == name else each for each in reader.input]


def inserted_at_weight(rng: Random, editor: Editor) -> None:
    """Operators between a weight and what reads it."""
    tensor = pick(rng, [t for t in editor.weights() if editor.readers(t.name)])
    readers = editor.readers(tensor.name)
    put = Put(editor, tensor.name, 0)
    made = rng.choice(_CHAINS)(rng, editor, put)
    for reader in readers:
        reader.input[:] = [made if each == tensor.name else each for each in reader.input]


def inserted_at_end(rng: Random, editor: Editor) -> None:
    """Operators in front of an output."""
    item = pick(rng, list(editor.graph.output))
    writer = next((n for n in editor.nodes if item.name in n.output), None)
    if writer is None or not editor.is_float(item.name):
        raise NoPlaceError
    put = Put(editor, item.name, editor.place_of(item.name))
    name = rng.choice(_CHAINS)(rng, editor, put)
    inner = editor.fresh(f"{item.name}_inner")
    for each in editor.graph.node:
        each.input[:] = [inner if read == item.name else read for read in each.input]
        written = [inner if old == item.name else old for old in each.output]
        each.output[:] = [item.name if new == name else new for new in written]


def beside(rng: Random, editor: Editor) -> None:
    """Operators whose results are not read."""
    name = pick(rng, editor.floats())
    rng.choice(_CHAINS)(rng, editor, Put(editor, name, editor.place_of(name)))


EDITS = (inserted, inserted, inserted, inserted_at_weight, inserted_at_end, beside)
