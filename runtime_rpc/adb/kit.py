"""The kit that is pushed to a phone once: Python and TVM's runtime for aarch64, in one tar file.

They are Debian's and TVM's own, linked with glibc; a phone has another libc. So the kit brings its
own loader, and the start script calls it by name: nothing of the phone's system is needed but its
kernel. The stand-in runs the same files.
"""

import tarfile
from dataclasses import dataclass
from pathlib import Path

from odtc.core.disk.files import atomic_write
from odtc.core.process.progress import Progress, silent
from odtc.runtime_rpc.standin.root import PACKAGES_FOLDER, PYTHON, build_root

MACHINE = "aarch64"
_LIBRARIES = ("lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu")
_PARTS = ("lib/ld-linux-aarch64.so.1", *_LIBRARIES, "usr/lib/python3.11", PYTHON[1:], "opt/tvm")

FOLDER = "/data/local/tmp/odtc"
_KIT = f"{FOLDER}/kit"

# Its words are the server's options. An emulator is named by the stand-in alone.
START = f"""\
#!/system/bin/sh
umask 077
cd {FOLDER} || exit 1
echo $$ > pid
export PYTHONHOME={_KIT}/usr PYTHONPATH={FOLDER}/server:{_KIT}{PACKAGES_FOLDER}
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 TVM_USE_RUNTIME_LIB=1
export TMPDIR={FOLDER}/sessions HOME={FOLDER} LC_ALL=C.UTF-8
test "$(getprop ro.kernel.qemu)" = 1 && set -- --emulated "$@"
exec $(getprop odtc.emulator) {_KIT}/lib/ld-linux-aarch64.so.1 \\
    --library-path {":".join(f"{_KIT}/{part}" for part in _LIBRARIES)} \\
    {_KIT}{PYTHON} -m odtc.runtime_rpc.server --folder {FOLDER}/sessions "$@"
"""


@dataclass(frozen=True)
class Kit:
    """A kit.

    Attributes:
        path: of the tar file.
        version: hash of the content.
    """

    path: Path
    version: str


def build_kit(progress: Progress = silent) -> Kit:
    """Returns the kit; it is built unless the cache has it.

    Raises:
        BuildError: a tool is missing or failed, or the cache cannot be written.
    """
    root = build_root(progress)
    path = root.with_name(f"{root.name}.tar")
    if not path.exists():
        progress("packing Python and TVM for the phone")
        with (
            atomic_write(path) as temporary,
            tarfile.open(
                # Links become files: not every file system of a phone supports them.
                temporary,
                "w",
                dereference=True,
                format=tarfile.GNU_FORMAT,
            ) as archive,
        ):
            for part in _PARTS:
                archive.add(root / part, part, filter=_nobodys)
    return Kit(path, root.name)


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
