"""The files of the server in Python on an emulated phone, and stubs of Android's C library."""

from pathlib import Path

from odtc.backends.objects.system_libraries import bionic_names
from odtc.runtime_rpc.server.net.wire import NAMES

_HERE = Path(__file__).parents[1]
_FOLDER = "odtc/runtime_rpc"
# What the server has been brought to, with a C library of its own.
_MACHINE = "aarch64"


def server_files() -> dict[str, bytes]:
    """Path of each file, from where Python looks for packages, to what it holds."""
    own = (_HERE / f"{name}.py" for name in ("__init__", "free_memory", "file_memory", "pages"))
    modules = [*own, *_HERE.glob("server/**/*.py")]
    files = {f"{_FOLDER}/{path.relative_to(_HERE)}": path.read_bytes() for path in modules}
    names = bionic_names(_MACHINE).items()
    files |= {f"{_FOLDER}/server/{NAMES}/{name}": content for name, content in names}
    # The package's own face would want all the rest.
    return {"odtc/__init__.py": b"", **dict(sorted(files.items()))}


def write_server(folder: Path) -> None:
    """Writes the files into a folder."""
    for name, data in server_files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
