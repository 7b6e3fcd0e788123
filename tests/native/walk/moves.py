"""The calls of a walk, each with how often it is drawn."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odtc.core.specs import Role
from tests.native.walk.sides import InC, OfPython, Side, result_of
from tests.native.walk.walking import Walk

_WEIGHTS = (Role.PARAMETER, Role.FROZEN, Role.STATISTIC)


def step(walk: Walk) -> None:
    """A step with one of the batches, which may fail alike."""
    number = walk.rng.randrange(len(walk.data))
    lr = walk.lr * walk.rng.choice([0.0, 0.1, 1.0, 3.0])
    _step(walk, f"step {number} {lr}", *walk.data[number], lr)


def _step(walk: Walk, said: str, x: Any, y: Any, lr: float) -> None:
    walk.say(said)
    if walk.on_all(lambda side: side.step(x, y, lr)) == "NumericError":
        load(walk)


def poisoned(walk: Walk) -> None:
    """A batch with values that overflow or are no numbers."""
    x, y = walk.data[0]
    value = walk.rng.choice([np.nan, np.inf, 1e30])
    bad = {name: each.copy() for name, each in x.items()}
    for each in bad.values():
        if each.dtype == np.float32:
            each.flat[walk.rng.randrange(each.size)] = value
    _step(walk, f"step with {value}", bad, y, walk.lr)


def mislabelled(walk: Walk) -> None:
    """A label that is no class changes nothing."""
    x, y = walk.data[0]
    if y.dtype.kind == "i":
        bad = y.copy()
        bad.flat[walk.rng.randrange(bad.size)] = walk.rng.choice([-1, 10**6])
        walk.say("step with a bad label")
        walk.on_all(lambda side: side.step(x, bad, walk.lr))
        walk.compare()


def evaluate(walk: Walk) -> None:
    """An output of a whole batch."""
    known = [e for e in walk.manifest.evaluations if e.place or walk.manifest.micro_batches == 1]
    if known:
        each = walk.rng.choice(known)
        ema = walk.rng.random() < 0.5
        x, _ = walk.rng.choice(walk.data)
        walk.say(f"evaluate {each.output.name} {ema}")
        if ema and not walk.manifest.of_role(Role.AVERAGE):
            ema = False
        walk.on_all(lambda side: side.evaluate(x, each.output.name, ema))


def evaluate_some(walk: Walk) -> None:
    """An output of some samples, which odtc's trainers fill up."""
    known = [each for each in walk.manifest.evaluations if each.place]
    both = [each for each in walk.sides if isinstance(each, OfPython)]
    x, _ = walk.data[0]
    inputs = walk.manifest.of_role(Role.INPUT)
    if known and not any(each.spec.name not in x for each in inputs):
        count = walk.rng.randrange(1, 7)
        some = {name: np.concatenate([value, value])[:count] for name, value in x.items()}
        walk.say(f"evaluate {count} samples")
        walk.on_all(lambda side: side.evaluate(some, known[0].output.name, False), both)


def save(walk: Walk) -> None:
    """A checkpoint of each side."""
    walk.save()


def load(walk: Walk) -> None:
    """All go on from a checkpoint that one of them wrote."""
    path = walk.rng.choice(walk.checkpoints)
    walk.say(f"load {path.name}")
    walk.on_all(lambda side: side.load(path))
    walk.compare()


def restart(walk: Walk) -> None:
    """One of them begins anew, from a checkpoint of another one."""
    if not walk.save():
        load(walk)
        return
    gone = walk.rng.choice(walk.sides)
    walk.say(f"{gone.name} begins anew")
    gone.reopen()
    path = walk.checkpoints[-1]
    gone.load(path)
    walk.compare()


def budget(walk: Walk) -> None:
    """Another plan, or a budget that none fits."""
    plans = [walk.manifest.budget_of(each) for each in walk.manifest.plans]
    nbytes = walk.rng.choice([*plans, *plans, plans[0] * 2, plans[-1] - 1, 1])
    walk.say(f"budget {nbytes}")
    walk.on_all(lambda side: side.set_budget(nbytes))


def threads(walk: Walk) -> None:
    """Each side gets a number of its own."""
    for each in walk.sides:
        count = walk.rng.choice([1, 2, 3, 4])
        walk.say(f"{each.name}: {count} threads")
        each.use_threads(count)


def write(walk: Walk) -> None:
    """A weight of any kind gets other values."""
    item = walk.rng.choice(walk.manifest.of_role(*_WEIGHTS))
    value = np.random.default_rng(walk.rng.randrange(2**32)).uniform(0.1, 0.5, item.spec.shape)
    walk.say(f"write {item.spec.name}")
    walk.on_all(lambda side: side.write({item.spec.name: value.astype(item.spec.dtype)}))
    walk.compare()


def cancel(walk: Walk) -> None:
    """A step that is cancelled before it begins is none."""
    (native,) = (each.native for each in walk.sides if isinstance(each, InC))
    now = walk.rng.random() < 0.5
    walk.say(f"cancel {now}")
    native.cancel(now=now)
    assert result_of(lambda: native.step(walk.lr)) == "cancelled"
    walk.compare()


def profile(walk: Walk) -> None:
    """A step that is timed by those that can."""
    x, y = walk.data[1]

    def timed(side: Side) -> str:
        if isinstance(side, InC):
            side.native.start_clock()
            try:
                return side.step(x, y, walk.lr)
            finally:
                assert side.native.stop_clock()
        if isinstance(side, OfPython) and side.name == "Python":
            with side.trainer.profile():
                return side.step(x, y, walk.lr)
        return side.step(x, y, walk.lr)

    walk.say("profiled step")
    if walk.on_all(timed) == "NumericError":
        load(walk)


# Each move with its weight.
MOVES: Mapping[Callable[[Walk], None], int] = {
    step: 20,
    evaluate: 5,
    evaluate_some: 2,
    save: 3,
    load: 3,
    restart: 2,
    budget: 4,
    threads: 4,
    write: 2,
    poisoned: 1,
    mislabelled: 1,
    cancel: 1,
    profile: 1,
}


def take(walk: Walk, moves: int) -> None:
    """Makes so many calls, and compares all tensors at the end.

    Raises:
        AssertionError: something differs.
    """
    for move in walk.rng.choices([*MOVES], [*MOVES.values()], k=moves):
        move(walk)
    walk.compare()
