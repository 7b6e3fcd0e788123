"""Checks an ONNX file's weights against a module's: the same names and values, none missing."""

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from odtc.core.errors import ModelError, UnsupportedError
from odtc.core.onnx_model.placed_weights import PlacedModel
from odtc.core.onnx_model.weight_list import WeightList
from odtc.torch_export.calls import ExampleCall, named_tensors
from odtc.torch_export.names import listed
from odtc.torch_export.watching.kept import in_eval, own_tensors, state_tensors

# What is compared at a time.
_BLOCK = 1 << 20


def weight_list(module: nn.Module) -> WeightList:
    """Lists the module's own tensors.

    Raises:
        UnsupportedError: two of its parameters share memory, and are not one.
    """
    tensors = state_tensors(module)
    first = _first_names(tensors)
    unique = {name: t for name, t in tensors.items() if first[id(t)] == name}
    _check_memory(unique)
    frozen = tuple(k for k, t in unique.items() if _is_parameter(t) and not t.requires_grad)
    trained = tuple(k for k, t in unique.items() if _is_parameter(t) and t.requires_grad)
    return WeightList(
        parameters=trained,
        buffers=tuple(name for name in unique if name not in set(trained)),
        frozen=frozen,
        ties={name: first[id(t)] for name, t in tensors.items() if first[id(t)] != name},
    )


def initializer_names(module: nn.Module) -> dict[str, str]:
    """Name of the initializer of each tensor, by the path of its place in the module."""
    first = _first_names(state_tensors(module))
    return {path: first.get(id(t), path) for path, t in own_tensors(module).items()}


def complete(
    placed: PlacedModel, module: nn.Module, weights: WeightList, call: ExampleCall
) -> None:
    """Checks the file's weights, and adds those that the module has and its forward never reads.

    Raises:
        ModelError: the file lacks weights that are read, or has others under their names.
    """
    model, tensors = placed.model, state_tensors(module)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    missing = [name for name in weights.initializers if name not in stored]
    lost = sorted(_read(module, call, missing)) if missing else []
    if lost:
        raise ModelError(f"the file lacks weights that the module reads: {listed(lost)}")
    for name in _norm_buffers(module) & stored.keys():
        # The exporter ran the module, which changed them.
        stored[name].CopyFrom(_initializer(name, tensors[name]))
    differing = [
        name
        for name in weights.initializers
        if name in stored
        and not same_elements(placed.array_of(stored[name]), array_of(tensors[name]))
    ]
    if differing:
        raise ModelError(f"the file has other values than the module: {listed(differing)}")
    model.graph.initializer.extend(_initializer(name, tensors[name]) for name in missing)


def array_of(tensor: Tensor) -> np.ndarray:
    """The tensor's values; bfloat16, which NumPy lacks, in the type of ONNX's package."""
    held = tensor.detach().cpu().contiguous()
    if held.dtype is torch.bfloat16:
        kind = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)
        return held.view(torch.int16).numpy().view(kind)
    return held.numpy()


