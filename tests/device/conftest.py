"""The phone that the tests of this folder share."""

from collections.abc import Iterator

import pytest

from odtc.runtime_rpc.standin.phone import Phone


@pytest.fixture(scope="session")
def phone() -> Iterator[Phone]:
    """An emulated phone; `phone.url` is what `odtc.connect` takes."""
    with Phone() as running:
        yield running
