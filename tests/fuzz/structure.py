"""Wrong graphs: names, edges, operators, subgraphs and versions."""

from itertools import pairwise
from random import Random

from onnx import NodeProto, TensorProto, helper

from tests.fuzz.corpus import body, node, value
from tests.fuzz.mutant import Mutant, nodes_of

NAMES = ["", " ", "é", "名前", "\u202eabc", "🙂" * 50, "a/b:c", "../x", "\n", "%s{}", "x" * 100_000]


def cycle(rng: Random, mutant: Mutant) -> None:
    nodes = mutant.model.graph.node
    late = rng.randrange(len(nodes))
    early = nodes[rng.randrange(late + 1)]
    if early.input:
        early.input[rng.randrange(len(early.input))] = nodes[late].output[0]


def shuffled_nodes(rng: Random, mutant: Mutant) -> None:
    nodes = list(mutant.model.graph.node)
    rng.shuffle(nodes)
    del mutant.model.graph.node[:]
    mutant.model.graph.node.extend(nodes)


def missing_initializer(rng: Random, mutant: Mutant) -> None:
    del mutant.model.graph.initializer[rng.randrange(len(mutant.model.graph.initializer))]


def missing_node(rng: Random, mutant: Mutant) -> None:
    del mutant.model.graph.node[rng.randrange(len(mutant.model.graph.node))]


def missing_input(rng: Random, mutant: Mutant) -> None:
    if rng.random() < 0.3:
        del mutant.model.graph.input[:]
    else:
        del mutant.model.graph.input[rng.randrange(len(mutant.model.graph.input))]


def missing_output(rng: Random, mutant: Mutant) -> None:
    if rng.random() < 0.5:
        del mutant.model.graph.output[:]
    else:
        mutant.model.graph.output[0].name = rng.choice(["x", "nowhere", "", "w"])


def repeated_output(rng: Random, mutant: Mutant) -> None:
    mutant.model.graph.output.append(mutant.model.graph.output[0])
    if rng.random() < 0.5:
        mutant.model.graph.output.append(rng.choice(list(mutant.model.graph.input)))


def repeated_name(rng: Random, mutant: Mutant) -> None:
    """Two things of one name."""
    graph = mutant.model.graph
    kind = rng.choice(["initializer", "input", "node", "output"])
    if kind == "output":
        rng.choice(nodes_of(mutant.model)).output[0] = rng.choice(graph.input).name
    else:
        field = getattr(graph, kind)
        field.append(rng.choice(list(field)))


def node_name(rng: Random, mutant: Mutant) -> None:
    rng.choice(nodes_of(mutant.model)).name = rng.choice(NAMES)


def tensor_name(rng: Random, mutant: Mutant) -> None:
    """A strange name, everywhere that the old one stood."""
    graph = mutant.model.graph
    tensors = [*graph.input, *graph.initializer]
    tensor = rng.choice(tensors)
    old, new = tensor.name, rng.choice(NAMES)
    for item in tensors:
        item.name = new if item.name == old else item.name
    for each in graph.node:
        each.input[:] = [new if name == old else name for name in each.input]


def unknown_operator(rng: Random, mutant: Mutant) -> None:
    names = [
        *NAMES,
        "Nonsense",
        "Gradient",
        "Identity",
        "Loop",
        "MatMulInteger",
        "StringNormalizer",
    ]
    rng.choice(nodes_of(mutant.model)).op_type = rng.choice(names)


def other_operator(rng: Random, mutant: Mutant) -> None:
    """The operators of two nodes change places."""
    first, second = (rng.choice(list(mutant.model.graph.node)) for _ in range(2))
    first.op_type, second.op_type = second.op_type, first.op_type


