"""A device that is to measure kernels has to be of their architecture: before any is built."""

from pathlib import Path

import pytest

from odtc.backends.targets import parse_target
from odtc.core.errors import DeviceError
from odtc.tuner.tuning import device_at
from tests.runtime_rpc.own_server import NATIVE, serving


def test_a_device_of_another_architecture_is_refused(tmp_path: Path) -> None:
    target = parse_target("linux-arm64-cpu{threads=1}")
    with serving(tmp_path / "sessions", server=NATIVE) as url:
        with pytest.raises(DeviceError, match=r"the target is for aarch64 \(linux-arm64-cpu"):
            device_at(url, target)
        assert device_at(url, parse_target("host-cpu").resolved()).name
