"""`odtc device setup|stop|doctor|shell`: one phone behind adb; and `build`: the server alone."""

import argparse
import platform
import signal
import subprocess
import sys
from pathlib import Path

from odtc.cli.console import emit, emit_json, flush, say, stages
from odtc.cli.options import add_json_option, at_least
from odtc.core.errors import ExitCode

_LAST_PORT = (1 << 16) - 1
_KNOWN = "adb knows"
# As a shell has it, of a process that a signal has ended.
_SIGNALLED = 128


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "device",
        help="set up a phone, stop its server or diagnose it; build a device's server",
        description="Manage one phone connected to adb, or build the server for another device.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    setup = actions.add_parser(
        "setup", help="push odtc's server to a phone, start it and register it"
    )
    _serial(setup, _KNOWN)
    setup.add_argument(
        "--key",
        help="key of the phone at the tracker, without spaces and slashes (default: its current "
        "key, or at first one from its serial)",
    )
    setup.add_argument(
        "--tracker",
        type=at_least(0, _LAST_PORT),
        metavar="PORT",
        help="port of the tracker on this host's loopback, which is started if there is none; 0 "
        "for any free port (default: the phone's current one, or at first 9190)",
    )
    setup.set_defaults(run=_setup)
    stop = actions.add_parser("stop", help="stop the server and the forwarding of ports")
    _serial(stop, "was set up from here")
    stop.set_defaults(run=_stop)
    doctor = actions.add_parser("doctor", help="check each link to the server")
    _serial(doctor, _KNOWN)
    doctor.set_defaults(run=_doctor)
    shell = actions.add_parser("shell", help="open a shell in the server's folder")
    shell.add_argument(
        "serial", metavar="SERIAL", help="serial of the phone, as `odtc devices` lists it"
    )
    words = shell.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="WORD",
        help="command to run instead of a shell, with its options",
    )
    words.required = False  # argparse asks for some where a serial is missing
    shell.set_defaults(run=_shell)
    build = actions.add_parser(
        "build",
        help="build the server for a device, such as a board with Linux",
        description="Build odtc-device, a server in C for the CPU of a device: one with Linux, "
        "such as a Raspberry Pi, or a phone, to which `odtc device setup` also pushes it by "
        "itself. It registers at TVM's tracker, and runs artifacts for that CPU.",
    )
    build.add_argument(
        "--machine",
        choices=("aarch64", "x86_64", "android"),
        default=platform.machine(),
        help="kind of device: Linux on aarch64 or x86_64, or a phone with Android on 64-bit ARM "
        "(default: that of this machine)",
    )
    build.add_argument(
        "-o", "--output", default="odtc-device", help="program to write (default: odtc-device)"
    )
    build.set_defaults(run=_build)
    for action in (setup, doctor):
        add_json_option(action)


def _serial(parser: argparse.ArgumentParser, only: str) -> None:
    parser.add_argument(
        "serial",
        nargs="?",
        metavar="SERIAL",
        help=f"serial of the phone, as `odtc devices` lists it (default: the only one that {only})",
    )


def _plugged_in(serial: str | None) -> str:
    from odtc.runtime_rpc.adb.client import listed, only_serial

    return serial or only_serial((each.serial for each in listed()), "are known to adb")


def _setup(args: argparse.Namespace) -> int:
    from odtc.runtime_rpc.adb.setup import set_up

    serial = _plugged_in(args.serial)
    with stages() as progress:
        phone = set_up(serial, args.key, args.tracker, progress)
    if args.json:
        emit_json(vars(phone) | {"url": phone.url})
    else:
        emit(phone.url)
    return ExitCode.OK


def _build(args: argparse.Namespace) -> int:
    from odtc.core.disk.files import atomic_write
    from odtc.runtime_rpc.native.android.device import android_device
    from odtc.runtime_rpc.native.device.build import compiler_for, device_program

    if args.machine == "android":
        content, system = android_device(), "Android on aarch64"
    else:
        content, system = device_program(compiler_for(args.machine)), f"Linux on {args.machine}"
    with atomic_write(Path(args.output)) as temporary:
        temporary.write_bytes(content)
        temporary.chmod(0o755)
    emit(f"{args.output}: {len(content):,} bytes for {system}")
    return ExitCode.OK


def _stop(args: argparse.Namespace) -> int:
    from odtc.runtime_rpc.adb import state
    from odtc.runtime_rpc.adb.client import only_serial
    from odtc.runtime_rpc.adb.setup import stop

    known = (each.serial for each in state.phones())
    serial = args.serial or only_serial(known, "were set up from here")
    if why := stop(serial):
        say(f"note: {serial} is forgotten, and no server was stopped there: {why}")
    return ExitCode.OK


def _doctor(args: argparse.Namespace) -> int:
    from odtc.runtime_rpc.adb.doctor import examine

    checks = list(examine(_plugged_in(args.serial)))
    if args.json:
        emit_json({"checks": [vars(check) for check in checks]})
    else:
        for check in checks:
            first, *log = check.said.splitlines()
            mark = "ok    " if check.well else "BROKEN"
            emit(f"{mark}  {check.name}: {first}", *(f"        {line}" for line in log))
            if check.hint:
                emit(f"        {check.hint}")
    return ExitCode.OK if all(check.well for check in checks) else ExitCode.DEVICE


def _shell(args: argparse.Namespace) -> int:
    """Runs adb's shell, whose keys and signals are its own."""
    from odtc.runtime_rpc.adb.client import Adb, find_adb
    from odtc.runtime_rpc.adb.server import FOLDER

    Adb(args.serial).check()
    enter = f"cd {FOLDER} 2>/dev/null;"
    given = args.words[1:] if args.words[:1] == ["--"] else args.words
    if given:
        words = [" ".join([enter, *given])]
    elif sys.stdin.isatty():
        words = ["-t", f"{enter} exec sh -i"]
    else:
        words = [f"{enter} exec sh"]
    flush()
    with subprocess.Popen([find_adb(), "-s", args.serial, "shell", *words]) as shell:
        # Ctrl-C is the shell's, which it ends or not.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            code = shell.wait()
        finally:
            signal.signal(signal.SIGINT, before)
    return code if code >= 0 else _SIGNALLED - code
