"""CSV files as tables: their separators, their encoding, and those that are compressed."""

import codecs
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from odtc.core.disk.files import check_the_path, not_a_file
from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.core.process.missing_packages import require_packages
from odtc.runtime_rpc.data.tables.columns import COLUMNS
from odtc.runtime_rpc.free_memory import available_bytes

if TYPE_CHECKING:
    from pyarrow import Table

# Endings of compressed files, and what pyarrow calls the compression.
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_PLAIN = (".csv", ".tsv")
CSV_ENDINGS = (*_PLAIN, *(f"{plain}{each}" for plain in _PLAIN for each in _COMPRESSIONS))
"""What the names of such files end with."""
_PIECE = 1 << 20
# Beside the text there will be the columns, and the array that they become.
_TIMES = 4
# As Excel saves "Unicode text".
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_OTHERS = ";\t|"
_LONGEST = 200
# Larger files are read by several threads.
_SERIAL = 8 << 20
_CELLS = (
    "each line has as many cells as the first one, which has the names; a cell with a comma stands "
    'in double quotes: "a, b"'
)


def csv_table(path: Path) -> "Table":
    """The table of a file with a line of names, and a sample in each other line.

    Raises:
        DataError: it is missing or malformed, or becomes more than the memory that is left.
        MissingPackageError: pyarrow is not installed.
    """
    if not path.is_file():
        raise DataError(
            f"the data file {not_a_file(path)}", where=str(path), hint=check_the_path(path)
        )
    require_packages("pyarrow")
    from pyarrow import ArrowInvalid, csv

    separator = "\t" if ".tsv" in [each.lower() for each in path.suffixes] else ","
    try:
        with _opened(path) as file:
            begin = file.read(len(_UTF16[0]))
            encoding = "utf-16" if begin in _UTF16 else "utf-8"
            file.seek(0)
            first = next(codecs.iterdecode(file, encoding, "replace"), "").split("\n")[0]
            _check_names(first.rstrip("\r"), separator, path)
            file.seek(0)
            if not first.strip():
                raise DataError("the file has no line of names", where=str(path), hint=COLUMNS)
            # Without threads an error has the number of its row.
            options = csv.ReadOptions(encoding=encoding, use_threads=path.stat().st_size > _SERIAL)
            table = csv.read_csv(
                file,
                parse_options=csv.ParseOptions(delimiter=separator),
                read_options=options,
            )
        # They are decoded here.
        names = [name.strip() for name in table.column_names]
    except UnicodeDecodeError as error:
        raise not_utf8(path) from error
    except (ArrowInvalid, OSError, EOFError) as error:
        said = printable(str(error).partition("\n")[0] or type(error).__name__)[:_LONGEST]
        hint = _CELLS if isinstance(error, ArrowInvalid) else "write it, or fetch it, again"
        raise DataError(f"not a readable CSV file ({said})", where=str(path), hint=hint) from error
    return table.rename_columns(names)


def not_utf8(path: Path) -> DataError:
    """The error of a file whose text is in another encoding, with its first such line."""
    where = str(path)
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                where = f"{path}, line {number}"
                said = f"the byte 0x{line[error.start]:02x} is not UTF-8"
                break
        else:
            said = "its text is not UTF-8"
    return DataError(
        said,
        where=where,
        hint="save it as UTF-8, such as by `iconv -f LATIN1 -t UTF-8 OLD.csv > NEW.csv`, with the "
        "encoding that it has instead of LATIN1",
    )


def _opened(path: Path) -> IO[bytes]:
    """The bytes of the file, decompressed."""
    import pyarrow as pa

    compression = _COMPRESSIONS.get(path.suffix.lower())
    if compression is None:
        return path.open("rb")
    parts, size, most = list[bytes](), 0, _most_bytes()
    with pa.input_stream(str(path), compression=compression) as stream:
        while part := stream.read(_PIECE):
            parts.append(part)
            size += len(part)
            if size > most:
                raise DataError(
                    f"it becomes more than {size >> 20} MiB, and takes {_TIMES} times as much when "
                    "it is read: more memory than is left",
                    where=str(path),
                    hint="save the columns as arrays, as x.npy and y.npy of a folder: these stay "
                    "in their files",
                )
    return BytesIO(b"".join(parts))


def _most_bytes() -> int:
    try:
        return available_bytes() // _TIMES
    except OSError:
        # A system that does not say it.
        return 1 << 40


def _check_names(first: str, separator: str, path: Path) -> None:
    """Checks that the first line has names, apart by the separator.

    Raises:
        DataError: it has numbers, or another separator.
    """
    if "\0" in first:
        raise DataError(
            "it has bytes that no text in UTF-8 has (0x00)",
            where=str(path),
            hint="if it is text in UTF-16, convert it: `iconv -f UTF-16LE -t UTF-8 OLD.csv > "
            "NEW.csv`",
        )
    other = next((each for each in _OTHERS if each in first), None)
    if separator not in first and other:
        raise DataError(
            f"the first line has one name, with {other!r} in it, and no {separator!r}",
            where=str(path),
            hint="separate the columns by commas, in a .tsv file by tabs, with points in numbers: "
            f"pandas.read_csv(OLD, sep={other!r}).to_csv(NEW, index=False)"
            + " with decimal=',' where numbers have commas"
            * (other == ";"),
        )
    names = [name.strip().strip('"') for name in first.split(separator)]
    if first and all(map(_is_number, names)):
        raise DataError(
            f"the first line has numbers, {printable(', '.join(islice(names, 3)))}, where the "
            "names of the columns should be",
            where=str(path),
            hint=f"put a line of names in front of it; {COLUMNS}",
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
