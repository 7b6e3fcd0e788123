"""Samples of safetensors files, and of folders with an `.npy` file for each input and label."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from odtc.core.disk.file_kinds import mistaken
from odtc.core.disk.files import not_a_file
from odtc.core.disk.tensor_file import DamagedError, read_header
from odtc.core.errors import DataError
from odtc.core.specs import Argument
from odtc.runtime_rpc.data.mapped import LEAST_BYTES, mapped_array, mapped_npy
from odtc.runtime_rpc.data.samples import Samples, keys_of, samples_in


def read_tensors(path: Path, inputs: Sequence[Argument], labels: Sequence[Argument]) -> Samples:
    """The samples of a safetensors file, by name or as `x` and `y`; they stay in it.

    Raises:
        DataError: it is missing or damaged, or does not fit the step.
    """
    if not path.is_file():
        raise DataError(f"the data file {not_a_file(path)}", where=str(path), hint="check the path")
    try:
        with open(path, "rb") as file:
            header = read_header(file)
    except (DamagedError, OSError) as error:
        raise mistaken(path, "file of arrays", DataError) or DataError(
            f"not a readable safetensors file ({error})", where=str(path), hint="write it again"
        ) from error
    wanted = keys_of(inputs, labels, header.entries)
    arrays = {}
    for name, entry in header.entries.items():
        if name in wanted and 0 not in entry.shape:
            array = mapped_array(path, header.start + entry.begin, entry.dtype, entry.shape)
            arrays[name] = array if array.nbytes >= LEAST_BYTES else np.array(array)
    return samples_in(arrays, [*header.entries], inputs, labels, str(path))


def read_folder_of_arrays(
    path: Path, inputs: Sequence[Argument], labels: Sequence[Argument]
) -> Samples:
    """The samples of a folder with files such as `x.npy` and `y.npy`; they stay in these.

    Raises:
        DataError: one is damaged, or they do not fit the step.
    """
    files = {each.stem: each for each in sorted(path.glob("*.npy"))}
    arrays = {}
    for name in keys_of(inputs, labels, files):
        if name in files:
            try:
                arrays[name] = mapped_npy(files[name])
            except (ValueError, OSError, EOFError) as error:
                raise DataError(
                    f"not a readable .npy file ({error})",
                    where=str(files[name]),
                    hint="save it with numpy.save",
                ) from error
    return samples_in(arrays, [*files], inputs, labels, str(path))
