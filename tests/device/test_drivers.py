"""A phone's GPU without a driver, or with one that may not be opened: what is said of it."""

from pathlib import Path

import pytest

import odtc
from odtc.core.errors import DeviceError
from odtc.runtime_rpc.guards.failures import DRIVER
from odtc.runtime_rpc.standin import adb_phone
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import plugged_in

pytestmark = pytest.mark.device

VENDORS = "vendor/lib64/libOpenCL.so"


def test_what_cannot_be_opened_is_named(plugged: AdbPhone, monkeypatch: pytest.MonkeyPatch) -> None:
    written = adb_phone._write_files

    def with_driver(folder: Path) -> None:
        written(folder)
        path = folder / VENDORS
        path.parent.mkdir(parents=True)
        path.write_text("for another system")

    monkeypatch.setattr(adb_phone, "_write_files", with_driver)
    with plugged_in() as phone:
        session = odtc.connect(f"adb://{phone.serial}")
        for kind, reason in {"opencl": f"/{VENDORS}: ", "vulkan": "libvulkan.so: "}.items():
            with pytest.raises(DeviceError, match=reason) as caught:
                session.on(kind).gpu()
            assert caught.value.hint == DRIVER
            assert "odtc 15" not in caught.value.what, "the code is the runtime's own"
        session.close()
