"""odtc as a backend of ONNX's own interface: models run forward on this machine.

    import odtc.onnx_backend as backend
    (y,) = backend.run_model(model, [x])

It is there for ONNX's conformance tests, and to try what the importer makes of a model. Programs
have static shapes: one is compiled for the shapes of the inputs that it is given, and for the
values of those that a shape or an operator's setting depends on. What is bfloat16 is computed in
float32, and outputs are rounded.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import helper
from onnx.backend.base import Backend, BackendRep
from tvm import relax

from odtc.autoschedule.table import schedule_passes
from odtc.backends.lowering import build
from odtc.backends.targets import parse_target
from odtc.core.errors import DataError, OdtcError, UnsupportedError
from odtc.core.options.arguments import read_argument
from odtc.core.options.kinds import ANYTHING, TEXT, instance, several
from odtc.core.specs import TensorSpec
from odtc.frontend.backward.inference import forward_only
from odtc.frontend.file.onnx_file import check_model
from odtc.frontend.file.preview_training import without_training_nodes
from odtc.frontend.forward import inference_graph
from odtc.frontend.gradient_node import GradientNode, take_gradient, with_gradient
from odtc.frontend.graph import Graph
from odtc.frontend.importer import FORWARD, import_forward
from odtc.runtime_rpc.feed.arrays import as_array
from odtc.runtime_rpc.guards.failures import device_errors
from odtc.runtime_rpc.sessions.local import LocalSession

# A longer tensor is data: no shape or setting has so many numbers.
LONGEST_SETTING = 64
_BFLOAT16 = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)

_MODEL = instance(
    onnx.ModelProto, "model of ONNX's package", "load the file first: onnx.load('m.onnx')"
)
_INPUTS = several(ANYTHING, "list of arrays", "give the arrays in order, or by name")


class Prepared(BackendRep):
    """A model that can be run.

    Attributes:
        bound: names of the inputs whose values the last program was compiled for.
        is_folded: whether these were all that it has: nothing is left to compute then.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.bound: list[str] = []
        self.is_folded = False
        self._outputs = [value.name for value in model.graph.output]
        self._rounded = {
            value.name
            for value in model.graph.output
            if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
        }
        self._model, self._gradient = take_gradient(model)
        self._names = _fed(model)

    def run(self, inputs: Any, **_: Any) -> tuple[np.ndarray, ...]:
        """Compiles the model for these inputs and runs it.

        Args:
            inputs: arrays, in the order of the graph's inputs, or by name.

        Returns:
            The outputs, in order.

        Raises:
            OdtcError: the model or an input is not supported.
        """
        feeds = _named(inputs, self._names)
        refused: OdtcError | None = None
        for bound in _bindings(feeds):
            try:
                program = Program(self._model, feeds, bound, self._gradient)
            except OdtcError as error:
                # What the first attempt says is of the model as it is.
                refused = refused or error
                continue
            self.bound, self.is_folded = bound, len(bound) == len(feeds)
            results = program.run(feeds)
            return tuple(
                results[name].astype(_BFLOAT16) if name in self._rounded else results[name]
                for name in self._outputs
            )
        raise refused or UnsupportedError("the model has no form that odtc can run")


class Program:
    """A model compiled for inputs of these shapes and dtypes.

    Args:
        model: a checked ONNX model.
        feeds: the inputs.
        bound: names of those that are constants of the program.
        gradient: what to derive.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        feeds: Mapping[str, np.ndarray],
        bound: Sequence[str],
        gradient: GradientNode | None,
    ) -> None:
        specs = tuple(
            TensorSpec(name, value.shape, value.dtype.name)
            for name, value in feeds.items()
            if name not in bound
        )
        graph = inference_graph(model, specs, {name: feeds[name] for name in bound})
        self._graph = graph
        self._names = [value.name for value in model.graph.output]
        self._forward, self._empty = None, _take_empty(graph, self._names)
        if not graph.outputs:
            return
        names = [spec.name for spec in specs]
        module = import_forward(graph, names if gradient else ())
        if gradient is None:
            module = forward_only(module)
        else:
            module = with_gradient(module, gradient, names)
            self._names = [f"sum of {gradient.y}", *self._names[:-1], *gradient.outputs]
        self._forward = _compiled(module)

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs by name, for inputs that fit."""
        if self._forward is None:
            return self._empty
        # Others than bfloat16 have their own dtype already.
        values = [feeds[spec.name].astype(spec.dtype, copy=False) for spec in self._graph.inputs]
        with device_errors("this machine"):
            tensors = [
                tvm.runtime.tensor(np.ascontiguousarray(value).reshape(value.shape))
                for value in (*values, *self._graph.parameters.values())
            ]
            result = self._forward(*tensors)
            results = [item.numpy() for item in _flat(result)]
        return self._empty | dict(zip(self._names, results, strict=True))


