"""What a file of measurements says of the device that it was measured on."""

from typing import Any
from urllib.parse import unquote

from odtc.runtime_rpc.adb.client import Adb
from odtc.runtime_rpc.adb.describe import facts_of
from odtc.runtime_rpc.connect import connect

_ADB = "adb://"
# What stays as it is from one measurement to the next, and is no one's own: no serial, no address.
_OF_PHONES = ("model", "soc", "cores", "gpu", "android", "abi", "memory_bytes", "emulated")
_OF_OTHERS = ("machine", "cpus", "emulated")


def described_device(url: str) -> dict[str, Any]:
    """Facts of a device, by name; what it does not say of itself is left out.

    Args:
        url: of `odtc.connect`; a phone behind adb says more than others.

    Raises:
        DeviceError: it does not answer.
        UsageError: the URL has another form.
    """
    if url.startswith(_ADB):
        adb = Adb(unquote(url.removeprefix(_ADB)))
        adb.check()
        names, facts = _OF_PHONES, facts_of(adb)
    else:
        session = connect(url)
        names, facts = _OF_OTHERS, session.info()
        session.close()
    return {name: facts[name] for name in names if name in facts}