def domain(rng: Random, mutant: Mutant) -> None:
    names = ["ai.onnx", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview.training", *NAMES]
    name = rng.choice(names)
    rng.choice(nodes_of(mutant.model)).domain = name
    if rng.random() < 0.5:
        mutant.model.opset_import.append(helper.make_opsetid(name, rng.choice([1, 2, 99])))


def opset(rng: Random, mutant: Mutant) -> None:
    versions = [0, -1, 1, 2, 5, 6, 8, 11, 12, 14, 18, 21, 24, 26, 99, 2**31, 2**63 - 1]
    if rng.random() < 0.2:
        del mutant.model.opset_import[:]
    elif rng.random() < 0.2:
        mutant.model.opset_import.append(helper.make_opsetid("ai.onnx", rng.choice(versions)))
    else:
        mutant.model.opset_import[0].version = rng.choice(versions)


def ir_version(rng: Random, mutant: Mutant) -> None:
    mutant.model.ir_version = rng.choice([0, -1, 1, 3, 5, 99, 2**31, 2**62])


def dropped_edge(rng: Random, mutant: Mutant) -> None:
    chosen = rng.choice([each for each in nodes_of(mutant.model) if each.input])
    at = rng.randrange(len(chosen.input))
    if rng.random() < 0.5:
        chosen.input[at] = ""
    else:
        del chosen.input[at:]


def repeated_edge(rng: Random, mutant: Mutant) -> None:
    chosen = rng.choice([each for each in nodes_of(mutant.model) if each.input])
    chosen.input.extend([rng.choice(list(chosen.input))] * rng.choice([1, 5, 1000]))


def moved_edge(rng: Random, mutant: Mutant) -> None:
    nodes = [each for each in mutant.model.graph.node if each.input]
    names = [name for each in nodes for name in (*each.input, *each.output)]
    chosen = rng.choice(nodes)
    chosen.input[rng.randrange(len(chosen.input))] = rng.choice(names)


def node_outputs(rng: Random, mutant: Mutant) -> None:
    chosen = rng.choice(list(mutant.model.graph.node))
    if rng.random() < 0.4:
        del chosen.output[:]
    elif rng.random() < 0.5:
        chosen.output[0] = ""
    else:
        chosen.output.extend(f"extra{at}" for at in range(rng.choice([1, 2, 50])))


def deep_graph(rng: Random, mutant: Mutant) -> None:
    """A chain of cheap nodes in front of everything."""
    graph = mutant.model.graph
    names = ["x", *(f"deep{at}" for at in range(rng.choice([100, 1000])))]
    op_type = rng.choice(["Identity", "Relu", "Identity", "Neg"])
    for each in graph.node:
        each.input[:] = [names[-1] if name == "x" else name for name in each.input]
    chain = [node(op_type, *pair) for pair in pairwise(names)]
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*chain, *rest])


def wide_node(rng: Random, mutant: Mutant) -> None:
    graph = mutant.model.graph
    name = graph.node[-1].output[0]
    count = rng.choice([20, 100])
    graph.node[-1].output[0] = "narrow"
    graph.node.append(node("Sum", " ".join(["narrow"] * count), name))


def subgraphs(rng: Random, mutant: Mutant) -> None:
    """An If in an If in an If."""
    inner = [node("Identity", "x", "deepest")]
    output = value("deepest", [])
    for depth in range(rng.choice([1, 10, 60])):
        branch = body(inner, [], [output])
        inner = [node("If", "truth", f"o{depth}", then_branch=branch, else_branch=branch)]
        if len(inner[0].SerializeToString()) > 1 << 20:
            break
        output = value(f"o{depth}", [])
    graph = mutant.model.graph
    graph.initializer.append(helper.make_tensor("truth", TensorProto.BOOL, [], [True]))
    first = [*inner, node("Relu", inner[0].output[0], "unused")]
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*first, *rest])
    for each in rest:
        each.input[:] = ["unused" if name == "x" else name for name in each.input]


def recursive_function(rng: Random, mutant: Mutant) -> None:
    """A function that calls itself, or two that call each other."""
    names = ["First", "Second"] if rng.random() < 0.5 else ["First"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    for at, name in enumerate(names):
        called = names[(at + 1) % len(names)]
        calls = [node(called, "a", "b", domain="local")]
        made = helper.make_function("local", name, ["a"], ["b"], calls, opsets)
        mutant.model.functions.append(made)
    if not any(item.domain == "local" for item in mutant.model.opset_import):
        mutant.model.opset_import.append(helper.make_opsetid("local", 1))
    chosen: NodeProto = rng.choice(list(mutant.model.graph.node))
    chosen.CopyFrom(node("First", chosen.input[0] if chosen.input else "x", chosen.output[0]))
    chosen.domain = "local"


MUTATIONS = (
    *(cycle, shuffled_nodes, missing_initializer, missing_node, missing_input, missing_output),
    *(repeated_output, repeated_name, node_name, tensor_name, unknown_operator, other_operator),
    *(domain, opset, ir_version, dropped_edge, repeated_edge, moved_edge, node_outputs),
    *(deep_graph, wide_node, subgraphs, recursive_function),
)