class OdtcBackend(Backend):
    """ONNX's interface of a backend."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> Prepared:
        """A model that can be run.

        Raises:
            UsageError: it is no model of ONNX's package, or the device is no text.
            ModelError: it breaks the ONNX standard.
            UnsupportedError: a node is of a domain that odtc does not read.
        """
        read_argument(_MODEL, model, "model", "odtc.onnx_backend")
        read_argument(TEXT, device, "device", "odtc.onnx_backend")
        if not cls.supports_device(device):
            raise UnsupportedError(
                f"device {device!r}: models run forward on CPU only",
                hint="for a training step on another device, `odtc compile --target`",
            )
        model = without_training_nodes(model)
        check_model(model, "the model")
        return Prepared(model)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[np.ndarray, ...]:
        """Runs a model of one node.

        Args:
            node: its inputs are those of the model.
            inputs: arrays, in order.
            device: CPU.
            outputs_info: dtype and shape of each output; inferred where it is left out.
            kwargs: `opset_version`, by default the newest.
        """
        names = [name for name in dict.fromkeys(node.input) if name]
        values = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, map(np.asarray, inputs), strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        for value, (dtype, shape) in zip(outputs, outputs_info or (), strict=False):
            value.CopyFrom(
                helper.make_tensor_value_info(
                    value.name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
                )
            )
        version = kwargs.get("opset_version") or onnx.defs.onnx_opset_version()
        model = helper.make_model(
            helper.make_graph([node], "node", values, outputs),
            opset_imports=[helper.make_opsetid(node.domain, version)],
        )
        return cls.prepare(onnx.shape_inference.infer_shapes(model), device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is this machine's processor."""
        return device.partition(":")[0] == "CPU"


prepare = OdtcBackend.prepare
run_model = OdtcBackend.run_model
run_node = OdtcBackend.run_node
supports_device = OdtcBackend.supports_device


def _take_empty(graph: Graph, names: list[str]) -> dict[str, np.ndarray]:
    """Takes the outputs without elements, which no program holds, out of a graph and its names."""
    pairs = list(zip(names, graph.outputs, strict=True))
    values = {name: graph.constants.get(inner) for name, inner in pairs}
    empty = {name: each for name, each in values.items() if each is not None and not each.size}
    graph.outputs = [inner for name, inner in pairs if name not in empty]
    names[:] = [name for name in names if name not in empty]
    return empty


def _flat(result: Any) -> list[tvm.runtime.Tensor]:
    """The tensors of a result, however nested."""
    if isinstance(result, tvm.runtime.Tensor):
        return [result]
    return [tensor for item in result for tensor in _flat(item)]


def _compiled(module: tvm.IRModule) -> Any:
    """The function `forward` in this process."""
    target = parse_target("host-cpu").resolved()
    module[FORWARD] = module[FORWARD].with_attr("global_symbol", FORWARD)
    built = build(module, target, None, schedule_passes(target))
    LocalSession().use_threads(1)
    return relax.VirtualMachine(built.executable, tvm.cpu())[FORWARD]


def _bindings(feeds: Mapping[str, np.ndarray]) -> Iterator[list[str]]:
    """Which inputs are constants: none; else settings; else all, if they are small.

    A setting is a short list of integers or a single number, after the first input.
    """
    yield []
    behind = list(feeds)[1:]
    integers = [n for n in behind if feeds[n].dtype.kind in "iub" and _is_short(feeds[n])]
    if integers:
        yield integers
    settings = [n for n in behind if n in integers or _is_short(feeds[n])]
    if len(settings) > len(integers):
        yield settings
    if feeds and all(value.size <= LONGEST_SETTING for value in feeds.values()):
        yield list(feeds)


def _is_short(value: np.ndarray) -> bool:
    return value.ndim <= 1 and value.size <= LONGEST_SETTING


def _fed(model: onnx.ModelProto) -> list[str]:
    """Names of the inputs that are no initializers."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise UnsupportedError(
                f"an input is a {str(kind).removesuffix('_type')}; odtc takes tensors",
                where=f"input {value.name}",
            )
    return [value.name for value in model.graph.input if value.name not in initializers]


def _named(inputs: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    if isinstance(inputs, Mapping):
        inputs = [inputs[name] for name in names if name in inputs]
    elif isinstance(inputs, np.ndarray):
        inputs = [inputs]
    inputs = read_argument(_INPUTS, inputs, "inputs", "odtc.onnx_backend")
    if len(inputs) != len(names):
        raise DataError(
            f"{len(inputs)} inputs were given; the model has {len(names)}",
            hint=f"give one array for each of {', '.join(names)}" if names else "give none",
        )
    found = {}
    for name, value in zip(names, inputs, strict=True):
        array = as_array(value, f"input {name}")
        if array.dtype.kind in "OUSc":
            raise UnsupportedError(
                f"an array of {array.dtype} was given; odtc takes real numbers",
                where=f"input {name}",
                hint="give an array of floats, integers or booleans",
            )
        found[name] = array
    return found
