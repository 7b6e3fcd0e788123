"""An editable view of an ONNX graph: nodes, constants, parameters and static shapes.

The weights are kept beside the nodes, never inside the ONNX protobuf that shape inference and the
importer see: to them a parameter is one more input. So no second copy of the weights is made, and
a model of any size passes under protobuf's 2 GB limit.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper, shape_inference

from odtc.core.coded import Coded
from odtc.core.counted import Counted
from odtc.core.disk.file_limits import MOST_PROPAGATED
from odtc.core.errors import ModelError
from odtc.core.ir.place import Place
from odtc.core.onnx_model.weight_places import bodies_of
from odtc.core.specs import Classes, TensorSpec
from odtc.frontend.file.misfits import misfit
from odtc.frontend.weights.finding import Finding, Kind

MAIN_DOMAINS = ("", "ai.onnx")
# Loops of kernels count in 32 bits.
MAX_ELEMENTS = 2**31 - 1
# The last is that of a number that is no element type.
_INFERENCE_ERRORS = (shape_inference.InferenceError, onnx.checker.ValidationError, ValueError)


@dataclass
class Graph:
    """One ONNX graph while it is being normalised.

    Attributes:
        nodes: the operators, in topological order.
        inputs: what a caller feeds, of static shape.
        parameters: float tensors that a training step may change, by ONNX initializer name.
        constants: all other initializers, by name.
        outputs: names of the results; see `join_losses` for their order.
        aside: outputs of the model that no loss can be on, each with the reason.
        opset: version of the default operator set.
        shapes: static shape of every tensor, as far as inference knows it.
        dtypes: numpy dtype name of every tensor.
        notes: what was assumed on the way, for the user to read.
        lost: those of the notes that say what an exporter lost of the model, or what it has of NaN,
            each with the weights that it is of; with none where it is of every step.
        idle: those of the notes that say what was asked for and changes nothing.
        labels: what a caller feeds to compare with, where the loss is part of the graph.
        classes: what an integer input or label may hold, by name, as far as its reader says.
        counted: what of inputs and labels a loss inside of the model reads, where it may ignore it.
        seed: of the masks of dropout.
        places: where the samples of a batch lie in inputs and labels that hold some.
        bound: inputs that are not fed: the value of each that the user gave, else None.
        originals: for tensors that normalisation made, the one of the model that they stand for;
            empty where there is none.
        findings: what each float tensor of the file is, and why.
        coded: parameters that are kept as codes, by name; see `odtc/core/coded.py`.
        unbiased: whether running variances follow PyTorch's: see
            `odtc/core/onnx_model/running_variance.py`.
        new_head: parameters of a head that was put on the model, and is untrained.
        untrainable: weights that no option trains, as they are no float tensors, each with what to
            do instead.
        unrounded: float32 of constants that the file computes in float16, by name.
        folded_bytes: of constants that were computed from others.
        detached: tensors that count as constants in the backward pass.
        unrolled_nodes: that loops became.
        unrolled_bytes: of these.
    """

    nodes: list[onnx.NodeProto]
    inputs: tuple[TensorSpec, ...]
    parameters: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]
    outputs: list[str]
    opset: int
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lost: dict[str, tuple[str, ...]] = field(default_factory=dict)
    idle: list[str] = field(default_factory=list)
    labels: tuple[TensorSpec, ...] = ()
    classes: dict[str, Classes] = field(default_factory=dict)
    counted: tuple[Counted, ...] = ()
    seed: int = 0
    places: dict[str, Place] = field(default_factory=dict)
    bound: dict[str, Any] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    findings: Mapping[str, Finding] = field(default_factory=dict)
    coded: dict[str, Coded] = field(default_factory=dict)
    unbiased: bool = False
    new_head: tuple[str, ...] = ()
    aside: dict[str, str] = field(default_factory=dict)
    untrainable: list[str] = field(default_factory=list)
    unrounded: dict[str, np.ndarray] = field(default_factory=dict)
    folded_bytes: int = 0
    detached: set[str] = field(default_factory=set)
    unrolled_nodes: int = 0
    unrolled_bytes: int = 0

    @property
    def frozen(self) -> frozenset[str]:
        """Names of the parameters that the file says are frozen."""
        found = self.findings.items()
        return frozenset(name for name, finding in found if finding.kind is Kind.FROZEN)

    def leave_untrained(self, said: str) -> None:
        """Tells of weights that no option trains."""
        self.untrainable.append(said)
        self.notes.append(said)

    def forget_losses(self, trained: Collection[str]) -> None:
        """Drops the notes on what was lost of weights that are not trained in any way."""
        idle = {said for said, names in self.lost.items() if names and not {*names} & {*trained}}
        self.lost = {said: names for said, names in self.lost.items() if said not in idle}
        self.notes = [said for said in self.notes if said not in idle]

    def tell_idle(self, said: Iterable[str]) -> None:
        """Notes what was asked for and changes nothing."""
        told = [each for each in said if each not in self.idle]
        self.idle += told
        self.notes += told

    def add_constant(self, hint: str, value: npt.ArrayLike) -> str:
        """Adds a constant under a fresh name and returns the name."""
        # Constants are dropped too: their number alone has been used before.
        serial = len(self.constants)
        while (name := f"odtc::{hint}::{serial}") in self.constants:
            serial += 1
        self.constants[name] = np.asarray(value)
        return name

    def consumers(self, tensor: str) -> list[onnx.NodeProto]:
        """Nodes that read `tensor`; it looks at all nodes, so it is not for every tensor."""
        return [node for node in self.nodes if tensor in names_read(node)]

    def names_in_use(self) -> frozenset[str]:
        """Names of the tensors that a node reads or that are outputs, as the graph is now."""
        return frozenset(self.outputs).union(*map(names_read, self.nodes))

    def to_model(self, most: int | None = None) -> onnx.ModelProto:
        """The graph as a weightless ONNX model: parameters follow the inputs, then labels.

        Args:
            most: elements of the largest constant whose values it has; larger ones are inputs of
                it, behind all else. None for those of all.
        """
        large = {
            name: value
            for name, value in self.constants.items()
            if most is not None and value.size > most
        }
        values = [
            helper.make_tensor_value_info(spec.name, onnx_dtype(spec.dtype), spec.shape)
            for spec in (*self.inputs, *self.parameter_specs(), *self.labels)
        ]
        values += [
            helper.make_tensor_value_info(name, onnx_dtype(value.dtype.name), value.shape)
            for name, value in large.items()
        ]
        outputs = [
            helper.make_tensor_value_info(name, onnx_dtype(self.dtypes.get(name, "float32")), None)
            for name in self.outputs
        ]
        constants = [
            numpy_helper.from_array(value, name)
            for name, value in self.constants.items()
            if name not in large
        ]
        nodes = [_inferable(node) for node in self.nodes]
        graph = helper.make_graph(nodes, "odtc", values, outputs, constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8
        )

    def parameter_specs(self) -> tuple[TensorSpec, ...]:
        """Specs of the parameters, in order."""
        return tuple(
            TensorSpec(name, value.shape, value.dtype.name)
            for name, value in self.parameters.items()
        )

    def infer_shapes(self, *, follows: bool = True) -> None:
        """Fills `shapes` and `dtypes`.

        Args:
            follows: whether the elements of lists are followed from node to node. ONNX has a
                message for each element of every list then, whatever it holds, so that no list may
                be long.

        Raises:
            ModelError: two shapes do not fit together.
            UnsupportedError: a loop makes a sequence.
        """
        # Inference asks for the values of sizes, places and scales, never for those of a weight.
        model = self.to_model(most=_MOST_INFERRED)
        try:
            model = _inferred(model, data_prop=follows and self._may_follow())
        except _INFERENCE_ERRORS:
            # It takes tables of values for lists of them, and then finds that they do not fit.
            try:
                model = _inferred(model, data_prop=False)
            except _INFERENCE_ERRORS as error:
                raise misfit(self.nodes, error) from error
        graph = model.graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            tensor = value.type.tensor_type
            if tensor.elem_type:
                self.dtypes[value.name] = numpy_dtype(tensor.elem_type)
            dims = tensor.shape.dim
            if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
                self.shapes[value.name] = tuple(dim.dim_value for dim in dims)
        for name, value in self.constants.items():
            self.shapes[name] = value.shape
            self.dtypes[name] = value.dtype.name
        self._check_sizes()

    def _may_follow(self) -> bool:
        """Whether inference may hold each element of the lists that it follows."""
        lists = (shape[0] for shape in self.shapes.values() if len(shape) == 1)
        return sum(lists) <= MOST_PROPAGATED

    def _check_sizes(self) -> None:
        for name, shape in self.shapes.items():
            if min(shape, default=0) < 0 or math.prod(shape) > MAX_ELEMENTS:
                raise ModelError(
                    f"a tensor has the shape {list(shape)}; sizes are positive, and odtc takes at "
                    f"most {MAX_ELEMENTS} elements",
                    where=f"tensor {name}",
                    hint="check the batch size and the shapes that the model was exported with",
                )

    def drop_unused(self) -> None:
        """Removes nodes, constants and parameters that no output depends on."""
        needed = set(self.outputs)
        kept: list[onnx.NodeProto] = []
        for node in reversed(self.nodes):
            if not needed.isdisjoint(node.output):
                needed.update(names_read(node))
                kept.append(node)
        self.nodes = kept[::-1]
        self.constants = {k: v for k, v in self.constants.items() if k in needed}
        self.parameters = {k: v for k, v in self.parameters.items() if k in needed}


def copy_of(graph: Graph) -> Graph:
    """A graph to be changed on its own; the arrays are shared."""
    fresh = {item.name: copy(getattr(graph, item.name)) for item in fields(graph) if item.init}
    fresh["nodes"] = copies_of(graph.nodes)
    return Graph(**fresh)


def copies_of(nodes: Iterable[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Copies that lie together in memory: one by one, each would have a kilobyte of its own."""
    together = onnx.GraphProto()
    together.node.extend(nodes)
    return list(together.node)


