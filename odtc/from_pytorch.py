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

    Dropout and batch normalisation stay what they are, constants are not folded, equal tensors are
    not merged. Initializers have the names of the module's `state_dict`: a tensor that the module
    has under two names is one, two that are merely equal stay two. The file says which of them are
    parameters, which buffers, and which have several names; parameters that need no gradient
    (`requires_grad=False`) are listed as frozen, and are not trained. What the forward never reads
    is in the file, too.

    The number of samples is left open, and with `length_axis` one length; all other sizes are those
    of the example. Before it is written the file is run beside the module, in inference mode, with
    two numbers of samples and two lengths, and its weights are compared with the module's. The
    module is left as it was: its modes, buffers, gradients and hooks, and the state of the random
    numbers.

    Args:
        module: in training mode; parts that are in `eval()` inside it stay so: their batch
            normalisations scale and shift by the running statistics, and their dropouts let all
            through. If the whole module is in `eval()`, it is exported as it is in `train()`.
        example_inputs: what `forward` takes: a tensor, a tuple of what is given by place, or a
            dictionary by keyword. Tuples and dictionaries of tensors inside are taken apart; what
            is no tensor, such as a flag, is kept as it is. The values do not matter, unless the
            forward looks at them.
        path: of the new file.
        input_names: of the tensors, in order; by default the names of forward's parameters.
        output_names: of the tensors, in order; by default the keys of a dictionary or of an object
            with fields, `output` for a tensor, and `output_0` and so on for several.
        batch_axis: dimension along which the samples lie, -1 for the last: of each input, or by
            name of the input, 0 for those without a name there; None for an input that has no
            batch. With None alone the number of samples is fixed.
        length_axis: dimension whose size is left open, too, such as that of tokens: of each input,
            or by name of the input, none for those without a name there. `odtc.compile` gives it
            its sizes by `lengths`, or by `shape={"length": 128}`.

    Returns:
        What was exported: its inputs and outputs, its weights, and what was assumed, which is a
        warning, too.

    Raises:
        MissingPackageError: PyTorch is not installed.
        UsageError: the example inputs, names or axes do not fit.
        UnsupportedError: PyTorch cannot export the module, or its file would train another one;
            the message says of each exporter why.
        ModelError: a parameter has NaN, or is to be trained and has an infinite element.
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
            "PyTorch is not installed, and a module is exported by it",
            hint="pip install torch onnxscript",
        )
