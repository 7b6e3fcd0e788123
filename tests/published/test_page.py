"""The page about published files is that of the results beside it."""

from tests.published.outcome import Word
from tests.published.page import PAGE, page, read_found
from tests.published.table import options_of


def test_the_page_is_that_of_the_results() -> None:
    found, seconds = read_found()
    assert found.keys() <= options_of().keys()
    assert PAGE.read_text(encoding="utf-8") == "\n".join(page(found, seconds))


def test_what_is_equal_went_all_the_way() -> None:
    found, _ = read_found()
    for name, outcome in found.items():
        went = (outcome.forward, outcome.gradient, outcome.export)
        is_equal = outcome.word is Word.EQUAL
        assert is_equal == (None not in went and not outcome.reason), name
        assert not is_equal or len(outcome.losses) == 3, name
        assert outcome.reason or outcome.word in (Word.EQUAL, Word.LATE), name
