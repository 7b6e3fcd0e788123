"""Exports a module to a file: exported, named, completed, and compared with the module."""

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import helper
from torch import Tensor, jit, nn, no_grad
from torch.nn import parameter

from odtc.core.disk.files import check_writable, disk_full, disk_is_full
from odtc.core.errors import OdtcError, UnsupportedError, UsageError
from odtc.core.onnx_model.large_files import said_of
from odtc.core.onnx_model.placed_weights import PlacedModel
from odtc.core.onnx_model.running_variance import write_unbiased
from odtc.core.onnx_model.weight_list import WeightList, write_weight_list
from odtc.core.options.kinds import shown
from odtc.core.printable import counted
from odtc.core.process.trim import trim
from odtc.frontend.file.onnx_file import check_model
from odtc.torch_export.calls import (
    BatchAxis,
    ExampleCall,
    Flat,
    checked_names,
    example_call,
    left_out,
    named_tensors,
)
from odtc.torch_export.experts import experts_of_each_token
from odtc.torch_export.exporters import BATCH, EXPORTERS, LENGTH, Request
from odtc.torch_export.names import listed
from odtc.torch_export.stand_ins import stand_ins
from odtc.torch_export.tidy import tidy
from odtc.torch_export.verify import compare, results
from odtc.torch_export.watching.gradients import (
    check_embeddings,
    frozen,
    padding_notes,
    stopped,
    stops_of,
)
from odtc.torch_export.watching.kept import kept, quiet
from odtc.torch_export.watching.mixing import mixing_notes
from odtc.torch_export.watching.watch import ForwardFacts, Watch, check_draws, decisions_refused
from odtc.torch_export.weights import (
    check_changes,
    check_finite,
    check_norms,
    complete,
    initializer_names,
    weight_list,
)

# ONNX's name for the dimension along which the samples lie.
_DENOTATION = "DATA_BATCH"
_LONGEST_REASON = 400
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class ExportedModule:
    """The result of an export.

    Attributes:
        path: of the ONNX file.
        inputs: names of the inputs, each with its text, such as `float32[batch, 3, 32, 32]`.
        outputs: the same of the outputs.
        weights: parameters, buffers and ties.
        exporter: the exporter of PyTorch's that wrote the graph.
        notes: assumptions that were made, for the user to read.
    """

    path: Path
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    weights: WeightList
    exporter: str
    notes: tuple[str, ...] = ()

    def __fspath__(self) -> str:
        """The path: `odtc.compile(odtc.from_torch(...))` compiles the file."""
        return str(self.path)


@dataclass(frozen=True)
class _Work:
    """The inputs of all exporters, and the values that their results are compared with.

    Attributes:
        module: in the modes in which it is exported.
        calls: with different numbers of samples, if they have a batch.
        shapes: of the outputs of each call while the module trains.
        expected: the outputs of each call in inference mode.
        outputs: names of the outputs.
        weights: parameters, buffers and ties.
        seen: of a forward in training.
    """

    module: nn.Module
    calls: tuple[ExampleCall, ...]
    shapes: tuple[list[tuple[int, ...]], ...]
    expected: tuple[Mapping[str, Tensor], ...]
    outputs: list[str]
    weights: WeightList
    seen: ForwardFacts