def read_inputs(graph: Graph) -> tuple[TensorSpec, ...]:
    """The inputs that something reads; all of them where that are none."""
    read = graph.names_in_use()
    return tuple(spec for spec in graph.inputs if spec.name in read) or graph.inputs


def drop_unread_inputs(graph: Graph) -> None:
    """Leaves out inputs that nothing reads, unless there would be none left."""
    kept = read_inputs(graph)
    graph.bound |= {spec.name: None for spec in graph.inputs if spec not in kept}
    graph.inputs = kept


def samples_of(graph: Graph) -> int:
    """Samples in a batch; 1 where no input holds some."""
    places = graph.places
    counts = [places[i.name].count(i.shape) for i in graph.inputs if i.name in places]
    return counts[0] if counts else 1


# Elements of a constant whose values say shapes, at most: sizes, places, scales.
_MOST_INFERRED = 1 << 16
# Their shape is that of their input; ONNX defines them by a function, which inference fails at.
_SHAPE_OF_INPUT = ("GroupNormalization", "MeanVarianceNormalization")


def _inferable(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node, or one with the same shapes that inference can do."""
    if node.op_type == "STFT" and not any(item.name == "onesided" for item in node.attribute):
        # Inference takes another default than the standard.
        said = onnx.NodeProto.FromString(node.SerializeToString())
        said.attribute.append(helper.make_attribute("onesided", 1))
        return said
    if node.op_type not in _SHAPE_OF_INPUT:
        return node
    return helper.make_node("Identity", node.input[:1], node.output, node.name)


def _inferred(model: onnx.ModelProto, data_prop: bool) -> onnx.ModelProto:
    return shape_inference.infer_shapes(
        model, check_type=True, strict_mode=True, data_prop=data_prop
    )


def statistics_of(graph: Graph) -> frozenset[str]:
    """Names of the parameters that are running means and variances of batch normalisations."""
    nodes = [node for node in graph.nodes if node.op_type == "BatchNormalization"]
    return frozenset(name for node in nodes for name in node.input[3:5])


def names_read(node: onnx.NodeProto) -> set[str]:
    """Names of the tensors that a node reads, those that its subgraphs read of the outside too."""
    names = set(node.input)
    for body in bodies_of(node):
        inner = {name for each in body.node for name in names_read(each)}
        names |= inner | {value.name for value in body.output}
    names.discard("")
    return names


def describe_node(node: onnx.NodeProto) -> str:
    """How messages name a node: its name, or its first output where it has none, and its type."""
    return f"{node.name or '-> ' + node.output[0]} ({node.op_type})"


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Attributes of a node as Python values; strings are decoded."""
    values = {item.name: helper.get_attribute_value(item) for item in node.attribute}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}


def only(graph: Graph, node: onnx.NodeProto, slot: int) -> Any:
    """The one number that an input is, of whatever rank; None if it is not constant, or left out.

    Raises:
        ModelError: it is constant, and of another number of elements.
    """
    name = node.input[slot] if slot < len(node.input) else ""
    value = graph.constants.get(name)
    if value is not None and value.size != 1:
        raise ModelError(
            f"input {slot} has {value.size} elements, where one number is asked for",
            where=f"node {describe_node(node)}",
            hint=f"give {name!r} one element",
        )
    return None if value is None else value.item()


@cache
def numpy_dtype(elem_type: int) -> str:
    """ONNX element type to numpy dtype name.

    Raises:
        ModelError: ONNX has no such type.
    """
    try:
        return helper.tensor_dtype_to_np_dtype(elem_type).name
    except KeyError as error:
        raise ModelError(f"a tensor has the unknown element type {elem_type}") from error


def onnx_dtype(dtype: str) -> int:
    """Numpy dtype name to ONNX element type."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
