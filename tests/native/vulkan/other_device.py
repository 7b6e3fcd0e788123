"""Another device than this machine's, or one that fails: `shim.c` in front of Vulkan's library."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from odtc.core.process.cxx import cc_command


@cache
def _shim() -> Path:
    output = Path(mkdtemp()) / "libvulkan.so.1"
    source = Path(__file__).with_name("shim.c")
    command = [*cc_command(), "-O1", "-fPIC", "-shared", str(source), "-o", str(output)]
    subprocess.run([*command, "-ldl"], check=True)
    return output


def _real() -> str:
    """The path of the library that the loader of this machine takes."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True)
    return re.findall(r"libvulkan\.so\.1 .*64.* => (.*)", listed.stdout)[0]


def run_on(code: str, **environment: str) -> str:
    """What a program prints on such a device."""
    shim = {"LD_LIBRARY_PATH": str(_shim().parent), "REAL_VULKAN": _real()}
    imports = (
        "import numpy as np\n"
        "from tests.native.vulkan.device import *\n"
        "from tests.native.vulkan.kernels import *\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", imports + code],
        env=os.environ | shim | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pass_on(*tests: str, **environment: str) -> str:
    """What tests of this folder print in a process of their own, which pass there."""
    shim = {"LD_LIBRARY_PATH": str(_shim().parent), "REAL_VULKAN": _real()}
    given = [str(Path(__file__).with_name(each)) for each in tests]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-n", "0", "-p", "no:cacheprovider", *given],
        env=os.environ | shim | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