def export(
    module: nn.Module,
    example_inputs: Any,
    path: str | os.PathLike[str],
    *,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    batch_axis: BatchAxis,
    length_axis: BatchAxis,
) -> ExportedModule:
    """Exports a module; see `odtc.from_torch`."""
    if not isinstance(module, nn.Module):
        raise UsageError(
            f"module is {shown(module)}, not a torch.nn.Module",
            where="odtc.from_torch",
            hint="give a module, such as torchvision.models.resnet18()",
        )
    module = getattr(module, "_orig_mod", module)  # what torch.compile wraps
    _check_module(module)
    check_finite(module)
    check_writable(path)
    call = example_call(module, example_inputs, input_names, batch_axis, length_axis)
    notes: list[str] = []
    with kept(module):
        if not module.training:
            module.train()
            notes.append("the module was in eval(): it is exported as it is in train()")
        check_norms(module)
        check_embeddings(module)
        weights = weight_list(module)
        calls = _calls(call)
        with quiet():
            said = [each.beside(call) + _of_a_list(example_inputs) for each in calls]
            trained = [_called_in_training(module, *each) for each in zip(calls, said, strict=True)]
            value, seen = trained[0]
            own, lost = list(named_tensors(value, "output")), left_out(value)
            shapes = tuple(
                [tuple(t.shape) for t in named_tensors(v, "").values()] for v, _ in trained
            )
            del trained, value  # logits of a language model are large
            expected = tuple(
                _called(lambda c=c: results(module, c), text)
                for c, text in zip(calls, said, strict=True)
            )
            stops = _called(lambda: stops_of(module, calls[0], weights), said[0])
            trim()  # of activations
            notes += mixing_notes(module, calls, expected)
        names = own if output_names is None else _given(output_names, own)
        _check_names(call.tensors, names, weights)
        notes += [f"left out, as it is no tensor: {what}" for what in lost]
        work = _Work(module, calls, shapes, expected, names, weights, seen)
        with experts_of_each_token(module) as said_of_experts:
            placed, exporter = _exported(work)
        notes += said_of_experts
        notes += [*padding_notes(module), *stops.notes()]
    model = placed.model
    if still := stopped(model, stops.parameters):
        weights = frozen(weights, still)
        notes.append(f"the module stops their gradient, and they are frozen: {listed(still)}")
    write_weight_list(model, weights)
    write_unbiased(model)
    if placed.save(path):
        notes.append(said_of(path))
    if weights.frozen:
        still = counted(len(weights.frozen), "parameter is frozen", "parameters are frozen")
        notes.append(f"{still}, and not trained")
    return ExportedModule(
        Path(path),
        _texts(model.graph.input),
        _texts(model.graph.output),
        weights,
        exporter,
        tuple(notes),
    )


def _of_a_list(example_inputs: Any) -> str:
    """Hint for an error text: a list is one argument, while a tuple has one for each."""
    return "; a list is one argument of forward: give a tuple" * isinstance(example_inputs, list)


def _check_module(module: nn.Module) -> None:
    """Checks that there is a module with weights to export.

    Raises:
        UsageError: it is scripted, or its weights are not made yet.
    """
    if isinstance(module, jit.ScriptModule):
        raise UsageError(
            "the module is scripted",
            where="module",
            hint="give the nn.Module that torch.jit.script or torch.jit.load was for",
        )
    tensors = [*module.parameters(), *module.buffers()]
    if any(parameter.is_lazy(tensor) or tensor.is_meta for tensor in tensors):
        raise UsageError(
            "the module has weights without values: lazy ones, or on the meta device",
            where="module",
            hint="call it once, or load its weights",
        )


def _calls(call: ExampleCall) -> tuple[ExampleCall, ...]:
    """The call with two samples or more, with another number of them, and with another length.

    Exporters take a batch of one for a dimension that is always one, and batch normalisation
    cannot train on it.
    """
    calls = [call]
    if call.batch is not None:
        size = max(2, call.batch)
        calls = [call.with_batch(size), call.with_batch(size + 1)]
    if call.length is not None:
        # A module may have no more places than its example.
        calls.append(calls[0].with_length(call.length - 1 if call.length > 2 else 3))
    return tuple(calls)


def _called_in_training(
    module: nn.Module, call: ExampleCall, said: str
) -> tuple[Any, ForwardFacts]:
    """Calls the module in training mode; returns its result and observations. See `_called`."""
    before = {name: t.clone() for name, t in module.named_buffers(remove_duplicate=False)}
    with kept(module), no_grad(), Watch() as watch:
        value = _called(lambda: module(*call.args, **call.kwargs), said)
        check_changes(module, before)
    if not named_tensors(value, "output"):
        raise UsageError("the module returns no tensor", where="module", hint="let it return one")
    return value, watch.seen


def _called(forward: Callable[[], Any], said: str) -> Any:
    """Calls a forward and returns its result.

    Args:
        forward: may fail in the module.
        said: clause about its inputs, appended to the reason.

    Raises:
        UsageError: it fails.
    """
    try:
        return forward()
    except (MemoryError, OdtcError):
        raise
    except Exception as error:
        raise UsageError(
            f"the module fails on the example inputs: {_brief(error)}{said}",
            where="example_inputs",
            hint="odtc calls it with two samples or more, in train() and in eval(); where these "
            "lie along another dimension, say so by batch_axis; where it takes one number of "
            "samples alone, give that and batch_axis=None (--fixed-batch)",
        ) from error


def _given(names: Sequence[str], own: list[str]) -> list[str]:
    return checked_names(names, len(own), "output_names", ", ".join(own))


def _check_names(inputs: Mapping[str, Tensor], outputs: Sequence[str], weights: WeightList) -> None:
    """Checks that no name is used twice.

    Raises:
        UsageError: one does.
    """
    held = {*weights.initializers, *weights.ties}
    twice = sorted((held & inputs.keys()) | (held & set(outputs)) | (inputs.keys() & set(outputs)))
    if twice:
        raise UsageError(
            f"{twice[0]!r} is the name of an input, an output or a weight, and of another one",
            where="input_names, output_names",
            hint="give the inputs or outputs other names",
        )