def same_elements(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have the same type, shape and bits."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.flags.c_contiguous and other.flags.c_contiguous and np.shares_memory(one, other):
        return one.ctypes.data == other.ctypes.data
    first, second = (each.reshape(-1).view(np.uint8) for each in (one, other))
    parts = (slice(at, at + _BLOCK) for at in range(0, one.nbytes, _BLOCK))
    return all(np.array_equal(first[part], second[part]) for part in parts)


def check_changes(module: nn.Module, before: Mapping[str, Tensor]) -> None:
    """Checks that a forward in training changed no buffers but those of batch normalisation.

    Args:
        module: after its forward.
        before: copies of its buffers, by path.

    Raises:
        UnsupportedError: it did; a training step would leave them as they are.
    """
    known = _norm_buffers(module)
    now = dict(module.named_buffers(remove_duplicate=False))
    changed = [k for k, t in now.items() if k not in known and not _same(t, before.get(k))]
    if changed:
        raise UnsupportedError(
            f"the module changes buffers while it trains, which ONNX has no place for: "
            f"{listed(changed)}",
            where="module",
            hint="put the parts that own them into eval(), inside a module that trains",
        )


def check_norms(module: nn.Module) -> None:
    """Checks that running statistics are updated as in ONNX.

    Raises:
        UnsupportedError: a batch normalisation averages over all batches.
    """
    averaging = [path for path, part in _moving_norms(module) if part.momentum is None]
    if averaging:
        raise UnsupportedError(
            f"batch normalisations average over all batches (momentum=None), which ONNX cannot "
            f"say: {listed(averaging)}",
            where="module",
            hint="give them a momentum, such as 0.1",
        )


def check_finite(module: nn.Module) -> None:
    """Checks that parameters can be trained; infinite ones that are frozen may be masks.

    Raises:
        ModelError: one has NaN, or is to be trained and has an infinite element.
    """
    found = {name: _not_finite(each) for name, each in module.named_parameters()}
    wrong = [f"{name} ({value})" for name, value in found.items() if value]
    if wrong:
        raise ModelError(
            f"parameters of the module are not finite, so no step can train it: {listed(wrong)}",
            where="module",
            hint="load weights that are finite; where an infinite one is meant, such as in a mask, "
            "freeze it by requires_grad_(False)",
        )


def _not_finite(parameter: nn.Parameter) -> str:
    """What a parameter has that it may not have; empty if all is well."""
    if not parameter.is_floating_point() or not parameter.numel():
        return ""
    # PyTorch finds no ends of types of eight bits.
    values = parameter.detach().float() if parameter.itemsize == 1 else parameter.detach()
    # Takes no memory, as a truth value for each element would; of a NaN both ends are NaN.
    ends = [end.item() for end in torch.aminmax(values)]
    is_right = math.isfinite if parameter.requires_grad else lambda end: not math.isnan(end)
    return next((str(end) for end in ends if not is_right(end)), "")


def _moving_norms(module: nn.Module) -> Iterator[tuple[str, nn.modules.batchnorm._BatchNorm]]:
    """Batch normalisations whose running statistics follow the batches, by path."""
    kind = nn.modules.batchnorm._BatchNorm
    for path, part in module.named_modules():
        if isinstance(part, kind) and part.training and part.track_running_stats:
            yield path, part


def _is_parameter(tensor: Tensor) -> bool:
    return isinstance(tensor, nn.Parameter)


def _first_names(tensors: Mapping[str, Tensor]) -> dict[int, str]:
    first: dict[int, str] = {}
    for name, tensor in tensors.items():
        first.setdefault(id(tensor), name)
    return first


def _check_memory(tensors: Mapping[str, Tensor]) -> None:
    places: dict[tuple[object, ...], str] = {}
    for name, tensor in tensors.items():
        if not tensor.numel() or not _is_parameter(tensor):
            continue
        place = tensor.data_ptr(), tensor.shape
        if place in places:
            raise UnsupportedError(
                f"the parameters {places[place]!r} and {name!r} share their memory, and are two",
                where="module",
                hint="let both names have the same nn.Parameter, or clone one of them",
            )
        places[place] = name


class _Reads(TorchDispatchMode):
    """Notes the memory of all tensors that operators are given."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for item in tree_leaves((args, kwargs or {})):
            if isinstance(item, Tensor):
                self.places.add(item.untyped_storage().data_ptr())
        return func(*args, **(kwargs or {}))


def _read(module: nn.Module, call: ExampleCall, names: Iterable[str]) -> set[str]:
    """Returns the weights that a result of the forward depends on, in inference mode.

    Autograd knows this of floating-point tensors, except running statistics of batch
    normalisations; of all other tensors, those that are operands of an operator count.
    """
    tensors = {name: tensor for name, tensor in state_tensors(module).items() if name in set(names)}
    norms = _norm_buffers(module)
    leaves = {
        k: t for k, t in tensors.items() if t.is_floating_point() and t.is_leaf and k not in norms
    }
    with in_eval(module), torch.no_grad(), _Reads() as reads:
        module(*call.args, **call.kwargs)
    given = {k for k, t in tensors.items() if t.untyped_storage().data_ptr() in reads.places}
    return (given - leaves.keys()) | _reaching(module, call, leaves)


def _reaching(module: nn.Module, call: ExampleCall, leaves: Mapping[str, Tensor]) -> set[str]:
    """Names of the tensors that some result depends on by autograd."""
    before = {k: t.requires_grad for k, t in leaves.items()}
    try:
        for tensor in leaves.values():
            tensor.requires_grad_(True)
        with in_eval(module), torch.enable_grad():
            results = named_tensors(module(*call.args, **call.kwargs), "output").values()
        sums = [result.sum().double() for result in results if result.requires_grad]
        if not sums or not leaves:
            return set()
        total = torch.stack(sums).sum()
        found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        return {name for name, gradient in zip(leaves, found, strict=True) if gradient is not None}
    finally:
        for name, tensor in leaves.items():
            tensor.requires_grad_(before[name])


def _norm_buffers(module: nn.Module) -> set[str]:
    """Running statistics and counters of batch normalisations, by path."""
    return {
        f"{path}.{name}" if path else name
        for path, part in module.named_modules(remove_duplicate=False)
        if isinstance(part, nn.modules.batchnorm._BatchNorm)
        for name, _ in part.named_buffers(recurse=False)
    }


def _same(tensor: Tensor, before: Tensor | None) -> bool:
    return before is not None and torch.equal(tensor, before)


def _initializer(name: str, tensor: Tensor) -> onnx.TensorProto:
    return numpy_helper.from_array(array_of(tensor), name)
