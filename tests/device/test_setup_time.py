"""How long a phone is set up: on the stand-in, so that it is a bound, and no time of a phone."""

import statistics
import subprocess
import sys
import time

import pytest

from odtc.runtime_rpc.adb import setup
from odtc.runtime_rpc.native.android.device import android_device
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import adb

pytestmark = pytest.mark.device

ROUNDS = 3
MOST_SECONDS = 3.0


@pytest.mark.timed
def test_a_setup_is_quick(plugged: AdbPhone) -> None:
    """Of a phone that nothing was pushed to, with its tracker, as a command of its own."""
    android_device()
    took = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        command = [sys.executable, "-m", "odtc", "device", "setup", plugged.serial]
        subprocess.run([*command, "--tracker", "0"], check=True, timeout=300)
        took.append(time.monotonic() - began)
        setup.stop(plugged.serial)
        adb("-s", plugged.serial, "shell", "rm -r /data/local/tmp/odtc")
    assert statistics.median(took) < MOST_SECONDS, took
