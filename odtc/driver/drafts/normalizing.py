"""What a user says of a normalisation, read: numbers, a text, or data to compute them from."""

import os

import onnx

from odtc.core.process.progress import Progress, silent
from odtc.frontend.inputs.normalization import NAMED, Normalize, parse_normalization
from odtc.frontend.inputs.normalize_input import normalize_input
from odtc.runtime_rpc.data.moments import moments_of


def as_normalize(
    given: Normalize | str | os.PathLike[str] | None, progress: Progress = silent
) -> Normalize | None:
    """The normalisation; that of data has the data's own means and deviations.

    Args:
        given: what a user says.
        progress: is told now and then how much of the data was read.

    Raises:
        DataError: the data cannot be read, or has neither pixels nor rows.
        UsageError: the text is malformed.
    """
    if given is None or isinstance(given, Normalize):
        return given
    text = os.fspath(given)
    if text in NAMED or not os.path.exists(text):
        return parse_normalization(text)
    found = moments_of(text, progress)
    return Normalize(found.means, found.deviations, columns=found.columns)


def normalized_by(
    given: Normalize | str | os.PathLike[str] | None, model: onnx.ModelProto
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Normalises an input of a model, in place; nothing where none is asked for.

    Returns:
        The input's name with how, and with the names of its columns, where these are known.

    Raises:
        OdtcError: see `as_normalize` and `normalize_input`.
    """
    read = as_normalize(given)
    said = normalize_input(model, read) if read else {}
    return said, {name: tuple(read.columns) for name in said} if read and read.columns else {}