def _exported(work: _Work) -> tuple[PlacedModel, str]:
    """The file of the first exporter whose file computes what the module does, and its name.

    Raises:
        UnsupportedError: there is none.
        OutputError: the disk is full.
    """
    reasons = []
    for name, exporter in EXPORTERS.items():
        try:
            return _tried(work, exporter), name
        except MemoryError:
            raise
        except Exception as error:
            # Exporters and the check of their files write to the folder for temporary files.
            if isinstance(error, OSError) and disk_is_full(error):
                raise disk_full(error, tempfile.gettempdir()) from error
            reasons.append(f"{name}: {_brief(error)}")
        trim()  # of what it has built; what it was given is as it was
    raise UnsupportedError(
        "no exporter of PyTorch's writes this module as it is:\n    " + "\n    ".join(reasons),
        where="module",
        hint="leave out of forward what the messages name; let it read the same weights in train() "
        "and in eval(), where it goes by self.training; or give batch_axis=None (--fixed-batch) "
        "where the number of samples is fixed",
    )


def _tried(work: _Work, exporter: Callable[[Request], PlacedModel]) -> PlacedModel:
    """An exporter's file, after a check that it computes what the module does.

    Raises:
        Exception: it is not, or the exporter failed.
    """
    call, module = work.calls[0], work.module
    flat = Flat(module, call)
    with quiet():
        with kept(module), stand_ins(module), decisions_refused(work.seen):
            placed = exporter(Request(flat, call.tensors, call.axes, call.lengths))
        trim()  # of the exporter's own graphs
        model = placed.model
        tidy(model, initializer_names(module), work.outputs)
        complete(placed, module, work.weights, call)
        check_draws(model, work.seen)
        _declare(model, work)
        check_model(model, "the exported file")
        compare(placed, work.calls, work.expected, work.seen.kinds)
    return placed


def _declare(model: onnx.ModelProto, work: _Work) -> None:
    """Gives inputs and outputs their shapes: batch and length have names, all else a size."""
    call = work.calls[0]
    for value in model.graph.input:
        shape: list[int | str | None] = [*call.tensors[value.name].shape]
        for axes, name in ((call.axes, BATCH), (call.lengths, LENGTH)):
            if (axis := axes[value.name]) is not None:
                shape[axis] = name
        _set_shape(value, shape)
    for value, *seen in zip(model.graph.output, *work.shapes, strict=True):
        _set_shape(value, _followed(seen, work.calls))


def _followed(
    seen: Sequence[tuple[int, ...]], calls: Sequence[ExampleCall]
) -> Sequence[int | str | None]:
    """The shape of an output from those of all calls; None where it goes with a size otherwise."""
    first, one = calls[0], seen[0]
    shape: list[int | str | None] = [*one]
    for call, other in zip(calls[1:], seen[1:], strict=True):
        is_length = call.length != first.length
        sizes = (first.length, call.length) if is_length else (first.batch, call.batch)
        for axis, found in enumerate(zip(one, other, strict=True)):
            if found[0] != found[1]:
                is_followed = found == sizes and shape[axis] == one[axis]
                shape[axis] = (LENGTH if is_length else BATCH) if is_followed else None
    return shape


def _set_shape(value: onnx.ValueInfoProto, shape: Sequence[int | str | None]) -> None:
    kind = value.type.tensor_type.elem_type
    value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shape))
    batch = [axis for axis, size in enumerate(shape) if size == BATCH]
    if len(batch) == 1:
        value.type.tensor_type.shape.dim[batch[0]].denotation = _DENOTATION


def _texts(values: Sequence[onnx.ValueInfoProto]) -> dict[str, str]:
    found = {}
    for value in values:
        tensor = value.type.tensor_type
        sizes = [dim.dim_param or str(dim.dim_value or "?") for dim in tensor.shape.dim]
        kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
        found[value.name] = f"{kind}[{', '.join(sizes)}]"
    return found


def _brief(error: BaseException) -> str:
    """The beginning of the root cause's message."""
    while error.__cause__ is not None:
        error = error.__cause__
    said = error.what if isinstance(error, OdtcError) else str(error)
    text = " ".join(_COLOUR.sub("", said).strip().split("\n\n")[0].split())
    named = text if isinstance(error, OdtcError) else f"{type(error).__name__}: {text}"
    return named if len(named) <= _LONGEST_REASON else f"{named[:_LONGEST_REASON]}..."
