"""Every schedule against its peer in `torch.optim.lr_scheduler`."""

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odtc.core.errors import UsageError
from odtc.schedules import (
    SCHEDULES,
    Constant,
    Cosine,
    OneCycle,
    Schedule,
    Step,
    Warmup,
    parse_schedule,
)

LR = 0.2
KINDS = torch.optim.lr_scheduler
CALM = settings(deadline=None, max_examples=40)


def by_torch(make, steps: int) -> list[float]:
    """The learning rate of each step."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
    schedule = make(optimizer)
    rates = []
    for step in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step < steps - 1:
            schedule.step()
    return rates


def assert_equal(schedule: Schedule, expected: list[float]) -> None:
    for updates, rate in enumerate(expected):
        assert schedule(updates) == pytest.approx(rate, rel=1e-9, abs=1e-12), updates


@given(every=st.integers(1, 9), gamma=st.floats(0.01, 1.5))
@CALM
def test_step(every: int, gamma: float) -> None:
    expected = by_torch(lambda o: KINDS.StepLR(o, every, gamma), 30)
    assert_equal(Step(LR, every=every, gamma=gamma), expected)


@given(steps=st.integers(1, 40), minimum=st.floats(0, 0.1))
@CALM
def test_cosine(steps: int, minimum: float) -> None:
    expected = by_torch(lambda o: KINDS.CosineAnnealingLR(o, steps, minimum), steps + 1)
    schedule = Cosine(LR, steps=steps, minimum=minimum)
    assert_equal(schedule, expected)
    assert schedule(steps + 7) == minimum


@given(
    steps=st.integers(2, 60),
    rise=st.floats(0.0, 0.95),
    start=st.floats(1, 50),
    end=st.floats(1, 1e5),
)
@example(steps=2, rise=0.75, start=1.0, end=2.0)  # down within less than a step
@CALM
def test_one_cycle(steps: int, rise: float, start: float, end: float) -> None:
    if math.isclose(rise * steps, 1.0):
        return  # PyTorch divides by the length of the rise, which is 0 here
    expected = by_torch(
        lambda o: KINDS.OneCycleLR(
            o, LR, steps, pct_start=rise, div_factor=start, final_div_factor=end
        ),
        steps,
    )
    schedule = OneCycle(LR, steps=steps, rise=rise, start=start, end=end)
    assert_equal(schedule, expected)
    assert schedule(steps + 5) == pytest.approx(schedule(steps - 1))


@given(warmup=st.integers(1, 12), start=st.floats(0.01, 0.99), steps=st.integers(1, 20))
@CALM
def test_warmup(warmup: int, start: float, steps: int) -> None:
    expected = by_torch(
        lambda o: KINDS.SequentialLR(
            o,
            [KINDS.LinearLR(o, start, total_iters=warmup), KINDS.CosineAnnealingLR(o, steps)],
            [warmup],
        ),
        warmup + steps,
    )
    assert_equal(Warmup(Cosine(LR, steps=steps), steps=warmup, start=start), expected)


def test_constant_and_a_warmup_from_zero() -> None:
    schedule = Warmup(Constant(LR), steps=4)
    assert [schedule(updates) for updates in range(6)] == pytest.approx(
        [0, LR / 4, LR / 2, 3 * LR / 4, LR, LR]
    )


def test_text() -> None:
    assert parse_schedule("constant", LR, 10) == Constant(LR)
    assert parse_schedule("cosine", LR, 10) == Cosine(LR, steps=10)
    assert parse_schedule("cosine{steps=3,minimum=0.1}", LR, 10) == Cosine(LR, 3, 0.1)
    assert parse_schedule("one-cycle{start=2}", LR, 10) == OneCycle(LR, 10, start=2.0)
    assert parse_schedule("step{every=3}", LR, 10) == Step(LR, 3)
    with pytest.raises(UsageError, match="lacks its option every"):
        parse_schedule("step", LR, 10)
    assert all(kind.name == name for name, kind in SCHEDULES.items())
