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


def on_shim() -> dict[str, str]:
    """The environment of a process that finds it in the place of Vulkan's library."""
    return {"LD_LIBRARY_PATH": str(_shim().parent), "REAL_VULKAN": _real()}


def printed(code: str, *arguments: str, **environment: str) -> str:
    """What a program prints that has the names of `device.py` and `kernels.py`."""
    imports = (
        "import sys\n"
        "import numpy as np\n"
        "from tests.native.vulkan.device import *\n"
        "from tests.native.vulkan.kernels import *\n"
    )
    return _output([sys.executable, "-c", imports + code, *arguments], environment)


def passed(*tests: str, **environment: str) -> str:
    """What tests of this folder print that run in a process of their own, and pass."""
    given = [str(Path(__file__).parent / each) for each in tests]
    words = ("-m", "pytest", "-q", "-s", "-n", "0", "-p", "no:cacheprovider")
    return _output([sys.executable, *words, *given], environment)


def _output(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
