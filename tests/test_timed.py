"""The comparison of times that tests marked `timed` assert on, by a clock that a test turns."""

import pytest

from tests.timed import figures, ratio, seconds


class Turned:
    """A clock that goes on by what runs: by so many seconds in each round."""

    def __init__(self) -> None:
        self.now, self.ran = 0.0, ""

    def __call__(self) -> float:
        return self.now

    def running(self, name: str, *rounds: float):
        left = iter(rounds)

        def run() -> None:
            self.ran += name
            self.now += next(left)

        return run


def test_both_run_in_turns_and_one_slow_round_decides_nothing() -> None:
    clock = Turned()
    one, other = clock.running("a", 2, 2, 900), clock.running("b", 1, 1, 1)
    found = ratio(one, other, rounds=3, clock=clock)
    assert clock.ran == "abbaab"
    assert found.each == (2, 2, 900)
    assert found.median == 2


def test_what_fails_tells_each_round() -> None:
    clock = Turned()
    found = seconds(clock.running("a", 0.25, 4, 0.5), rounds=3, clock=clock)
    with pytest.raises(AssertionError, match=r"median 0.5, 0.25 to 4 in 3: 0.25, 4, 0.5"):
        assert found.median < 0.5, found
    assert figures(iter([3.0])).median == 3
