"""The digits model, compiled once."""

import pytest

from tests.cli.digits import Digits, make_digits


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    return make_digits(tmp_path_factory.mktemp("digits"))
