"""Reads an ONNX file and says clearly what is wrong with it."""

import os
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import version_converter
from onnx.external_data_helper import load_external_data_for_model
from onnx.version_converter import ConvertError

from odtc.core.disk.file_kinds import mistaken
from odtc.core.disk.files import check_the_path, not_a_file
from odtc.core.errors import ModelError, UnsupportedError
from odtc.core.onnx_model.weight_places import FLOATS
from odtc.frontend.file.bodies import require_counts
from odtc.frontend.file.external_claims import require_claims
from odtc.frontend.file.float_lists import floats_as_tensors
from odtc.frontend.file.function_weights import without_function_weights
from odtc.frontend.file.inline_functions import inline_functions
from odtc.frontend.file.model_text import require_text
from odtc.frontend.file.node_order import sort_nodes
from odtc.frontend.file.weight_names import name_weights
from odtc.frontend.graph import MAIN_DOMAINS
from odtc.frontend.weights.exporters.restore import restore, untangle_names
from odtc.frontend.weights.in_file import read_in_file, require_size

# Broadcasting became that of NumPy.
OLDEST_OPSET = 7
# Since this version of the IR, initializers need not be inputs.
FREE_INITIALIZERS = 4
_EXPORT_HINT = "export the model again, and check that the file was copied whole"
_COPY_HINT = "ONNX reads no data through links: copy the files themselves, with cp -rL FOLDER COPY"
# What ONNX says of files with external data, and what to do about it. All files in the cache of
# Hugging Face's hub are links.
_DATA_HINTS = {
    "symbolic link": _COPY_HINT,
    "hard links": _COPY_HINT,
    "not regular file": "its weights are in a separate file, which must be next to it under "
    "the name that it was exported with: copy or download both files",
    "exceeds available data": "the file with its weights was not copied whole: copy it again",
    "points outside": "export the model with its data in the model's own folder",
}


def load_model(path: str | os.PathLike[str], *, in_file: bool = False) -> onnx.ModelProto:
    """Reads and checks an ONNX model; external data is looked up in the model's folder only.

    Parameters that the exporter merged are separate again:
    `odtc.frontend.weights.exporters.restore`.

    Args:
        path: of the file.
        in_file: whether the elements of large tensors may stay in the file: `array_of` reads them.

    Raises:
        ModelError: the file is missing, empty, truncated, not ONNX, or breaks the ONNX standard.
        UnsupportedError: an initializer is sparse.
    """
    file = Path(path)
    if not os.path.isfile(file):
        raise ModelError(
            f"the model file {not_a_file(file)}", where=str(file), hint=check_the_path(file)
        )
    if file.stat().st_size == 0:
        raise ModelError("the model file is empty (0 bytes)", where=str(file), hint=_EXPORT_HINT)
    try:
        model = read_in_file(file) if in_file else _read_whole(file)
        if in_file and (model.functions or _is_old(model)):
            # ONNX's own code is to make another model of it, and elements go with that.
            model = _read_whole(file)
    except (DecodeError, onnx.checker.ValidationError, OSError, ValueError) as error:
        raise mistaken(file, "ONNX model", ModelError) or _unreadable(file, error) from error
    require_text(model, str(file))
    untangle_names(model)
    sort_nodes(model.graph)
    check_model(model, str(file))
    require_counts(model)
    for part in (model.graph, *model.functions):
        floats_as_tensors(part.node)
    model = without_function_weights(model)
    name_weights(model)
    restore(model)
    _require_dense(model)
    return model


def _unreadable(file: Path, error: Exception) -> ModelError:
    """Of the model, or of a file with its external data."""
    hint = next((hint for words, hint in _DATA_HINTS.items() if words in str(error)), None)
    what = "the model's external data cannot be read" if hint else "not a readable ONNX file"
    return ModelError(f"{what} ({_brief(error)})", where=str(file), hint=hint or _EXPORT_HINT)


