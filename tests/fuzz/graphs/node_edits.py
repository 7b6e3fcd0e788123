"""Edits of nodes: their operators, attributes, order and edges."""

from random import Random

from onnx import AttributeProto, NodeProto

from tests.fuzz.corpus import node
from tests.fuzz.graphs.editor import Editor, pick
from tests.fuzz.mutant import nodes_of

# Operators that can stand for each other.
ALIKE = (
    "Relu Sigmoid Tanh Exp Log Abs Neg Sqrt Erf Softplus Softsign Elu Selu Celu LeakyRelu Sin Cos "
    "Reciprocal Floor Round Sign HardSigmoid HardSwish Mish Softmax LogSoftmax Identity Hardmax "
    "ThresholdedRelu Atan Sinh Acosh Gelu Swish Shrink IsNaN Not Ceil Tan Asin Flatten Dropout",
    "Add Sub Mul Div Max Min Pow Sum Mean PRelu Mod MatMul Equal Greater Less And BitShift Expand",
    "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare "
    "ReduceLogSum ReduceLogSumExp ArgMax",
    "MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool",
    "Reshape Expand Tile Squeeze Unsqueeze Gather ReduceSum GatherND",
    "Conv ConvTranspose Gemm MatMul",
    "LSTM GRU RNN",
    "BatchNormalization GroupNormalization InstanceNormalization LayerNormalization",
    "Concat SequenceConstruct Sum Max Mean Min",
)
_ALIKE = [group.split() for group in ALIKE]


def other_operator(rng: Random, editor: Editor) -> None:
    """An operator gives way to one of the same arity."""
    chosen = pick(rng, [n for n in editor.nodes if any(n.op_type in group for group in _ALIKE)])
    group = pick(rng, [group for group in _ALIKE if chosen.op_type in group])
    chosen.op_type = pick(rng, [name for name in group if name != chosen.op_type])
    if rng.random() < 0.7:
        del chosen.attribute[:]


def swapped_operators(rng: Random, editor: Editor) -> None:
    """Two nodes with as many inputs change what they do, and not what they read."""
    first = pick(rng, editor.nodes)
    others = [n for n in editor.nodes if len(n.input) == len(first.input) and n != first]
    _swap(first, pick(rng, others))


def swapped_places(rng: Random, editor: Editor) -> None:
    """Two nodes, of which one reads the other's result, in the other order."""
    first = pick(rng, [n for n in editor.nodes if n.input and len(n.output) == 1])
    readers = [n for n in editor.nodes if first.output[0] in n.input[:1] and len(n.output) == 1]
    second = pick(rng, readers)
    beside_first, beside_second = list(first.input[1:]), list(second.input[1:])
    _swap(first, second)
    first.input[1:], second.input[1:] = beside_second, beside_first


def _swap(first: NodeProto, second: NodeProto) -> None:
    """Swaps operators and attributes."""
    were = [NodeProto.FromString(each.SerializeToString()) for each in (second, first)]
    for changed, other in zip((first, second), were, strict=True):
        changed.op_type, changed.domain = other.op_type, other.domain
        del changed.attribute[:]
        changed.attribute.extend(other.attribute)


def reordered(rng: Random, editor: Editor) -> None:
    """Another order that is as right."""
    waiting, done = editor.nodes, {""}
    made = {name for each in waiting for name in each.output}
    order: list[NodeProto] = []
    while waiting:
        ready = [n for n in waiting if all(i in done or i not in made for i in n.input)]
        chosen = pick(rng, ready)
        waiting.remove(chosen)
        done.update(chosen.output)
        order.append(chosen)
    copies = [NodeProto.FromString(each.SerializeToString()) for each in order]
    del editor.graph.node[:]
    editor.graph.node.extend(copies)


def dropped_node(rng: Random, editor: Editor) -> None:
    """Removes a node: readers of its result read its input instead."""
    chosen = pick(rng, [n for n in editor.nodes if n.input and n.input[0]])
    read, written = chosen.input[0], list(chosen.output)
    results = {item.name for item in editor.graph.output}
    if results & set(written):
        chosen.CopyFrom(node("Identity", read, written[0]))
        return
    editor.graph.node.remove(chosen)
    for reader in editor.graph.node:
        reader.input[:] = [read if name in written else name for name in reader.input]


