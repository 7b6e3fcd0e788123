"""A trainer in several threads, and behind a fork: turns, clear errors, and nothing left behind."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import onnx
import pytest

import odtc
from odtc.core.errors import UsageError
from odtc.runtime_rpc.turns import Turns
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
            assert repr(trainer) == f"<odtc.Trainer of {target}, 1 steps, at work>"
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
