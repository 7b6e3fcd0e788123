"""The phone's root folder: Debian's Python and TVM's wheels, both for aarch64, in a cache.

Nothing of the system is changed: apt works on a package database of its own, and the packages are
unpacked, never installed. A root is built beside its final name and renamed when it is complete, so
a half-made one is never seen, and two builds at once do no harm.
"""

import compileall
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from odtc.core.disk.files import cache_folder
from odtc.core.errors import BuildError
from odtc.core.process.progress import Progress, silent
from odtc.runtime_rpc.standin.tools import find_tool, find_tools, run_tool

PYTHON = "/usr/bin/python3.11"
PACKAGES_FOLDER = "/opt/tvm"
EMULATOR = "/emulator"
SERVER_FOLDER = "/server"

# Mount points of the phone. They must exist, since the root is read-only.
_MOUNTED_FOLDERS = ("/dev", "/proc", "/sys", "/tmp", SERVER_FOLDER)  # noqa: S108
_MOUNTED_FILES = ("/dev/null", "/dev/urandom", EMULATOR)

_DEBIAN_PACKAGES = ("python3.11-minimal", "libpython3.11-stdlib", "libstdc++6")

# Programs that build a root, and run a phone from it.
_TOOLS = ("apt-get", "busybox", "dpkg-deb", "qemu-aarch64-static", "unshare")

# What `tvm.rpc.server` imports. The phone gets TVM in the version that is installed here, as TVM
# does not check that both ends of a connection are of one; the others have none for its Python,
# where this one is newer, and are as new as they can be.
_SAME = ("apache-tvm", "apache-tvm-ffi")
_OTHERS = ("ml-dtypes", "numpy", "psutil", "typing-extensions")
_PLATFORMS = tuple(f"manylinux_2_{minor}_aarch64" for minor in (28, 27, 17))
_ABIS = ("cp311", "abi3", "none")

# The compiler is as large as all the rest, and a phone has none.
_DROPPED = (
    *(f"usr/share/{part}" for part in ("doc", "info", "locale", "man", "zoneinfo")),
    *(
        f"opt/tvm/tvm/{part}"
        for part in ("3rdparty", "cmake", "include", "src", "lib/libtvm_compiler.so")
    ),
    "opt/tvm/tvm/lib/libtvm_runtime_cuda.so",
    "opt/tvm/tvm_ffi/include",
    "usr/lib/python3.11/pydoc_data",
    "usr/lib/python3.11/test",
)

# `#clear` forgets what the system would do after an update: that is about the system's packages.
_APT_CONFIG = """\
#clear APT::Update;
#clear APT::Architectures;
APT::Architecture "arm64";
APT::Architectures "arm64";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Debug::NoLocking "true";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
"""
_APT_HINT = "odtc needs a Debian 12 whose apt sources can be reached: their arm64 packages are used"
_PIP_HINT = "the wheels of aarch64 come from where pip gets its packages: check pip's configuration"


@dataclass(frozen=True)
class Extra:
    """Contents of a root beside Python and TVM.

    Attributes:
        packages: of Debian.
        recipe: other inputs that it is built from, for the key in the cache.
        finish: adds the rest to a root.
        tools: programs that this needs.
    """

    packages: tuple[str, ...] = ()
    recipe: bytes = b""
    finish: Callable[[Path, Progress], None] = lambda *_: None
    tools: tuple[str, ...] = ()


NOTHING = Extra()


def build_root(progress: Progress = silent, extra: Extra = NOTHING) -> Path:
    """Returns the root folder; it is built unless it is in the cache already.

    Args:
        progress: called with what is being done.
        extra: further contents of the root.

    Raises:
        BuildError: a tool is missing or failed, or the cache cannot be written.
    """
    final = _cache() / _key(extra)
    if not final.is_dir():
        try:
            _build(final, extra, progress)
        except OSError as error:
            raise BuildError(
                f"the phone's root folder cannot be written: {error}",
                where=str(final),
                hint="set XDG_CACHE_HOME to a folder that is yours and has 1 GiB of room",
            ) from error
    return final


