"""Files of predictions: `.npy`, `.npz` and CSV, written while they are made."""

import csv
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from odtc.core.artifact.manifest import Evaluation
from odtc.core.disk.files import atomic_write
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.ir.place import Place
from odtc.runtime_rpc.predictions.parts import joined
from odtc.runtime_rpc.predictions.table import FILE, Table

NPY, NPZ, CSV = ".npy", ".npz", ".csv"
ENDINGS = (NPY, NPZ, CSV)

# The outputs of some samples, by name.
Parts = Iterable[Mapping[str, np.ndarray]]


def write_array(path: Path, parts: Parts, evaluation: Evaluation, samples: int) -> None:
    """Writes an output as an `.npy` file, a part at a time where samples lie along one axis.

    Raises:
        OutputError: the file cannot be written.
    """
    with atomic_write(path) as temporary:
        gathered = _Gathered(temporary, evaluation, samples)
        for part in parts:
            gathered.add(part[evaluation.output.name])
        gathered.end()


def write_arrays(
    path: Path,
    parts: Parts,
    evaluated: Sequence[Evaluation],
    samples: int,
    sample_names: Sequence[str],
) -> None:
    """Writes outputs by their names as an `.npz` file, with the names of samples as `file`.

    Raises:
        OutputError: the file cannot be written.
    """
    with atomic_write(path) as temporary, temporary_folder() as folder:
        files = {each.output.name: folder / f"{n}.npy" for n, each in enumerate(evaluated)}
        held = {
            each.output.name: _Gathered(files[each.output.name], each, samples)
            for each in evaluated
        }
        for part in parts:
            for name, array in part.items():
                held[name].add(array)
        for each in held.values():
            each.end()
        if sample_names and FILE not in files:
            files[FILE] = folder / "names.npy"
            np.save(files[FILE], np.array(sample_names))
        # numpy.savez has arguments of its own, which an output may be called as.
        with zipfile.ZipFile(temporary, "w") as archive:
            for name, file in files.items():
                with (
                    open(file, "rb") as held,
                    archive.open(f"{name}.npy", "w", force_zip64=True) as member,
                ):
                    shutil.copyfileobj(held, member)


def write_table(path: Path, rows: Iterable[Sequence[str]], table: Table) -> None:
    """Writes a table as CSV, in UTF-8.

    Raises:
        OutputError: the file cannot be written.
    """
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as to:
        writer = csv.writer(to, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(rows)


def rows_of(parts: Parts, table: Table) -> Iterator[list[str]]:
    """The rows of all samples."""
    first = 0
    for part in parts:
        array = part[table.name]
        yield from table.rows(array, first)
        first += len(array)


class _Gathered:
    """An output that is put into a file of all samples.

    Args:
        path: of the `.npy` file.
        evaluation: of the output.
        samples: how many there are.
    """

    def __init__(self, path: Path, evaluation: Evaluation, samples: int) -> None:
        self._path, self._evaluation, self._samples = path, evaluation, samples
        self._file: np.memmap | None = None
        self._done = 0
        # Where samples are no neighbours in the file.
        self._parts: list[np.ndarray] = []

    def add(self, part: np.ndarray) -> None:
        """Puts some samples behind the others."""
        place = self._evaluation.place
        if place is None or place != Place(place.axis):
            self._parts.append(part)
            return
        if self._file is None:
            shape = place.shape_of(part.shape, self._samples)
            self._file = np.lib.format.open_memmap(self._path, "w+", part.dtype, shape)
        count = place.count(part.shape)
        self._file[(slice(None),) * place.axis + (slice(self._done, self._done + count),)] = part
        self._done += count

    def end(self) -> None:
        """Writes what is not written yet."""
        if self._file is not None:
            self._file.flush()
            self._file = None
            return
        with open(self._path, "wb") as file:
            np.save(file, joined(self._parts, self._evaluation))
