"""Samples of files of arrays: `.npz`, safetensors, and folders with an `.npy` file for each.

Arrays are those of inputs and labels, by name or as `x` and `y`; or tokens alone, which become rows
for a language model.
"""

import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from odtc.core.artifact.archive import small_directory
from odtc.core.disk.file_kinds import mistaken
from odtc.core.disk.file_limits import MOST_ARRAYS_BYTES
from odtc.core.disk.files import check_the_path, not_a_file
from odtc.core.disk.tensor_file import DamagedError, read_header
from odtc.core.errors import DataError
from odtc.runtime_rpc.data.foreign import READ
from odtc.runtime_rpc.data.mapped import (
    LEAST_BYTES,
    is_mapped,
    mapped_array,
    mapped_member,
    mapped_npy,
)
from odtc.runtime_rpc.data.names import listed
from odtc.runtime_rpc.data.samples import Samples, keys_of, samples_in
from odtc.runtime_rpc.data.text.reading import TOKENS, has_tokens_alone, rows_of_tokens
from odtc.runtime_rpc.data.wanted import Wanted

# Of arrays in memory that are worth to be told.
_SAID_BYTES = 256 << 20
_HINT = "save it with numpy.savez: an array for each input, and the labels as y"

_OBJECTS = (
    "arrays of Python objects are pickles, which can run any code when they are loaded; save "
    "numbers, y.astype(int), or strings, y.astype(str)"
)

# From the names of all arrays of a file to those that are read.
_Choice = Callable[[Collection[str]], Collection[str]]


def read_npz(path: Path, wanted: Wanted) -> Samples:
    """The samples of an `.npz` file; those that are stored stay in it.

    Raises:
        DataError: the file is missing or no `.npz`, an array is missing, or one does not fit.
    """
    arrays, names = _npz_arrays(path, partial(_keys, wanted))
    found = _samples(arrays, names, wanted, path)
    held = [n for n, a in arrays.items() if not is_mapped(a) and a.nbytes >= _SAID_BYTES]
    if not held:
        return found
    note = (
        f"{path}: {listed(held)} are compressed: all of them is held in memory; numpy.savez stores "
        "arrays so that they can stay in their file"
    )
    return replace(found, notes=(*found.notes, note))


def read_tensors(path: Path, wanted: Wanted) -> Samples:
    """The samples of a safetensors file; they stay in it.

    Raises:
        DataError: it is missing or damaged, or does not fit the step.
    """
    arrays, names = _tensor_arrays(path, partial(_keys, wanted))
    return _samples(arrays, names, wanted, path)


def read_folder_of_arrays(path: Path, wanted: Wanted) -> Samples:
    """The samples of a folder with files such as `x.npy` and `y.npy`; they stay in these.

    Raises:
        DataError: one is damaged, or they do not fit the step.
    """
    arrays, names = _folder_arrays(path, partial(_keys, wanted))
    return _samples(arrays, names, wanted, path)


def arrays_in(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an `.npz` file, a safetensors file or a folder of `.npy` files, by name.

    Raises:
        DataError: it cannot be read.
    """
    read = _npz_arrays
    if path.is_dir():
        read = _folder_arrays
    elif path.suffix.lower() == ".safetensors":
        read = _tensor_arrays
    return read(path, lambda names: names)[0]


def _tensor_arrays(path: Path, choose: _Choice) -> tuple[dict[str, np.ndarray], list[str]]:
    """The tensors that are read, and the names of all."""
    if not path.is_file():
        raise DataError(
            f"the data file {not_a_file(path)}", where=str(path), hint=check_the_path(path)
        )
    try:
        with open(path, "rb") as file:
            header = read_header(file)
    except (DamagedError, OSError) as error:
        raise mistaken(path, "file of arrays", DataError) or DataError(
            f"not a readable safetensors file ({error})", where=str(path), hint="write it again"
        ) from error
    keys = choose(header.entries)
    arrays = {}
    for name, entry in header.entries.items():
        if name in keys and 0 not in entry.shape:
            array = mapped_array(path, header.start + entry.begin, entry.dtype, entry.shape)
            arrays[name] = array if array.nbytes >= LEAST_BYTES else np.array(array)
    return arrays, [*header.entries]


def _folder_arrays(path: Path, choose: _Choice) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays that are read, and the names of all."""
    files = {each.stem: each for each in sorted(path.glob("*.npy"))}
    arrays = {}
    for name in choose(files):
        if name in files:
            try:
                arrays[name] = mapped_npy(files[name])
            except (ValueError, OSError, EOFError) as error:
                raise DataError(
                    f"not a readable .npy file ({error})",
                    where=str(files[name]),
                    hint="save it with numpy.save",
                ) from error
    return arrays, [*files]


def _keys(wanted: Wanted, names: Collection[str]) -> set[str]:
    """The names of the arrays that are read."""
    if has_tokens_alone(names, wanted):
        return {TOKENS}
    return keys_of(wanted.inputs, wanted.read_labels, names)


def _samples(
    arrays: Mapping[str, np.ndarray], names: Sequence[str], wanted: Wanted, path: Path
) -> Samples:
    if TOKENS in arrays and has_tokens_alone(names, wanted):
        return rows_of_tokens(arrays[TOKENS], wanted, str(path))
    return samples_in(arrays, names, wanted, str(path))


def _npz_arrays(path: Path, choose: _Choice) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays that are read, and the names of all.

    Raises:
        DataError: the file is missing or no `.npz`.
    """
    if not os.path.isfile(path):
        raise DataError(
            f"the data file {not_a_file(path)}", where=str(path), hint=check_the_path(path)
        )
    if error := mistaken(path, "file of arrays", DataError):
        raise error
    if not zipfile.is_zipfile(path):
        hint = _HINT if path.suffix.lower() == ".npz" else f"read are {READ}"
        raise DataError("not an .npz file", where=str(path), hint=hint)
    try:
        with (
            small_directory(path, MOST_ARRAYS_BYTES) as file,
            np.load(file, allow_pickle=False) as archive,
        ):
            file.opened()
            names = archive.files
            keys = choose(names)
            arrays = {name: _read(path, archive, name) for name in names if name in keys}
    except (
        *(zipfile.BadZipFile, zlib.error),
        *(AttributeError, EOFError, OSError, RuntimeError, SyntaxError, TypeError, ValueError),
    ) as error:
        hint = _OBJECTS if "Object arrays" in str(error) else _HINT
        raise DataError(
            f"not a readable .npz file ({error})", where=str(path), hint=hint
        ) from error
    return {name: a for name, a in arrays.items() if isinstance(a, np.ndarray)}, names


def _read(path: Path, archive: "np.lib.npyio.NpzFile", name: str) -> np.ndarray:
    """An array of a file, which stays there if it can."""
    members = archive.zip
    is_array = members is not None and f"{name}.npy" in members.NameToInfo
    mapped = mapped_member(path, members, name) if members and is_array else None
    return archive[name] if mapped is None else mapped