def _build(final: Path, extra: Extra, progress: Progress) -> None:
    find_tools(*_TOOLS, *extra.tools)
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=f".{final.name}-") as scratch:
        built = Path(scratch) / "root"
        unpack_debian(Path(scratch), built, extra.packages, progress)
        _install_wheels(built, progress)
        extra.finish(built, progress)
        _finish(built, progress)
        try:
            built.rename(final)
        except OSError:
            # Another build was faster: a folder that is not empty is not replaced.
            if not final.is_dir():
                raise


def _cache() -> Path:
    return cache_folder() / "standin"


def _key(extra: Extra) -> str:
    words = [*_requirements(), *extra.packages]
    recipe = Path(__file__).read_bytes() + " ".join(words).encode() + extra.recipe
    return hashlib.sha256(recipe).hexdigest()[:16]


def _requirements() -> list[str]:
    same = [f"{name}=={version(name)}" for name in _SAME]
    return [*same, *(f"{name}<={version(name)}" for name in _OTHERS)]


def unpack_debian(scratch: Path, root: Path, extra: Sequence[str], progress: Progress) -> None:
    """Unpacks Python of 64-bit ARM, and further packages of Debian, into a folder.

    Args:
        scratch: a folder for what apt keeps.
        root: to be made.
        extra: names of further packages.
        progress: called with what is being done.

    Raises:
        BuildError: a tool is missing, or a package cannot be had.
    """
    apt_get, dpkg_deb = find_tool("apt-get"), find_tool("dpkg-deb")
    progress("reading Debian's list of arm64 packages")
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (scratch / folder).mkdir(parents=True)
    (scratch / "status").touch()
    config = scratch / "apt.conf"
    config.write_text(_APT_CONFIG.format(folder=scratch))
    apt = (apt_get, "-c", str(config), "-qq")
    run_tool([*apt, "update"], hint=_APT_HINT)
    progress("downloading Python for aarch64")
    packages = [*_DEBIAN_PACKAGES, *extra]
    run_tool([*apt, "-y", "--download-only", "install", *packages], hint=_APT_HINT)
    for package in sorted((scratch / "cache/archives").glob("*.deb")):
        run_tool([dpkg_deb, "-x", str(package), str(root)], hint="is the disk full?")


def _install_wheels(root: Path, progress: Progress) -> None:
    progress("downloading TVM for aarch64")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    target = ["--target", f"{root}{PACKAGES_FOLDER}", "--only-binary=:all:"]
    tags = ["--implementation", "cp", "--python-version", "3.11"]
    tags += [word for platform in _PLATFORMS for word in ("--platform", platform)]
    tags += [word for abi in _ABIS for word in ("--abi", abi)]
    run_tool([*pip, *target, *tags, *_requirements()], hint=_PIP_HINT)


def add_mount_points(root: Path) -> None:
    """Adds to a root folder what is mounted there when a phone starts."""
    for folder in _MOUNTED_FOLDERS:
        Path(f"{root}{folder}").mkdir(exist_ok=True)
    for file in _MOUNTED_FILES:
        Path(f"{root}{file}").touch()


def _finish(root: Path, progress: Progress) -> None:
    for dropped in map(root.joinpath, _DROPPED):
        if dropped.is_dir():
            shutil.rmtree(dropped)
        else:
            dropped.unlink(missing_ok=True)
    for tests in list(root.glob("opt/**/tests")):
        shutil.rmtree(tests)
    add_mount_points(root)
    # Bytecode is the same on every machine: the phone, which is slow, need not compile. Another
    # version's it does not read.
    if not PYTHON.endswith(f"python{sys.version_info.major}.{sys.version_info.minor}"):
        return
    progress("compiling Python's modules")
    for folder in (PACKAGES_FOLDER, "/usr/lib/python3.11"):
        compileall.compile_dir(f"{root}{folder}", stripdir=str(root), quiet=2, workers=0)
