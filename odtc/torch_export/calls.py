"""A call of a module in flat tensors: its example inputs and its outputs, each with a name.

Exporters know tensors in a row. A module takes tuples and dictionaries of them, by place or by
keyword, beside numbers and flags, and may return a dictionary, or an object with fields.
"""

import dataclasses
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from odtc.core.errors import UsageError
from odtc.core.options.kinds import shown
from odtc.torch_export.names import listed

BatchAxis = int | Mapping[str, int | None] | None
# Parameters of forward that a message has.
_MOST_NAMES = 8


@dataclass(frozen=True)
class ExampleCall:
    """The example call of a module.

    Attributes:
        args: positional arguments; `kwargs`, those by keyword.
        kwargs: see `args`.
        tensors: the tensors in it, by name, in order.
        axes: the dimension of each along which the samples lie; None where there is none.
        lengths: the same of a length that is left open, such as that of rows of tokens.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    axes: Mapping[str, int | None]
    lengths: Mapping[str, int | None]

    @property
    def batch(self) -> int | None:
        """Samples in the call; None where no input has a batch."""
        return self._size(self.axes)

    @property
    def length(self) -> int | None:
        """The length that is left open; None where there is none."""
        return self._size(self.lengths)

    def _size(self, axes: Mapping[str, int | None]) -> int | None:
        sizes = (self.tensors[k].shape[a] for k, a in axes.items() if a is not None)
        return next(sizes, None)

    def with_batch(self, size: int) -> "ExampleCall":
        """The same call with its first samples, repeated as often as needed."""
        return self._with({k: _resized(v, self.axes[k], size) for k, v in self.tensors.items()})

    def with_length(self, size: int) -> "ExampleCall":
        """The same call with its first places, repeated as often as needed."""
        return self._with({k: _resized(v, self.lengths[k], size) for k, v in self.tensors.items()})

    def beside(self, given: "ExampleCall") -> str:
        """Clause for an error text: inputs whose size differs from the given one; '' for none."""
        is_length = self.length != given.length
        axes = self.lengths if is_length else self.axes
        said = [
            f"{k} as {list(t.shape)}, from {list(given.tensors[k].shape)}, since its "
            f"{'length is' if is_length else 'samples are'} along dimension {axes[k]}"
            for k, t in self.tensors.items()
            if t.shape != given.tensors[k].shape
        ]
        what = f"length to {self.length}" if is_length else f"number of samples to {self.batch}"
        return f"; odtc changed the {what}: {listed(said)}" * bool(said)

    def backwards(self) -> "ExampleCall":
        """The same call with its samples in reverse order."""
        return self._with(
            {k: v if (a := self.axes[k]) is None else v.flip(a) for k, v in self.tensors.items()}
        )

    def _with(self, tensors: Mapping[str, Tensor]) -> "ExampleCall":
        args, kwargs = self.filled(tensors.values())
        return dataclasses.replace(self, args=args, kwargs=kwargs, tensors=tensors)

    def filled(self, tensors) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other tensors, in the same order."""
        left = iter(tensors)
        args = tuple(_filled(value, left) for value in self.args)
        return args, {key: _filled(value, left) for key, value in self.kwargs.items()}


