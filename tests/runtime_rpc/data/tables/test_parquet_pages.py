"""Pages of Parquet files that claim more than their numbers take are not decompressed."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from odtc.core.errors import DataError
from odtc.runtime_rpc.data.tables.parquet_pages import _header, check_pages

ROWS = 5000
WRITTEN = {
    "plain": {"use_dictionary": False, "compression": "none"},
    "dictionary": {"compression": "zstd"},
    "pages of the second version": {"data_page_version": "2.0", "compression": "snappy"},
    "many pages": {"data_page_size": 256, "row_group_size": 1000, "write_page_checksum": True},
    "split bytes": {"use_dictionary": False, "use_byte_stream_split": ["x"]},
}


def written(folder: Path, **options) -> Path:
    x = np.random.default_rng(0).standard_normal(ROWS)
    columns = {"x": x, "y": np.arange(ROWS), "flag": x > 0}
    parquet.write_table(pa.table(columns), folder / "d.parquet", **options)
    return folder / "d.parquet"


def checked(path: Path) -> None:
    with parquet.ParquetFile(path) as file:
        check_pages(path, file.metadata, {"x", "y", "flag"})


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_is_read(tmp_path: Path, name: str):
    checked(written(tmp_path, **WRITTEN[name]))


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def test_a_page_that_claims_two_gib_is_refused(tmp_path: Path):
    path = written(tmp_path, use_dictionary=False, compression="zstd")
    with parquet.ParquetFile(path) as file:
        start = file.metadata.row_group(0).column(0).data_page_offset
    data = bytearray(path.read_bytes())
    _, size, _ = _header(bytes(data[start:]))
    # Behind the page's type, two bytes, and the mark of the field: zigzag of a number of 5 bytes.
    old = varint(2 * size)
    assert data[start + 3 : start + 3 + len(old)] == old
    claimed = data[: start + 3] + varint(2 * (2**31 - 1)) + data[start + 3 + len(old) :]
    assert _header(bytes(claimed[start:]))[1] == 2**31 - 1
    with parquet.ParquetFile(path) as file:
        metadata = file.metadata
    path.write_bytes(claimed)
    with pytest.raises(
        DataError, match=r"page of the column 'x' claims 2147483647 bytes; its 5000 "
    ):
        check_pages(path, metadata, {"x"})
    path.write_bytes(data[:start] + b"\xff" * 2000 + data[start + 2000 :])
    with pytest.raises(DataError, match="the header of a page of the column 'x' is damaged"):
        check_pages(path, metadata, {"x"})
