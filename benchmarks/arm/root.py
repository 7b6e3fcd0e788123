"""Python for 64-bit ARM with the peers' own wheels, in a cache: nothing is installed here."""

import hashlib
import sys
import tempfile
from pathlib import Path

from odtc.core.disk.files import cache_folder
from odtc.core.process.progress import Progress
from odtc.runtime_rpc.standin.root import unpack_debian
from odtc.runtime_rpc.standin.tools import run_tool

PYTHON = "/usr/bin/python3.11"
# The packages' folder, in the root.
SITE = "site"
# Of Debian, beside Python.
_DEBIAN = ("libgomp1",)
# PyTorch's is for CPUs. Its dependencies are named, as pip would look for those of this machine.
PEERS = {"torch": "2.9.1", "MNN": "3.6.1"}
_OTHERS = (
    "filelock fsspec jinja2 markupsafe mpmath networkx numpy<2.4 sympy typing-extensions".split()
)
_PLATFORMS = tuple(f"manylinux_2_{minor}_aarch64" for minor in (28, 27, 26, 24, 17))
_HINT = (
    "the peers' wheels for aarch64 come from where pip gets its packages: check its configuration"
)


def build_root(progress: Progress) -> Path:
    """The root folder; it is built unless it is in the cache.

    Raises:
        BuildError: a tool is missing, or Debian's or Python's packages cannot be had.
    """
    wanted = [f"{name}=={version}" for name, version in PEERS.items()] + list(_OTHERS)
    key = hashlib.sha256(" ".join((*_DEBIAN, *wanted)).encode()).hexdigest()[:16]
    final = cache_folder() / "arm" / key
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent) as scratch:
        built = Path(scratch) / "root"
        unpack_debian(Path(scratch), built, _DEBIAN, progress)
        progress("downloading PyTorch and MNN for aarch64")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--compile"]
        pip += ["--target", str(built / SITE), "--only-binary=:all:"]
        pip += ["--implementation", "cp", "--python-version", "3.11"]
        pip += [word for each in _PLATFORMS for word in ("--platform", each)]
        run_tool([*pip, *wanted], hint=_HINT)
        built.rename(final)
    return final
