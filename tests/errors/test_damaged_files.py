"""Files whose bytes were damaged at random: each is read or refused, without a traceback."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from odtc.backends.targets import parse_target
from odtc.core.errors import OdtcError
from odtc.driver.examination import examine
from odtc.driver.options.step_options import StepOptions
from tests.errors.place import Place


def damaged(data: bytes, rng: random.Random, hot: int) -> bytes:
    """A copy with some bytes changed or lost; most are near either end, where the structure is."""
    copy = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        near = rng.choice([rng.randrange(hot), len(copy) - 1 - rng.randrange(hot)])
        at = rng.choice([near, near, rng.randrange(len(copy))])
        if rng.random() < 0.7:
            copy[at] = rng.randrange(256)
        else:
            del copy[at : at + rng.randrange(1, 4)]
    return bytes(copy)


def inspect(path: Path) -> None:
    """Does what `odtc inspect` does with a file."""
    import odtc
    from odtc.cli.model.inspect import describe
    from odtc.cli.model.memory import report

    artifact = odtc.load(path)
    describe(artifact.manifest, path)
    report(artifact.memory)


@pytest.mark.parametrize(
    ("use", "source", "hot"),
    [
        (lambda path: examine(str(path), parse_target("host-cpu"), StepOptions()), "model", 400),
        (inspect, "artifact", 300),
    ],
    ids=["check", "inspect"],
)
def test_a_damaged_file_is_read_or_refused(
    use: Callable[[Path], object], source: str, hot: int, place: Place
):
    data = getattr(place.digits, source).read_bytes()
    rng = random.Random(1)
    found: Counter[str] = Counter()
    for _ in range(150):
        path = place.write("damaged", damaged(data, rng, hot))
        try:
            use(path)
            found["read"] += 1
        except OdtcError:
            found["refused"] += 1
    assert found["read"] + found["refused"] == 150
    assert found["refused"] > 50
