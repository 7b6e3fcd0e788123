"""The phones that the tests of this folder share."""

from collections.abc import Iterator

import pytest

from odtc.runtime_rpc.adb.setup import set_up
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from odtc.runtime_rpc.standin.phone import EmulatedPhone
from odtc.runtime_rpc.standin.systems import python
from tests.device.adb_host import adb_server, plugged_in


@pytest.fixture(scope="session")
def phone() -> Iterator[EmulatedPhone]:
    """An emulated phone; `phone.url` is what `odtc.connect` takes."""
    with EmulatedPhone() as running:
        yield running


@pytest.fixture(scope="session")
def phone_with_tvm() -> Iterator[EmulatedPhone]:
    """One with the server in Python, which loads libraries of kernels by TVM's runtime."""
    with EmulatedPhone("tvm", system=python) as running:
        yield running


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbPhone]:
    """An emulated phone behind adb, that nothing was pushed to."""
    with adb_server(tmp_path_factory.mktemp("host")), plugged_in() as running:
        yield running


@pytest.fixture(scope="module")
def ready(plugged: AdbPhone) -> AdbPhone:
    """The same with odtc's server on it."""
    set_up(plugged.serial, tracker=0)
    return plugged
