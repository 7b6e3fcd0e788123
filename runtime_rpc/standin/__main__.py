"""`python -m odtc.runtime_rpc.standin build|serve`.

`build` makes the root folder of phones with TVM's runtime and prints its path: those of tests that
tune, and those with OpenCL. `serve` starts a phone, prints its URL
and stays until Ctrl-C or SIGTERM. Results go to stdout, progress to stderr.
"""

import argparse
import signal
import sys
from contextlib import suppress
from types import FrameType

from rich.console import Console

from odtc.core.errors import ExitCode, OdtcError
from odtc.core.process.missing_packages import require_packages
from odtc.runtime_rpc.standin.root import build_root

_console = Console(stderr=True)


def _tell(stage: str) -> None:
    _console.print(f"[dim]{stage} …[/dim]")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m odtc.runtime_rpc.standin", description="An emulated phone."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="make the root folder of one with TVM's runtime")
    serve = commands.add_parser("serve", help="run it and print its URL")
    serve.add_argument("--key", default="android", help="device key (default: %(default)s)")
    serve.add_argument("--port", type=int, default=0, help="the tracker's port (default: any)")
    serve.add_argument("--gpu", action="store_true", help="with a slow OpenCL device: PoCL")
    return parser


def _serve(key: str, port: int, *, gpu: bool) -> None:
    from odtc.runtime_rpc.standin.phone import EmulatedPhone
    from odtc.runtime_rpc.standin.systems import android, linux_with_gpu

    signal.signal(signal.SIGTERM, _interrupt)
    system = linux_with_gpu if gpu else android
    with EmulatedPhone(key, port, _tell, system=system) as phone, suppress(KeyboardInterrupt):
        print(phone.url, flush=True)
        phone.wait()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and gives the exit status."""
    options = _parser().parse_args(arguments)
    try:
        require_packages("tvm", "psutil")
        if options.command == "build":
            print(build_root(_tell))
        else:
            _serve(options.key, options.port, gpu=options.gpu)
    except OdtcError as error:
        _console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