def _read_whole(file: Path) -> onnx.ModelProto:
    """The model with all external data, once that is no more than it should be.

    Raises:
        DecodeError, OSError, ValueError, ValidationError: as of `onnx.load`.
        ModelError: a tensor claims too much.
    """
    require_size(file)
    model = onnx.load(file, format="protobuf", load_external_data=False)
    require_claims(model, file)
    load_external_data_for_model(model, os.fspath(file.absolute().parent))
    return model


def _require_dense(model: onnx.ModelProto) -> None:
    """Checks that no initializer is sparse.

    Raises:
        UnsupportedError: one is: an update would fill it.
    """
    for tensor in model.graph.sparse_initializer:
        raise UnsupportedError(
            "the initializer is sparse, and odtc trains dense tensors",
            where=f"initializer {tensor.values.name}",
            hint="store it as a dense initializer; its zeros are trained then, too",
        )


def check_model(model: onnx.ModelProto, where: str) -> None:
    """Checks that the model keeps to the ONNX standard and has a graph to train.

    Raises:
        ModelError: it does not, or its graph is empty.
    """
    if not model.graph.node or not model.graph.output:
        raise ModelError("not an ONNX model: it holds no graph", where=where, hint=_EXPORT_HINT)
    for tensor in model.graph.initializer:
        # NumPy would take -1 for what is left over; ONNX's checker is not shown the weights.
        if min(tensor.dims, default=0) < 0:
            raise ModelError(
                f"the shape of an initializer is damaged: {list(tensor.dims)}",
                where=f"initializer {tensor.name}",
                hint=_EXPORT_HINT,
            )
    try:
        onnx.checker.check_model(_without_weights(model))
    except (onnx.checker.ValidationError, UnicodeDecodeError) as error:
        raise ModelError(
            f"the model breaks the ONNX standard: {_brief(error)}", where=where, hint=_EXPORT_HINT
        ) from error


def modern(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in a form that odtc reads: no functions of its own, and no operator set before 7.

    Raises:
        ModelError: the functions call each other without end, or come to too much, or ONNX cannot
            convert the model.
    """
    try:
        model = inline_functions(model)
        if _is_old(model):
            model = version_converter.convert_version(_of_modern_ir(model), OLDEST_OPSET)
    except (onnx.checker.ValidationError, ConvertError, RuntimeError, ValueError) as error:
        raise ModelError(
            f"the model's functions, or its old operators, cannot be resolved: {_brief(error)}",
            hint=f"export it with opset {OLDEST_OPSET} or later, and without functions",
        ) from error
    return model


def _is_old(model: onnx.ModelProto) -> bool:
    """Whether its operator set has to be converted."""
    return _declares_opset(model) and opset_of(model) < OLDEST_OPSET


def _declares_opset(model: onnx.ModelProto) -> bool:
    """Whether the model names a version of the default operators; it need not, if it has none."""
    return any(item.domain in MAIN_DOMAINS for item in model.opset_import)


def _of_modern_ir(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as one whose initializers need not be inputs; they often are not, whatever its IR.

    Before that version, ONNX's converter takes an initializer that is no input for undefined.
    """
    if model.ir_version >= FREE_INITIALIZERS:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = FREE_INITIALIZERS
    return copy


def opset_of(model: onnx.ModelProto) -> int:
    """Version of the default operator set; 1 where the model names none."""
    return next((item.version for item in model.opset_import if item.domain in MAIN_DOMAINS), 1)


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose float initializers are inputs: checks need shapes, not gigabytes."""
    slim = onnx.ModelProto()
    # Older files whose initializers are no inputs are read by everybody.
    slim.ir_version = max(model.ir_version, FREE_INITIALIZERS) if model.ir_version else 0
    slim.opset_import.extend(model.opset_import)
    slim.functions.extend(model.functions)
    graph = slim.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.sparse_initializer.extend(model.graph.sparse_initializer)
    declared = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.data_type not in FLOATS:
            graph.initializer.append(tensor)
        elif tensor.name not in declared:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return slim


def _brief(error: Exception) -> str:
    """The first line of an error's text, cut to a readable length."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
