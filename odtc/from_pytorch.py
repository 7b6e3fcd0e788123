"""`odtc.from_torch`; PyTorch itself is imported when it is called."""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from odtc.core.errors import MissingPackageError
from odtc.core.options.arguments import takes
from odtc.core.options.caller_warning import warn_caller
from odtc.core.options.kinds import ANYTHING, PATH, TEXT, either, optional, several

if TYPE_CHECKING:
    import torch

    from odtc.torch_export.export import ExportedModule

# A name alone is that of the only tensor; what names are is looked at where the tensors are known.
_NAMES = optional(
    either(
        TEXT,
        several(ANYTHING, "list of names", ""),
        hint="give a name for each tensor, in order, such as ['image', 'mask']",
    )
)


@takes(
    "odtc.from_torch",
    module=ANYTHING,  # these two are looked at with PyTorch
    example_inputs=ANYTHING,
    path=PATH,
    input_names=_NAMES,
    output_names=_NAMES,
    batch_axis=ANYTHING,
    length_axis=ANYTHING,
)
def from_torch(
    module: "torch.nn.Module",
    example_inputs: Any,
    path: str | os.PathLike[str],
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    batch_axis: int | Mapping[str, int | None] | None = 0,
    length_axis: int | Mapping[str, int | None] | None = None,
) -> "ExportedModule":
    """Writes a PyTorch module as an ONNX file that trains as the module does.

    Dropout and batch normalisation are kept, constants are not folded, and equal tensors are not
    merged. Initializers have the names of the module's `state_dict`: a tensor that has two names in
    the module becomes one initializer, two tensors that are merely equal stay two. The file records
    which of them are parameters, which buffers, and which have several names; parameters that need
    no gradient (`requires_grad=False`) are listed as frozen, and are not trained. Tensors that
    `forward` never reads are in the file, too.

    The number of samples is symbolic, and with `length_axis` so is one length; all other sizes are
    those of the example inputs. Before the file is written, its outputs are compared with the
    module's in inference mode, for two numbers of samples and two lengths, and its weights with the
    module's. The module is left as it was: its modes, buffers, gradients and hooks, and the state
    of the random number generator.

    Args:
        module: module in training mode; submodules in `eval()` mode stay so: their batch
            normalisations use the running statistics, and their dropouts do nothing. If the whole
            module is in `eval()`, it is exported as in `train()`.
        example_inputs: arguments of `forward`: a tensor, a tuple of positional arguments, or a
            dictionary by keyword. Nested tuples and dictionaries of tensors are flattened; anything
            that is not a tensor, such as a flag, becomes a constant. The values do not matter,
            unless the control flow of `forward` depends on them.
        path: path of the new file.
        input_names: names of the input tensors, in order; by default those of the parameters of
            `forward`.
        output_names: names of the output tensors, in order; by default the keys of a dictionary,
            the fields of an object, `output` for a single tensor, and `output_0` and so on for
            several.
        batch_axis: batch dimension, -1 for the last: one number for all inputs, or a dictionary by
            input name, in which None is for an input that has no batch, and inputs that are not
            named have 0. If the argument itself is None, the number of samples is fixed.
        length_axis: another dimension to make symbolic, such as that of tokens: one number for all
            inputs, or a dictionary by input name; inputs that are not named have none.
            `odtc.compile` sets its sizes with `lengths`, or with `shape={"length": 128}`.

    Returns:
        What was exported: inputs, outputs and weights, and assumptions that were made, which are
        also given as a warning.

    Raises:
        MissingPackageError: PyTorch is not installed.
        UsageError: the example inputs, names or axes do not fit.
        UnsupportedError: PyTorch cannot export the module, or the exported model would train
            differently; the message gives the reason for each exporter.
        ModelError: a parameter contains NaN, or is to be trained and has an infinite element.
        OutputError: the file cannot be written.
    """
    require_torch()
    from odtc.torch_export.export import export

    exported = export(
        module,
        example_inputs,
        path,
        input_names=input_names,
        output_names=output_names,
        batch_axis=batch_axis,
        length_axis=length_axis,
    )
    for note in exported.notes:
        warn_caller(f"from_torch: {note}")
    return exported


def require_torch() -> None:
    """Checks that PyTorch is there.

    Raises:
        MissingPackageError: it is not.
    """
    if find_spec("torch") is None:
        raise MissingPackageError(
            "PyTorch is not installed; exporting a module needs it",
            hint="pip install torch onnxscript",
        )
