"""Packages that are not installed, and what installs them: one table.

`pip install odtc` brings all that running an artifact on this machine's CPU needs, and the extra
`compile` the rest. Whoever needs a package of the latter imports it late, from many places, so that
what is missing is said at the few doors that a user comes in by: public functions, names of the
package, and the command line.
"""

from importlib.util import find_spec

from odtc.core.errors import MissingPackageError

COMPILE = "pip install 'odtc[compile]'"
_LOG, _DATA = "pip install 'odtc[log]'", "pip install 'odtc[data]'"
_TORCH = "pip install torch onnxscript"

# By the name that is imported: the package that has it, and the command that installs it.
PACKAGES = {
    "tvm": ("apache-tvm", COMPILE),
    "tvm_ffi": ("apache-tvm-ffi", COMPILE),
    "cloudpickle": ("cloudpickle", COMPILE),
    "highspy": ("highspy", COMPILE),
    "psutil": ("psutil", COMPILE),
    "tornado": ("tornado", COMPILE),
    "torch": ("torch", _TORCH),
    "tensorboardX": ("tensorboardX", _LOG),
    "pyarrow": ("pyarrow", _DATA),
    "pandas": ("pandas", "pip install pandas"),
    "PIL": ("pillow", _DATA),
    "tokenizers": ("tokenizers", _DATA),
    "onnxscript": ("onnxscript", _TORCH),
}


def missing_package(
    error: ModuleNotFoundError, where: str | None = None
) -> MissingPackageError | None:
    """The error of what needs a package; None if it is none of the table that is missing.

    Args:
        error: of the import.
        where: what its user calls that which needs it.
    """
    name = (error.name or "").partition(".")[0]
    return _missing(name, where) if name in PACKAGES else None


def require_packages(*names: str) -> None:
    """Checks before long work that packages can be imported.

    Args:
        names: that are imported, of the table.

    Raises:
        MissingPackageError: one is not installed.
    """
    for name in names:
        if find_spec(name) is None:
            raise _missing(name)


def _missing(name: str, where: str | None = None) -> MissingPackageError:
    package, command = PACKAGES[name]
    return MissingPackageError(
        f"the package {package} is not installed, but it is needed here",
        where=where,
        hint=f"run `{command}`",
    )
