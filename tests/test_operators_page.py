"""docs/operators.md is what the tables say."""

import pytest

from odtc.frontend.operators.operator import always
from odtc.frontend.operators.table import OPERATORS
from tests.operators_page import PAGE, condition_of, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.operators_page"


@pytest.mark.parametrize("name", OPERATORS)
def test_each_condition_is_said_in_words(name: str) -> None:
    operator = OPERATORS[name]
    assert operator.condition is always or condition_of(operator).endswith(".")
