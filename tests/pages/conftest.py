"""The phone of the pages that need one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import adb_server, plugged_in


@pytest.fixture
def phone(tmp_path: Path) -> Iterator[AdbPhone]:
    """An emulated one, which adb lists."""
    with adb_server(tmp_path), plugged_in() as found:
        yield found
