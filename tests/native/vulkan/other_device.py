"""Another device than this machine's, or one that fails: `shim.c` in front of Vulkan's library."""

import atexit
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp

from odtc.core.process.cxx import cc_command
from tests.native.vulkan.template import FIRST

# Under this name the shim is found in the place of Vulkan's library.
_NAME = "libvulkan.so.1"


@cache
def _shim() -> Path:
    output = Path(mkdtemp()) / _NAME
    source = Path(__file__).with_name("shim.c")
    command = [*cc_command(), "-O1", "-fPIC", "-shared", str(source), "-o", str(output)]
    subprocess.run([*command, f"-Wl,-soname,{_NAME}", "-ldl"], check=True)
    return output


def _real() -> str:
    """The path of the library that the loader of this machine takes."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True)
    return re.findall(r"libvulkan\.so\.1 .*64.* => (.*)", listed.stdout)[0]


def on_shim() -> dict[str, str]:
    """The environment of a process that finds it in the place of Vulkan's library."""
    return {FIRST: str(_shim()), "REAL_VULKAN": _real()}


def printed(code: str, *arguments: str, **environment: str) -> str:
    """What a program prints that has the names of `device.py` and `kernels.py`, and `sys`."""
    return _output(environment, code=code, words=arguments)


def passed(*tests: str, **environment: str) -> str:
    """What tests of this folder print that run in a process of their own, and pass."""
    given = [str(Path(__file__).parent / each) for each in tests]
    return _output(environment, words=["-q", "-s", "-n", "0", "-p", "no:cacheprovider", *given])


@cache
def _template() -> subprocess.Popen[str]:
    """The process that is forked for programs; it ends with this one."""
    # The threads of a BLAS would not be in a fork.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.native.vulkan.template"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    atexit.register(process.communicate)
    return process


def _output(environment: dict[str, str], **program: object) -> str:
    asked, answers = _template().stdin, _template().stdout
    assert asked
    assert answers
    with NamedTemporaryFile("r") as out, NamedTemporaryFile("r") as errors:
        files = [out.name, errors.name]
        job = {"files": files, "environment": os.environ | environment, **program}
        print(json.dumps(job), file=asked)
        status = answers.readline().strip()
        said = out.read() + errors.read()
    assert status == "0", f"{status}: {said}"
    return said
