"""Why a server on a phone has ended, or did not start: what its log says, and what to do."""

from odtc.core.errors import DeviceError
from odtc.runtime_rpc.adb.client import Adb

_LOG_LINES = 15
# By what the end of a log has; the phone's shell and loader write there, too.
_HINTS = {
    "ermission denied": "this phone lets adb's shell execute nothing in {folder}, by its SELinux "
    "policy or its maker's rules: `adb -s {serial} logcat -d` may have an `avc: denied`; take "
    "another phone",
    "o space left": "free space on the phone, in {folder}",
    "ddress already in use": "something else on the phone has that name: give it another one, "
    "`odtc device setup {serial} --key NAME`",
    "another server has its sessions": "a server that was not started so has {folder}: start the "
    "phone anew, which ends it",
}


def log_of(adb: Adb, folder: str) -> str:
    """The end of the server's log; empty where there is none."""
    try:
        return adb.shell(f"tail -n {_LOG_LINES} {folder}/log").strip()
    except DeviceError:
        return ""


def not_running(what: str, adb: Adb, folder: str, hint: str) -> DeviceError:
    """The error for a server that does not run.

    Args:
        what: is wrong, in front of its log.
        adb: of the phone.
        folder: of the server there.
        hint: what to do where the log does not say it.
    """
    log = log_of(adb, folder)
    known = next((text for words, text in _HINTS.items() if words in log), "")
    return DeviceError(
        f"{what}; its log ends with\n{log}" if log else f"{what}, and has no log",
        where=f"{adb.serial}, {folder}",
        hint=known.format(serial=adb.serial, folder=folder) if known else hint,
    )
