"""The reference pages and the entry points repeat what the code says."""

import pytest

import odtc
from odtc.cli.main import COMMANDS
from tests.reference_pages import DOCS, PAGES, ROOT


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    found = (ROOT / name).read_text("utf-8")
    assert found == PAGES[name](), "run python -m tests.reference_pages"


def test_the_pages_have_every_command_and_every_name() -> None:
    heads = (DOCS / "cli.md").read_text("utf-8").splitlines()
    own = [line for line in heads if line.startswith("## odtc ") and line.count(" ") == 2]
    assert len(own) == len(COMMANDS)
    names = (DOCS / "api.md").read_text("utf-8").splitlines()
    assert [line for line in names if line.startswith("## ")] == [
        f"## odtc.{name}" for name in odtc.__all__
    ]
