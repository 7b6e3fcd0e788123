"""Tables of buffers: what is read, and what is written."""

import pytest
from hypothesis import given, settings

from odtc.core.errors import DataError
from odtc.passes.memory.packing.budget import Limit
from odtc.passes.memory.packing.csv_file import read_buffers, write_plan
from odtc.passes.memory.packing.problem import Buffer, PackingSolution
from odtc.passes.memory.packing.solve import solve
from tests.passes.memory.packing import problems


def test_columns_may_come_in_any_order(tmp_path):
    path = tmp_path / "x.csv"
    rows = "size,id,alignment,upper,lower\r\n5,a b,8,9,7\r\n\r\n0,é,1,3,0"
    path.write_text(rows, encoding="utf-8-sig", newline="")
    assert read_buffers(path) == [Buffer("a b", 7, 9, 5, 8), Buffer("é", 0, 3, 0, 1)]


def test_a_plan_has_offsets_and_alignments_only_where_there_are_some(tmp_path):
    path, plan = tmp_path / "x.csv", PackingSolution({"a": 3, 'b,"': 0}, 9, 9)
    write_plan(path, [Buffer("a", 0, 1, 6, 1), Buffer('b,"', 0, 1, 3, 1)], plan)
    assert path.read_text() == 'id,lower,upper,size,offset\na,0,1,6,3\n"b,""",0,1,3,0\n'
    write_plan(path, [Buffer("a", 0, 1, 6, 3)], plan)
    assert path.read_text() == "id,lower,upper,size,alignment,offset\na,0,1,6,3,3\n"


def test_a_line_is_that_of_the_file(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('id,lower,upper,size\n"two\nlines",0,1,1\n\nb,0,1,x\n')
    with pytest.raises(DataError) as caught:
        read_buffers(path)
    assert caught.value.where == f"{path}, line 5, column size"


@settings(max_examples=60, deadline=None)
@given(problems(most=8, views=False))
def test_what_is_written_is_read_back(tmp_path_factory, problem):
    path = tmp_path_factory.mktemp("tables") / "x.csv"
    solution = solve(problem, Limit(1))
    write_plan(path, problem.buffers, solution)
    header, *rows = path.read_text().splitlines()
    assert [int(row.split(",")[-1]) for row in rows] == list(solution.offsets.values())
    lines = [line.rpartition(",")[0] for line in (header, *rows)]
    path.write_text("\n".join(lines))
    assert read_buffers(path) == list(problem.buffers)


@pytest.mark.parametrize("cell", ["-1", "1.5", "", "x", "0x10", "1_0", "٣", "9" * 40])
@pytest.mark.parametrize("column", ["lower", "upper", "size", "alignment"])
def test_what_is_no_number_is_said_with_its_place(tmp_path, cell, column):
    cells = {"id": "a", "lower": "0", "upper": "1", "size": "1", "alignment": "1"}
    rows = [cells | {"id": "first"}, cells | {column: cell}]
    path = tmp_path / "x.csv"
    path.write_text("\n".join([",".join(cells), *(",".join(row.values()) for row in rows)]))
    with pytest.raises(DataError, match="is not a whole number of at least 0") as caught:
        read_buffers(path)
    assert caught.value.where == f"{path}, line 3, column {column}"