def repeated_node(rng: Random, editor: Editor) -> None:
    """A second node like it, which some read, or which is added to it."""
    chosen = pick(rng, [n for n in editor.nodes if n.output[0]])
    name, at = chosen.output[0], editor.nodes.index(chosen)
    again = NodeProto()
    again.CopyFrom(chosen)
    again.output[:] = [editor.fresh(f"{each}_again") if each else "" for each in chosen.output]
    again.name = again.output[0]
    readers = editor.readers(name)
    if readers and rng.random() < 0.5:
        reader = pick(rng, readers)
        reader.input[:] = [again.output[0] if each == name else each for each in reader.input]
        editor.graph.node.insert(at, again)
        return
    first = editor.fresh(f"{name}_first")
    chosen.output[0] = first
    editor.graph.node.insert(at, again)
    joined = node(rng.choice(["Add", "Mul", "Max"]), f"{first} {again.output[0]}", "joined")
    joined.output[0] = joined.name = name
    editor.graph.node.insert(at + 2, joined)


def attribute(rng: Random, editor: Editor) -> None:
    """A value that the operator could have."""
    found = [a for n in nodes_of(editor.model) for a in n.attribute]
    changed = pick(rng, [a for a in found if a.type in _CHANGES])
    _CHANGES[changed.type](rng, changed)


def attribute_dropped(rng: Random, editor: Editor) -> None:
    chosen = pick(rng, [n for n in nodes_of(editor.model) if n.attribute])
    del chosen.attribute[rng.randrange(len(chosen.attribute))]


def rewired(rng: Random, editor: Editor) -> None:
    """An input reads another value that stands before it, of the same type where there is one."""
    chosen = pick(rng, [n for n in editor.nodes if any(n.input)])
    at = pick(rng, [at for at, name in enumerate(chosen.input) if name])
    old = chosen.input[at]
    names = [name for name in editor.before(chosen) if name != old]
    typed = {name: editor.types[name] for name in names if name in editor.types}
    dtype, shape = editor.types.get(old, (0, ()))
    same = [name for name, of in typed.items() if of == (dtype, shape)]
    ranked = [name for name, of in typed.items() if (of[0], len(of[1])) == (dtype, len(shape))]
    chosen.input[at] = pick(rng, pick(rng, [each for each in (same, same, ranked, names) if each]))


def swapped_inputs(rng: Random, editor: Editor) -> None:
    chosen = pick(rng, [n for n in nodes_of(editor.model) if len(set(n.input)) > 1])
    inputs = list(chosen.input)
    rng.shuffle(inputs)
    chosen.input[:] = inputs


def dropped_input(rng: Random, editor: Editor) -> None:
    """The last input, such as a bias, is left out."""
    chosen = pick(rng, [n for n in nodes_of(editor.model) if len(n.input) > 2])
    del chosen.input[-1]


def _int(rng: Random, changed: AttributeProto) -> None:
    changed.i = rng.choice([changed.i + 1, changed.i - 1, 0, 1, 2, -1, 3])


def _float(rng: Random, changed: AttributeProto) -> None:
    changed.f = rng.choice([0.0, 1.0, -1.0, 0.5, changed.f * 10, 1e-12, 1e6, -changed.f])


def _ints(rng: Random, changed: AttributeProto) -> None:
    values = list(changed.ints)
    if not values or rng.random() < 0.2:
        changed.ints[:] = [*values, 1] if rng.random() < 0.5 else values[:-1]
    elif rng.random() < 0.5:
        rng.shuffle(values)
        changed.ints[:] = values
    else:
        at = rng.randrange(len(values))
        changed.ints[at] = rng.choice([values[at] + 1, values[at] - 1, 1, 2, 0, 3])


def _string(rng: Random, changed: AttributeProto) -> None:
    words = "SAME_UPPER SAME_LOWER VALID NOTSET forward reverse bidirectional linear nearest cubic"
    more = (
        "ij,jk->ki ij,jk->i ii,ij->j tanh none constant reflect edge wrap asymmetric align_corners"
    )
    changed.s = rng.choice(f"{words} {more}".split()).encode()


_CHANGES = {
    AttributeProto.INT: _int,
    AttributeProto.FLOAT: _float,
    AttributeProto.INTS: _ints,
    AttributeProto.STRING: _string,
}
EDITS = (
    *(other_operator, swapped_operators, swapped_places, reordered, dropped_node, repeated_node),
    *(attribute, attribute_dropped, rewired, swapped_inputs, dropped_input),
)
