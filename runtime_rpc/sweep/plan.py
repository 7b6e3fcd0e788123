"""The configurations of a sweep, and the order in which they are measured."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from odtc.backends.targets import CPU, Target
from odtc.core.errors import UsageError
from odtc.core.options.cores import ALL, BIG, LITTLE, Speeds, cores_of
from odtc.runtime_rpc.sweep.row import Configuration, SweepRow

# A device that does not report its cores has these.
_UNKNOWN = ((BIG, (1, 2, 4)), (LITTLE, (1, 2, 4)))
# A step on a GPU is measured in one way.
_OF_A_GPU = (("", (0,)),)


@dataclass(frozen=True)
class Choices:
    """The dimensions of a sweep beside the model and its batch.

    Attributes:
        cores: as of `Session.use_threads`; if empty, big, little and all, where they differ.
        threads: numbers of them; if empty, powers of two up to the number of such cores, and that.
        frequencies: levels; '' where the device chooses.
    """

    cores: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    frequencies: tuple[str, ...] = ("",)


def configurations(
    model: str, batch: int, choices: Choices, speeds: Speeds | None, target: Target
) -> list[Configuration]:
    """Returns the configurations of a model with one batch; some may turn out impossible."""
    found = tuple(_threads_by_cores(choices, speeds)) if target.kind == CPU else _OF_A_GPU
    return [
        Configuration(model, batch, cores, threads, frequency)
        for frequency in choices.frequencies
        for cores, counts in found
        for threads in counts
    ]


def _threads_by_cores(
    choices: Choices, speeds: Speeds | None
) -> Iterator[tuple[str, Sequence[int]]]:
    if speeds is None:
        known = dict(_UNKNOWN)
        for cores in choices.cores or known:
            yield cores, choices.threads or known.get(cores, (1,))
        return
    alike = len(set(speeds.values())) == 1
    for cores in choices.cores or ((ALL,) if alike else (BIG, LITTLE, ALL)):
        yield cores, choices.threads or _up_to(_count(cores, speeds))


def _count(cores: str, speeds: Speeds) -> int:
    try:
        return len(cores_of(cores, speeds))
    except UsageError:  # reported when it is measured
        return 1


def _up_to(count: int) -> list[int]:
    powers = [1 << number for number in range(count.bit_length()) if 1 << number < count]
    return [*powers, count]


def turns(wanted: Sequence[Configuration], rounds: int) -> Iterator[tuple[int, Configuration]]:
    """Each configuration in each round; every other round goes backwards.

    What drifts with time, such as heat, so meets all of them alike.
    """
    for number in range(rounds):
        yield from ((number, each) for each in wanted[:: -1 if number % 2 else 1])


def missing(
    wanted: Sequence[Configuration], rounds: int, rows: Iterable[SweepRow]
) -> list[tuple[int, Configuration]]:
    """The turns that are left: one that has a row, or is impossible, is not taken again."""
    found = list(rows)
    done = {(row.round, row.configuration) for row in found}
    impossible = {row.configuration for row in found if row.reason}
    return [
        (number, each)
        for number, each in turns(wanted, rounds)
        if (number, each) not in done and each not in impossible
    ]
