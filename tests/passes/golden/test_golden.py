"""Each pass makes of its file's module what the file says; `python -m tests.passes.golden`."""

from pathlib import Path

import pytest

from odtc.autoschedule.table import SCHEDULE_PASSES
from odtc.backends.pipeline.known import BACKEND_PASSES
from odtc.passes.pipeline.table import PASSES
from tests.passes.golden.cases import files, read


def test_every_pass_has_a_file_and_no_other_has() -> None:
    assert sorted(path.stem for path in files()) == sorted(
        {**PASSES, **BACKEND_PASSES, **SCHEDULE_PASSES}
    )


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_pass_makes_what_its_file_says(path: Path) -> None:
    case = read(path)
    assert path.stem in case.options["passes"]
    # A file in which nothing happens shows nothing.
    assert case.gives != case.unchanged()
    assert case.result() == case.gives, f"see: python -m tests.passes.golden {path.stem}"
