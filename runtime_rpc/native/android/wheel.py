"""The odtc-device for Android of a wheel.

`python -m odtc.runtime_rpc.native.android.wheel VERSION` writes it into the package that it is run
in: `setup.py` runs it in what a wheel is made of. Where there is no compiler for 64-bit ARM, the
wheel is built without it, and `odtc device setup` asks for one, as in a checkout.
"""

import shutil
import sys

from odtc.backends.objects.link import find_linker
from odtc.core.errors import BuildError, OdtcError
from odtc.runtime_rpc.native.android.compiler import TARGET, arm_compiler
from odtc.runtime_rpc.native.android.device import PREBUILT, compile_device, prebuilt_path


def main(version: str) -> int:
    """Writes the program into the package; without the tools for it, says so and writes none.

    Args:
        version: of odtc.
    """
    # Folders of builds are kept, and so would be what an older one made.
    shutil.rmtree(PREBUILT, ignore_errors=True)
    PREBUILT.mkdir()
    try:
        compiler = arm_compiler()
        find_linker(TARGET)
    except BuildError as error:
        print(f"note: the wheel has no server for phones: {error}", file=sys.stderr)
        return 0
    try:
        compile_device(compiler, prebuilt_path(version), version)
    except OdtcError as error:
        print(f"error: the wheel's server for phones: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
