"""A phone's stand-in that is reached through the real adb only: a daemon in its own namespaces.

The phone has namespaces of its own for mounts, processes and the network, so the host reaches it
through its daemon alone, and it reaches the host through `adb reverse` alone. What it runs of its
own is a shell (busybox); what odtc brings to it is for Android on 64-bit ARM, and runs in an
emulator, with what stands for Android there.
"""

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from odtc.runtime_rpc.standin import adbd
from odtc.runtime_rpc.standin.android import emulated, write_android
from odtc.runtime_rpc.standin.phone import running
from odtc.runtime_rpc.standin.tools import find_tool

DISK = "1g"

_LOOPBACK = "127.0.0.1"
_CPU = "cortex-a76"
_EMULATOR = "/system/bin/qemu-aarch64"

# The shell stays and reaps orphaned processes, as init does.
_ENTER = f"""
root=$1 busybox=$2 emulator=$3 files=$4 disk=$5
shift 5
mount -t tmpfs -o size=64m,mode=755 tmpfs "$root"
cp -r "$files/." "$root"
mkdir -p "$root/proc" "$root/dev" "$root/data/local/tmp"
cp "$busybox" "$root/system/bin/busybox"
"$busybox" --list | while read -r name; do
    test -e "$root/system/bin/$name" || ln -s busybox "$root/system/bin/$name"
done
for name in null urandom zero; do
    touch "$root/dev/$name"
    mount --bind /dev/$name "$root/dev/$name"
done
touch "$root{_EMULATOR}"
mount --bind "$emulator" "$root{_EMULATOR}"
mount -t proc proc "$root/proc"
mount --bind "$root/etc/cpuinfo" "$root/proc/cpuinfo"
mount -t tmpfs -o size="$disk",mode=771 tmpfs "$root/data/local/tmp"
mount -o remount,ro "$root"
"$@" "$root"
"""

PROPERTIES = {
    "ro.product.manufacturer": "odtc",
    "ro.product.model": "Stand-in",
    "ro.product.cpu.abi": "arm64-v8a",
    "ro.build.version.release": "14",
    "ro.build.version.sdk": "34",
    "ro.soc.manufacturer": "QEMU",
    "ro.soc.model": "user",
    "ro.kernel.qemu": "1",
    "odtc.emulator": " ".join(emulated(_EMULATOR, _CPU)),
}
_GETPROP = """\
#!/system/bin/sh
while IFS='=' read -r name value; do
    case "$1" in
    "$name") echo "$value"; exit ;;
    "") echo "[$name]: [$value]" ;;
    esac
done </system/build.prop
"""
_DUMPSYS = """\
#!/system/bin/sh
test "$1" = battery && cat /etc/battery
"""
_BATTERY = """\
Current Battery Service state:
  AC powered: false
  USB powered: true
  status: 2
  level: 83
  scale: 100
  voltage: 4123
  temperature: 287
"""
# Four small cores and four large ones, as many phones have them.
_CORES = [(0xD05, 1_800_000)] * 4 + [(0xD0B, 2_400_000)] * 4
_CPUINFO = "".join(
    f"processor\t: {number}\nCPU implementer\t: 0x41\nCPU part\t: {part:#x}\n\n"
    for number, (part, _) in enumerate(_CORES)
)


class AdbPhone:
    """A running phone.

    Attributes:
        serial: once `adb connect SERIAL` was run.
        pid: of the ancestor of all of its processes.
    """

    def __init__(self, port: int, pid: int) -> None:
        self.serial = f"{_LOOPBACK}:{port}"
        self.pid = pid

    def processes(self) -> list[psutil.Process]:
        """All of its processes, the daemon's too."""
        whole = psutil.Process(self.pid)
        return [whole, *whole.children(recursive=True)]


@contextmanager
def adb_phone(port: int = 0, disk: str = DISK) -> Iterator[AdbPhone]:
    """A phone for the time of the block.

    Args:
        port: of this host's loopback, where its daemon listens; 0 is any.
        disk: size of the disk for pushed files, as `mount` takes it.

    Raises:
        BuildError: a program that it needs is not installed.
    """
    busybox, emulator = find_tool("busybox"), find_tool("qemu-aarch64-static")
    unshare = [find_tool("unshare"), "--mount", "--pid", "--net", "--fork", "--kill-child"]
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    with (
        tempfile.TemporaryDirectory(prefix="odtc-phone-") as scratch,
        tempfile.TemporaryFile("a+b") as log,
        socket.create_server((_LOOPBACK, port)) as listener,
    ):
        root, files = Path(scratch, "root"), Path(scratch, "files")
        root.mkdir()
        _write_files(files)
        write_android(files)
        enter = ["sh", "-euc", _ENTER, "sh", str(root), busybox, emulator, str(files), disk]
        daemon = [sys.executable, str(Path(adbd.__file__)), str(listener.fileno())]
        with running([*unshare, *user, *enter, *daemon], log, listener) as process:
            yield AdbPhone(listener.getsockname()[1], process.pid)


def _write_files(folder: Path) -> None:
    """Writes the files in which phones differ from each other."""
    programs = {"getprop": _GETPROP, "dumpsys": _DUMPSYS}
    properties = "".join(f"{name}={value}\n" for name, value in PROPERTIES.items())
    texts = {
        "system/build.prop": properties,
        "etc/battery": _BATTERY,
        "etc/cpuinfo": _CPUINFO,
        "sys/class/thermal/thermal_zone0/type": "cpu-0-0\n",
        "sys/class/thermal/thermal_zone0/temp": "34200\n",
        **{f"system/bin/{name}": text for name, text in programs.items()},
        **{
            f"sys/devices/system/cpu/cpu{number}/cpufreq/cpuinfo_max_freq": f"{frequency}\n"
            for number, (_, frequency) in enumerate(_CORES)
        },
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in programs:
        (folder / "system/bin" / name).chmod(0o755)
