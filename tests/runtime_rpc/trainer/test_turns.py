"""A trainer in several threads, and after a fork: turns, clear errors, and nothing left behind."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import onnx
import pytest

import odtc
from odtc.core.errors import UsageError
from odtc.runtime_rpc.guards.turns import Turns
from odtc.runtime_rpc.guards.uninterrupted import uninterrupted
from tests.numeric.mlp import mlp_model

X = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
Y = np.arange(8) % 3


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("turns")
    path = folder / "mlp.odtc"
    onnx.save(mlp_model(), folder / "mlp.onnx")
    odtc.compile(folder / "mlp.onnx", "host-cpu{threads=2}", batch=8).save(path)
    return path


def in_a_process(code, artifact, **options):
    """Runs Python with a trainer `t`, inputs `x` and labels `y`; what it printed."""
    start = f"""
import os, threading, numpy as np, odtc
from odtc.core.errors import OdtcError
x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
y = np.arange(8) % 3
a = odtc.load({str(artifact)!r})
t = a.trainer(threads=2)
"""
    done = subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout.split()


def test_threads_have_turns(artifact):
    code = """
        losses = []
        def work():
            for _ in range(100):
                losses.append(t.step(x, y, 0.01)); t.evaluate(x); t.parameters()
        threads = [threading.Thread(target=work) for _ in range(4)]
        [each.start() for each in threads]; [each.join() for each in threads]
        print(t.steps, len(losses), np.isfinite(losses).all())
        other = a.trainer(threads=2)
        print(sorted(losses, reverse=True) == [other.step(x, y, 0.01) for _ in range(400)])
    """
    assert in_a_process(code, artifact) == ["400", "400", "True", "True"]


def test_threads_of_the_system_do_not_add_up(artifact):
    code = """
        def count(): return len(os.listdir("/proc/self/task"))
        def once(make):
            thread = threading.Thread(target=lambda: (make() if make else t).step(x, y, 0.01))
            thread.start(); thread.join()
        t.step(x, y, 0.01); once(None); once(lambda: a.trainer(threads=2))
        before = count()
        for _ in range(20): once(None); once(lambda: a.trainer(threads=2))
        print(count() - before)
    """
    (more,) = map(int, in_a_process(code, artifact))
    assert more <= 1


def test_a_forked_process_is_told(artifact):
    code = """
        t.step(x, y, 0.01)
        child = os.fork()
        if not child:
            for use in (lambda: t.step(x, y, 0.01), lambda: t.evaluate(x), a.trainer):
                try: use()
                except OdtcError as error: print(str(error).split()[2:4], flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        t.step(x, y, 0.01)
        print(t.steps)
    """
    assert in_a_process(code, artifact) == ["['was',", "'forked']"] * 3 + ["2"]


def test_steps_are_not_taken_within_steps():
    turns = Turns()

    def take(function, **options):
        return turns.take(function, lambda: None, **options)

    assert take(lambda: take(lambda: 3)) == 3
    with pytest.raises(UsageError, match="used while it takes a step"):
        take(lambda: take(lambda: 3), steps=True)
    assert take(lambda: 4) == 4


def test_a_block_gives_everything_back(artifact):
    with odtc.load(artifact) as loaded:
        root = loaded._bundle.root
        with loaded.trainer() as trainer:
            trainer.step(X, Y, 0.1)
            target = trainer._manifest.target
            assert repr(trainer) == f"<odtc.Trainer of {target}, 1 steps, open>"
        assert "closed" in repr(trainer)
        with pytest.raises(UsageError, match="the trainer is closed"):
            trainer.step(X, Y, 0.1)
        assert repr(loaded) == f"<odtc.Artifact for {target}, batches of 8>"
    assert not os.path.exists(root)


def test_a_trainer_goes_when_it_is_dropped(artifact):
    """At once: a device behind it is free for others then."""
    trainer = odtc.load(artifact).trainer()
    trainer.step(X, Y, 0.1)
    trainer.evaluate(X)
    seen = weakref.ref(trainer)
    gc.disable()
    try:
        del trainer
        assert seen() is None
    finally:
        gc.enable()


def test_other_threads_use_as_many_cores(artifact):
    """The settings go along to the thread that makes the calls of others."""
    trainer, found = odtc.load(artifact).trainer(threads=1), []
    trainer.step(X, Y, 0.1)
    thread = threading.Thread(target=lambda: found.append(trainer.step(X, Y, 0.1)))
    thread.start()
    thread.join()
    twin = odtc.load(artifact).trainer(threads=1)
    assert found == [[twin.step(X, Y, 0.1) for _ in range(2)][1]]


def test_an_interrupted_step_is_counted_if_it_was_taken(artifact, monkeypatch):
    trainer = odtc.load(artifact).trainer(threads=1)
    other = odtc.load(artifact).trainer(threads=1)
    take = trainer._engine.take

    def taken_and_interrupted(*given):
        losses = take(*given)
        signal.raise_signal(signal.SIGINT)
        return losses

    with monkeypatch.context() as patched:
        patched.setattr(trainer._engine, "take", taken_and_interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.step(X, Y, lr=0.1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    other.step(X, Y, lr=0.1)
    assert trainer.steps == other.steps == 1
    assert trainer.step(X, Y, lr=0.1) == other.step(X, Y, lr=0.1)


def test_a_second_interrupt_does_not_wait():
    said = []

    def press_twice():
        with uninterrupted():
            for number in range(2):
                signal.raise_signal(signal.SIGINT)
                said.append(number)

    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert said == [0]


def test_a_checkpoint_is_taken_up_whole_where_it_is_interrupted(artifact, tmp_path, monkeypatch):
    trainer = odtc.load(artifact).trainer(threads=1)
    trainer.step(X, Y, lr=0.1)
    trainer.save_checkpoint(tmp_path / "c.ckpt")
    saved = trainer.parameters()
    trainer.step(X, Y, lr=0.1)
    write = trainer._engine.write

    def interrupted(*given):
        signal.raise_signal(signal.SIGINT)
        write(*given)

    with monkeypatch.context() as patched:
        patched.setattr(trainer._engine, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.load_checkpoint(tmp_path / "c.ckpt")
    assert trainer.steps == 1
    for name, value in trainer.parameters().items():
        assert np.array_equal(value, saved[name])


def test_who_waits_while_it_is_closed_is_told(artifact):
    trainer = odtc.load(artifact).trainer(threads=1)
    turns, found = trainer._turns, []

    def step():
        try:
            trainer.step(X, Y, lr=0.1)
        except UsageError as error:
            found.append(str(error))

    with turns._lock:
        waiting = threading.Thread(target=step)
        waiting.start()
        # Past its first look, it waits for the lock.
        while waiting.is_alive() and "take" not in _functions_of(waiting):
            time.sleep(0.001)
        time.sleep(0.02)
        turns.is_over = True
    waiting.join()
    assert found
    assert found[0].startswith("the trainer is closed")


def _functions_of(thread):
    """Names of the functions that a thread is in."""
    frame, names = sys._current_frames().get(thread.ident), []
    while frame:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_nothing_of_a_closed_trainer_is_a_fault(artifact):
    trainer = odtc.load(artifact).trainer(threads=1)
    trainer.close()
    for use in (
        lambda: trainer.plan,
        lambda: list(trainer.train([(X, Y)], lr=0.1)),
        trainer.profile,
    ):
        with pytest.raises(UsageError, match="the trainer is closed"):
            use()
