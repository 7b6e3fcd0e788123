"""The weights of a step as a PyTorch module has them, and back into such a module.

A file of `odtc.from_torch` says which initializers are its weights, and which of them have several
names. Of another file all initializers are told; a module takes those whose names it has, and every
weight of the step must find its place.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from odtc.core.errors import DataError, UsageError
from odtc.core.onnx_model.weight_list import read_weight_list
from odtc.core.options.kinds import shown

if TYPE_CHECKING:
    from torch import Tensor

_COUNTER, _MEAN = "num_batches_tracked", "running_mean"
_SHOWN = 20

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class State:
    """A step's weights, by the names of the module that they are of.

    Attributes:
        values: by name; a tied one under each of its names.
        ties: other names of weights, each with the first one.
        needed: names that a module must have to take them.
        steps: that were taken.
    """

    values: Arrays
    ties: Mapping[str, str]
    needed: frozenset[str]
    steps: int


def state_of(
    skeleton: onnx.ModelProto, weights: Arrays, statistics: Collection[str], steps: int
) -> State:
    """The state of a step.

    Args:
        skeleton: the original graph, with data for all initializers but the step's weights.
        weights: the step's, by initializer name, adapters merged.
        statistics: names of the running statistics that the step moves.
        steps: that were taken.
    """
    listed = read_weight_list(skeleton)
    stored = {tensor.name: tensor for tensor in skeleton.graph.initializer}
    known = {**stored, **weights}
    # Tools that drop what no node reads leave the list as it was.
    names = [name for name in (listed.initializers if listed else known) if name in known]
    values = {name: _value(name, stored.get(name), weights) for name in names}
    values |= {
        name: value + np.asarray(steps, value.dtype)
        for name, value in values.items()
        if name.endswith(_COUNTER) and _mean_of(name) in statistics
    }
    ties = {k: v for k, v in listed.ties.items() if v in values} if listed else {}
    values |= {other: values[name] for other, name in ties.items()}
    needed = frozenset(values) if listed else frozenset(weights)
    return State(values, ties, needed, steps)


def load_state(module: Any, state: State) -> None:
    """Gives a module's parameters and buffers the values, in place and in their own dtypes.

    Args:
        module: a `torch.nn.Module`.
        state: as `state_of` has it.

    Raises:
        UsageError: it is no module.
        DataError: names, shapes or ties differ; nothing is changed.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"module is {shown(module)}, not a torch.nn.Module",
            where="trainer.to_torch",
            hint="give a module built like the one that was exported",
        )
    # What torch.compile wraps has the names of the file.
    inner: Any = getattr(module, "_orig_mod", module)
    held = inner.state_dict(keep_vars=True)
    tensors = {name: value for name, value in held.items() if isinstance(value, torch.Tensor)}
    values = _for_module(tensors, state)
    if problems := [*_problems(tensors, values, state)]:
        raise DataError(
            "the module does not fit the step's weights:\n    " + "\n    ".join(problems),
            where=f"to_torch, {type(inner).__name__}",
            hint="give a module built like the one that was exported",
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(_tensor(values[name]))


def _value(name: str, stored: onnx.TensorProto | None, weights: Arrays) -> np.ndarray:
    """The weight, in the dtype that the file has it in."""
    if name not in weights:
        assert stored is not None
        return numpy_helper.to_array(stored).copy()
    value = weights[name]
    kind = value.dtype if stored is None else helper.tensor_dtype_to_np_dtype(stored.data_type)
    return value.astype(kind, copy=False)


def _mean_of(counter: str) -> str:
    return counter.removesuffix(_COUNTER) + _MEAN


def _for_module(tensors: Mapping[str, "Tensor"], state: State) -> dict[str, np.ndarray]:
    """The values for a module, whose ties and counters other exporters do not write."""
    values = {name: state.values[name] for name in tensors if name in state.values}
    by_tensor = {id(tensors[name]): value for name, value in values.items()}
    for name, tensor in tensors.items():
        if name in values:
            continue
        if id(tensor) in by_tensor and not state.ties:
            values[name] = by_tensor[id(tensor)]
        elif name.endswith(_COUNTER) and _mean_of(name) in values:
            values[name] = np.asarray(int(tensor) + state.steps)
    return values


def _problems(tensors: Mapping[str, "Tensor"], values: Arrays, state: State) -> Iterator[str]:
    """The differences, one line a kind."""
    lists = {
        "missing in the step": [name for name in tensors if name not in values],
        "not in the module": sorted(state.needed - tensors.keys()),
        "of another shape or kind": [
            f"{name} ({values[name].dtype}{list(values[name].shape)} in the step, "
            f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} in the module)"
            for name, tensor in tensors.items()
            if name in values and not _fits(values[name], tensor)
        ],
        "one tensor in the module, and two in the step": _split(tensors, state),
        "one tensor in the step, and two in the module": _joined(tensors, state),
        "without memory (on the meta device)": [k for k, t in tensors.items() if t.is_meta],
    }
    for what, names in lists.items():
        if names:
            more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            yield f"{what}: {', '.join(names[:_SHOWN])}{more}"


def _fits(value: np.ndarray, tensor: "Tensor") -> bool:
    is_float = value.dtype.kind not in "biu"
    return value.shape == tuple(tensor.shape) and is_float == tensor.is_floating_point()


def _split(tensors: Mapping[str, "Tensor"], state: State) -> list[str]:
    first: dict[int, str] = {}
    found = []
    for name, tensor in tensors.items():
        if name not in state.values:
            continue
        other = first.setdefault(id(tensor), name)
        if state.ties.get(other, other) != state.ties.get(name, name):
            found.append(f"{other} and {name}")
    return found


def _joined(tensors: Mapping[str, "Tensor"], state: State) -> list[str]:
    return [
        f"{name} and {other}"
        for other, name in state.ties.items()
        if name in tensors and other in tensors and tensors[name] is not tensors[other]
    ]


def _tensor(value: np.ndarray) -> "Tensor":
    import torch

    # bfloat16 is a type of ONNX's package, which PyTorch does not take from NumPy.
    known = value if value.dtype.kind in "biuf" else value.astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(known).reshape(known.shape).copy())
