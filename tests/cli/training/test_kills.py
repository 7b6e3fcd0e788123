"""Commands that are killed at random moments lose, damage and leave nothing: see `tests.kills`."""

from pathlib import Path

import pytest

from tests.cli.training.digits import Digits
from tests.fast import fast_if
from tests.kills.kinds import KINDS, killed

# Of each kind: more where one takes less than a second.
FEW = {"train": 12, "compile": 3, "tune": 1, "device": 4, "server": 1, "session": 2}
FEW |= {"step-cpu": 3, "step-opencl": 1, "step-vulkan": 1}
# The others take half a minute each.
FAST = KINDS.keys() - {"tune", "server", "step-vulkan"}


def test_every_kind_is_killed():
    assert FEW.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", fast_if(FAST.__contains__, KINDS))
def test_what_is_killed_is_taken_up(kind: str, digits: Digits, tmp_path: Path):
    print(killed(kind, FEW[kind], digits, tmp_path, 0, learn=False))
