"""Parquet files as tables, of the columns that a step takes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from odtc.core.disk.files import check_the_path, not_a_file
from odtc.core.errors import DataError
from odtc.core.process.missing_packages import require_packages
from odtc.runtime_rpc.data.tables.cells import check_type, is_text, value_type
from odtc.runtime_rpc.data.tables.columns import COLUMNS
from odtc.runtime_rpc.data.tables.parquet_pages import check_pages, chunks_of
from odtc.runtime_rpc.free_memory import available_bytes

if TYPE_CHECKING:
    from pyarrow import Field, Schema, Table
    from pyarrow.parquet import ColumnChunkMetaData as Chunk

# About what a word takes, as text of Arrow and as one of numpy; `check_pages` bounds it.
_WORD_BYTES = 64


def parquet_table(
    path: Path, choose: Callable[["Schema"], Sequence[str]], words: Sequence[str] = ()
) -> "Table":
    """The columns of a file that are chosen of the names of all.

    Args:
        path: of the file.
        choose: is told all names, with their types.
        words: those of the chosen ones that may hold words; all others hold numbers.

    Raises:
        DataError: it is missing or damaged, a column has no numbers, or it becomes more than the
            memory that is left.
        MissingPackageError: pyarrow is not installed.
    """
    if not path.is_file():
        raise DataError(
            f"the data file {not_a_file(path)}", where=str(path), hint=check_the_path(path)
        )
    require_packages("pyarrow")
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            used = [schema.field(name) for name in choose(schema)]
            for field in used:
                check_type(field.name, field.type, str(path), may_be_text=field.name in words)
            chunks = chunks_of(file.metadata, [each.name for each in used])
            _check_memory(file.metadata.num_rows, used, chunks, path)
            check_pages(path, file.metadata, chunks.keys())
            return file.read([each.name for each in used])
    except (ArrowException, OSError) as error:
        said = str(error).splitlines()[0]
        raise DataError(
            f"not a readable Parquet file ({said})", where=str(path), hint=COLUMNS
        ) from error


def _check_memory(
    rows: int, fields: "Sequence[Field]", chunks: "Mapping[str, Sequence[Chunk]]", path: Path
) -> None:
    """Checks what a small file may become: a column of one number takes some bytes there.

    Raises:
        DataError: it is more than this machine has left.
    """
    types = [value_type(each.type) for each in fields]
    sizes = [_WORD_BYTES if is_text(each) else max(each.bit_width // 8, 1) for each in types]
    counts = [sum(chunk.num_values for chunk in chunks[each.name]) for each in fields]
    # The columns, and beside them the array that they become.
    widest = max(sizes, default=0)
    size = sum(count * (own + widest) for count, own in zip(counts, sizes, strict=True))
    try:
        left = available_bytes()
    except OSError:
        # A system that does not say it.
        return
    if size > left:
        raise DataError(
            f"{rows} rows of {len(fields)} columns take {size >> 20} MiB; {left >> 20} MiB of "
            "memory are left",
            where=str(path),
            hint="save the columns as arrays, as x.npy and y.npy of a folder: these stay in their "
            "files",
        )