class Flat(nn.Module):
    """A module that takes and returns its tensors in a row.

    Args:
        module: the one inside; its mode is not touched.
        call: its example call.
    """

    def __init__(self, module: nn.Module, call: ExampleCall) -> None:
        super().__init__()
        self.module = module
        self._call = call

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Runs the module; returns the tensors in its result."""
        args, kwargs = self._call.filled(tensors)
        return tuple(named_tensors(self.module(*args, **kwargs), "output").values())


def _parameters(signature: inspect.Signature) -> str:
    """The names of the parameters, in their order: models of transformers have many."""
    names = [*signature.parameters]
    return ", ".join(names[:_MOST_NAMES]) + ", ..." * (len(names) > _MOST_NAMES)


def example_call(
    module: nn.Module,
    example: Any,
    names: Sequence[str] | None,
    batch_axis: BatchAxis,
    length_axis: BatchAxis = None,
) -> ExampleCall:
    """The call of a module with the example inputs.

    Args:
        module: its `forward` gives the inputs their names.
        example: a tensor, a tuple of positional arguments, or a mapping by keyword; arrays are
            taken for tensors.
        names: other names of the tensors, in order.
        batch_axis: see `odtc.from_torch`.
        length_axis: the same.

    Raises:
        UsageError: they do not fit `forward`, names or axes do not fit them, or the numbers of
            samples differ.
    """
    args, kwargs = _arguments(_with_tensors(example))
    if not named_tensors([*args, *kwargs.values()], "input"):
        raise UsageError(
            f"there is no tensor in the example inputs: {shown(example)}",
            where="example_inputs",
            hint="give what forward takes: a tensor, such as torch.zeros(2, 3, 32, 32), a tuple of "
            "what is given by place, or a dictionary by keyword",
        )
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"the example inputs do not fit the module's forward: {error}",
            where="example_inputs",
            hint=f"forward takes {_parameters(signature)}: give a tuple of these, or a dictionary "
            "by keyword; on the command line each by its name, as in "
            f"--input {next(iter(signature.parameters), 'x')}=2x3x32x32",
        ) from error
    tensors = _by_parameter(bound)
    # The same tensor at two places is two inputs.
    ordered = [t.detach().clone() for t in tensors.values()]
    named = dict(zip(_renamed(list(tensors), names), ordered, strict=True))
    usual = 0 if isinstance(batch_axis, Mapping) else batch_axis
    axes = _axes(named, batch_axis, usual, "batch_axis")
    along = None if isinstance(length_axis, Mapping) else length_axis
    call = ExampleCall(args, kwargs, named, axes, _axes(named, length_axis, along, "length_axis"))
    _check_batch(call)
    _check_length(call)
    return call


def named_tensors(value: Any, name: str) -> dict[str, Tensor]:
    """The tensors of nested tuples and mappings, by the path that leads to each; others are left.

    Args:
        value: argument or result of a module.
        name: of a tensor alone, and the beginning of numbered ones.
    """
    if (fields := fields_of(value)) is not None:
        return {k: t for key, item in fields.items() for k, t in _leaves(item, str(key))}
    return dict(_leaves(value, name))


def left_out(value: Any, name: str = "output") -> list[str]:
    """Names of the values that `named_tensors` leaves out, each with its type."""
    if value is None or isinstance(value, Tensor):
        return []
    if (fields := fields_of(value)) is not None:
        return [line for key, item in fields.items() for line in left_out(item, str(key))]
    if isinstance(value, list | tuple):
        return [x for n, item in enumerate(value) for x in left_out(item, f"{name}_{n}")]
    return [f"{name} ({type(value).__name__})"]


def fields_of(value: Any) -> Mapping[Any, Any] | None:
    """Returns the fields of a mapping, a named tuple or a dataclass by name; None for all else."""
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "_fields"):
        return {key: getattr(value, key) for key in value._fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return None


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif (fields := fields_of(value)) is not None:
        for key, item in fields.items():
            yield from _leaves(item, f"{name}_{key}")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{name}_{number}")


def _filled(value: Any, tensors: Iterator[Tensor]) -> Any:
    """The same structure with the next tensors instead of its own."""
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, Mapping):
        return {key: _filled(item, tensors) for key, item in value.items()}
    if hasattr(value, "_fields"):
        return type(value)(*(_filled(item, tensors) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_filled(item, tensors) for item in value)
    return value


def _tensor(array: np.ndarray) -> Tensor:
    try:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    except TypeError as error:
        raise UsageError(
            f"an array of {array.dtype} is no tensor: {error}",
            where="example_inputs",
            hint="give arrays of numbers, or tensors",
        ) from error


def _with_tensors(value: Any) -> Any:
    """The same structure with tensors instead of arrays."""
    if isinstance(value, np.ndarray):
        return _tensor(value)
    if isinstance(value, Mapping):
        return {key: _with_tensors(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_with_tensors(item) for item in value)
    return value


def _arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    return (example if type(example) is tuple else (example,)), {}


def _by_parameter(bound: inspect.BoundArguments) -> dict[str, Tensor]:
    """The tensors by the name of their parameter, in the order of the call."""
    found: dict[str, Tensor] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        held = value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
        found.update(named_tensors(held, name))
    return found


def _renamed(own: list[str], names: Sequence[str] | None) -> list[str]:
    if names is None:
        return own
    return checked_names(names, len(own), "input_names", ", ".join(own))


def checked_names(names: Sequence[str], count: int, where: str, hint: str) -> list[str]:
    """The names, one for each tensor, none of them empty or repeated.

    Raises:
        UsageError: they are more or fewer, or one is empty, no text, or there twice.
    """
    held = [names] if isinstance(names, str) else list(names)
    odd = [name for name in held if not isinstance(name, str) or not name]
    twice = [name for name, number in Counter(map(str, held)).items() if number > 1]
    said = {
        f"{_counted(len(held), 'name')} given for {_counted(count, 'tensor')}": len(held) != count,
        f"{odd and odd[0]!r} is no name: a name is a text that is not empty": bool(odd),
        f"the name {twice and twice[0]!r} appears twice": bool(twice),
    }
    if wrong := [text for text, holds in said.items() if holds]:
        raise UsageError(wrong[0], where=where, hint=f"give each tensor one name: {hint}")
    return held


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _axes(
    tensors: Mapping[str, Tensor], axes: BatchAxis, usual: int | None, where: str
) -> dict[str, int | None]:
    given = axes if isinstance(axes, Mapping) else {}
    if unknown := sorted(given.keys() - tensors.keys()):
        raise UsageError(
            f"there is no input {unknown[0]!r}",
            where=where,
            hint=f"one of: {', '.join(tensors)}",
        )
    for axis in (usual, *given.values()):
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer | None):
            raise UsageError(
                f"{axis!r} is not the number of a dimension",
                where=where,
                hint="dimensions are counted from 0, or from -1 backwards; None says that an input "
                "has no batch",
            )
    return {k: _axis(k, t.ndim, given.get(k, usual), k in given, where) for k, t in tensors.items()}


def _axis(name: str, rank: int, axis: int | None, is_given: bool, where: str) -> int | None:
    if axis is None or (not rank and not is_given):
        return None
    if not -rank <= axis < rank:
        raise UsageError(
            f"input {name!r} has {rank} dimensions, and none is number {axis}",
            where=where,
            hint="dimensions are counted from 0, or from -1 backwards; None says that an input has "
            "no batch",
        )
    return int(axis) % rank


def _check_batch(call: ExampleCall) -> None:
    sizes = {k: call.tensors[k].shape[a] for k, a in call.axes.items() if a is not None}
    if len(set(sizes.values())) > 1 or 0 in sizes.values():
        said = ", ".join(f"{k} has {n} along dimension {call.axes[k]}" for k, n in sizes.items())
        raise UsageError(
            f"the inputs differ in their number of samples, or have none: {said}",
            where="example_inputs",
            hint="say where the samples lie, such as batch_axis={'h0': 1}, or None for an input "
            "that has no batch",
        )


def _check_length(call: ExampleCall) -> None:
    """Checks that inputs are of one length, which an exporter takes for one that may change.

    Raises:
        UsageError: they are not, or samples lie along the same dimension.
    """
    sizes = {k: call.tensors[k].shape[a] for k, a in call.lengths.items() if a is not None}
    same = [k for k in sizes if call.lengths[k] == call.axes[k]]
    if len(set(sizes.values())) > 1 or min(sizes.values(), default=2) < 2 or same:
        said = ", ".join(f"{k} has {n} along dimension {call.lengths[k]}" for k, n in sizes.items())
        raise UsageError(
            f"the length that is left open is one of 2 or more, beside the samples: {said}",
            where="length_axis",
            hint="give an example of 2 places or more, and its dimension by the name of the input, "
            "such as length_axis={'input_ids': 1}",
        )


def _resized(tensor: Tensor, axis: int | None, size: int) -> Tensor:
    if axis is None:
        return tensor
    rows = torch.arange(size, device=tensor.device) % tensor.shape[axis]
    return tensor.index_select(axis, rows)
