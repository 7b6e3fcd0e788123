"""Which cores a step's threads run on, as a user says it: `big`, `little`, `all`, or `4,5`."""

import re
from collections.abc import Mapping, Sequence

from odtc.core.errors import UsageError
from odtc.core.options.option_text import did_you_mean

BIG, LITTLE, ALL = "big", "little", "all"
WORDS = (BIG, LITTLE, ALL)
_NUMBERS = re.compile(r"\d{1,4}(,\d{1,4})*")

# The highest frequency of each core that a device has, in kilohertz; 0 where it does not say.
Speeds = Mapping[int, int]


def parse_cores(text: str) -> str:
    """Checks a choice of cores, as far as it can be done without the device.

    Returns:
        The text.

    Raises:
        UsageError: it is neither a word nor numbers, or a number comes twice.
    """
    if text not in WORDS and not _NUMBERS.fullmatch(text):
        raise UsageError(
            f"cores {text!r} is unknown",
            hint=f"{did_you_mean(text, WORDS)}give {', '.join(WORDS)}, or the numbers of cores, "
            "such as 4,5",
        )
    numbers = text.split(",")
    if len({int(it) for it in numbers if it.isdecimal()}) < len(numbers) and text not in WORDS:
        raise UsageError(f"cores {text!r} name a core twice", hint="give each core one thread")
    return text


def cores_of(choice: str, speeds: Speeds) -> list[int]:
    """The cores that a choice stands for; the first is the caller's.

    Args:
        choice: a text that `parse_cores` takes.
        speeds: of the device. Big is what is not among its slowest, and all where all are alike;
            little is what is among them.

    Returns:
        The fastest first; of `little` the last of the slowest first.

    Raises:
        UsageError: the device has no such core.
    """
    fastest = sorted(speeds, key=lambda core: (-speeds[core], core))
    slowest = min(speeds.values())
    alike = max(speeds.values()) == slowest
    if choice == ALL:
        return fastest
    if choice == BIG:
        return [core for core in fastest if alike or speeds[core] > slowest]
    if choice == LITTLE:
        return [core for core in reversed(fastest) if speeds[core] == slowest]
    wanted = [int(number) for number in choice.split(",")]
    missing = [core for core in wanted if core not in speeds]
    if missing:
        raise UsageError(
            f"the device has no core {missing[0]}",
            where=f"cores {choice}",
            hint=f"give some of {','.join(map(str, sorted(speeds)))}",
        )
    return wanted


def cores_of_threads(count: int, choice: str | None, speeds: Speeds) -> list[int]:
    """The core of each thread.

    Args:
        count: of threads; 0 for one on each core that is chosen.
        choice: of cores; None for the fastest first, as many as there are.
        speeds: of the device.

    Raises:
        UsageError: the device has no such core, or more threads than cores are asked for.
    """
    if choice is None:
        return cores_of(ALL, speeds)[: count or None]
    found = cores_of(choice, speeds)
    if count > len(found):
        raise UsageError(
            f"threads {count} is above {len(found)}, the number of cores",
            where=f"cores {choice}: {_listed(found)}",
            hint="give each thread a core, or fewer threads",
        )
    return found[: count or None]


def _listed(cores: Sequence[int]) -> str:
    return ",".join(map(str, sorted(cores)))
