"""Descriptions of phones, each by one question over adb; all phones are asked at the same time."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from odtc.core.errors import DeviceError
from odtc.runtime_rpc.adb import state
from odtc.runtime_rpc.adb.client import Adb, Listed, listed
from odtc.runtime_rpc.adb.state import LOOPBACK
from odtc.runtime_rpc.tracker import greeting

_SECONDS = 10.0
_ASK_SECONDS = 3.0
_MARK = "=odtc="
# Name of each part, and the command that prints it.
_PARTS = {
    "properties": "getprop",
    "memory": "cat /proc/meminfo",
    "cores": "grep 'CPU part' /proc/cpuinfo",
    "frequencies": "cat /sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq",
    "battery": "dumpsys battery",
    "gpu": "cat /sys/class/kgsl/kgsl-3d0/gpu_model /sys/class/misc/mali0/device/gpuinfo",
    "heat": "for zone in /sys/class/thermal/thermal_zone*; do "
    'echo "$(cat $zone/type) $(cat $zone/temp)"; done',
}
_COMMAND = "; ".join(f"echo {_MARK}{name}; {{ {it}; }} 2>/dev/null" for name, it in _PARTS.items())
_PROPERTY = re.compile(r"^\[(?P<name>[^]]+)\]: \[(?P<value>.*)\]$", re.MULTILINE)
# Arm's cores, by their part number.
CORES = {
    0xD03: "Cortex-A53",
    0xD05: "Cortex-A55",
    0xD46: "Cortex-A510",
    0xD80: "Cortex-A520",
    0xD08: "Cortex-A72",
    0xD09: "Cortex-A73",
    0xD0A: "Cortex-A75",
    0xD0B: "Cortex-A76",
    0xD0D: "Cortex-A77",
    0xD41: "Cortex-A78",
    0xD47: "Cortex-A710",
    0xD4D: "Cortex-A715",
    0xD81: "Cortex-A720",
    0xD44: "Cortex-X1",
    0xD48: "Cortex-X2",
    0xD4E: "Cortex-X3",
    0xD82: "Cortex-X4",
}


@dataclass(frozen=True)
class ListedPhone:
    """A phone, as it is listed.

    Attributes:
        serial: as adb has it.
        state: adb's word; `device` if all is well.
        facts: what the phone reports of itself; a key is missing where it reports nothing.
        key: that it was set up under, or None.
        url: address for `odtc.connect`, or None.
        busy: whether a session runs; None where no server answers.
        other: what is of another version or build in its server; empty for nothing.
    """

    serial: str
    state: str
    facts: dict[str, Any]
    key: str | None = None
    url: str | None = None
    busy: bool | None = None
    other: str = ""


def find_phones() -> list[ListedPhone]:
    """All phones that adb knows, each with its own description.

    Raises:
        DeviceError: there is no adb, or its server does not answer.
    """
    phones = listed()
    with ThreadPoolExecutor(max_workers=max(len(phones), 1)) as pool:
        return list(pool.map(_found, phones))


def _found(phone: Listed) -> ListedPhone:
    facts: dict[str, Any] = {"model": phone.model} if phone.model else {}
    if phone.state != "device":
        return ListedPhone(phone.serial, phone.state, facts)
    try:
        facts |= facts_of(Adb(phone.serial))
    except DeviceError as error:
        return ListedPhone(phone.serial, f"no answer: {error.what}", facts)
    known = state.find(phone.serial)
    if known is None:
        return ListedPhone(phone.serial, phone.state, facts)
    try:
        said = greeting.status((LOOPBACK, known.port), _ASK_SECONDS, phone.serial)
    except DeviceError:
        said = None
    busy = None if said is None else bool(said.get("busy"))
    other = greeting.differences(said) if said else ""
    return ListedPhone(phone.serial, phone.state, facts, known.key, known.url, busy, other)


def facts_of(adb: Adb) -> dict[str, Any]:
    """What a phone reports of itself: see `parse`.

    Raises:
        DeviceError: it does not answer.
    """
    return parse(adb.shell(f"{_COMMAND}; true", seconds=_SECONDS))


def parse(text: str) -> dict[str, Any]:
    """Parses facts from the output of the parts; facts that a phone does not have are left out."""
    parts: dict[str, str] = {}
    for part in text.split(_MARK)[1:]:
        name, _, rest = part.partition("\n")
        parts[name.strip()] = rest.strip()
    properties = {m["name"]: m["value"] for m in _PROPERTY.finditer(parts.get("properties", ""))}
    facts = {
        "model": properties.get("ro.product.model"),
        "android": properties.get("ro.build.version.release"),
        "abi": properties.get("ro.product.cpu.abi"),
        "soc": _soc(properties),
        "emulated": properties.get("ro.kernel.qemu") == "1",
        "cores": _cores(parts.get("cores", ""), parts.get("frequencies", "")),
        "gpu": parts.get("gpu", "").partition("\n")[0] or properties.get("ro.hardware.egl"),
        "memory_bytes": _memory(parts.get("memory", ""), "MemTotal"),
        "available_bytes": _memory(parts.get("memory", ""), "MemAvailable"),
        **_battery(parts.get("battery", "")),
        "hottest_celsius": _hottest(parts.get("heat", "")),
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _soc(properties: dict[str, str]) -> str:
    maker, model = (properties.get(f"ro.soc.{name}", "") for name in ("manufacturer", "model"))
    return f"{maker} {model}".strip() or properties.get("ro.board.platform", "")


def _cores(parts: str, frequencies: str) -> str:
    """Describes cores, such as `4 x Cortex-A55 1.8 GHz + 4 x Cortex-A76 2.4 GHz`."""
    numbers = [int(line.rpartition(":")[2], 16) for line in parts.splitlines()]
    names = [CORES.get(number, f"part {number:#x}") for number in numbers]
    kilohertz = [int(line) for line in frequencies.split()]
    if len(kilohertz) == len(names):
        names = [f"{it} {f / 1e6:.1f} GHz" for it, f in zip(names, kilohertz, strict=True)]
    return " + ".join(f"{count} x {name}" for name, count in Counter(names).items())


def _memory(text: str, name: str) -> int | None:
    match = re.search(rf"^{name}: *(\d+) kB", text, re.MULTILINE)
    return int(match[1]) << 10 if match else None


def _battery(text: str) -> dict[str, Any]:
    """Charge in percent, temperature, and whether the phone is plugged in."""
    lines = dict(line.strip().split(": ", 1) for line in text.splitlines() if ": " in line)
    found: dict[str, Any] = {}
    if lines.get("level", "").isdecimal():
        found["battery_percent"] = int(lines["level"])
    if lines.get("temperature", "").isdecimal():
        found["battery_celsius"] = int(lines["temperature"]) / 10
    powered = [value == "true" for name, value in lines.items() if name.endswith("powered")]
    return found | ({"plugged": any(powered)} if powered else {})


def _hottest(text: str) -> float | None:
    """Returns the hottest of the chip's zones; some phones give thousandths of a degree."""
    degrees = []
    for line in text.splitlines():
        kind, _, value = line.rpartition(" ")
        if value.lstrip("-").isdecimal() and re.search(
            "cpu|gpu|soc|cluster|big|little", kind, re.I
        ):
            degrees.append(int(value) / (1000 if abs(int(value)) > 200 else 1))
    return max(degrees, default=None)
