"""What is dropped waits for no device that has frozen."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import odtc
from odtc.runtime_rpc.tracker.greeting import status
from tests.numeric.mlp import mlp_artifact
from tests.runtime_rpc.own_server import SERVERS, address, serving

ROOT = str(Path(__file__).parents[3])
# Functions of the server, and tensors there, are objects of which it is told that they go.
DROPPED = """
import sys
import odtc
from odtc.runtime_rpc.guards.limits import Limits
from tests.numeric.mlp import batches

held = {"session": odtc.connect(sys.argv[1], Limits(beat=0.5, silence=3.0))}
held["trainer"] = odtc.load(sys.argv[2]).trainer(held["session"])
held["trainer"].step(*batches(1)[0], lr=0.1)
print("ready", flush=True)
sys.stdin.readline()
for each in ("trainer", "session"):
    del held[each]
    print(each, flush=True)
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlp")
    mlp_artifact(folder, odtc.SGD()).save(folder / "mlp.odtc")
    return folder / "mlp.odtc"


@pytest.fixture(scope="module", params=SERVERS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server") / "sessions"
    with serving(folder, server=request.param) as running:
        yield running


def processes(url: str) -> list[psutil.Process]:
    """That of the server, and of its session if it has one."""
    found = status(address(url), 20, url)
    assert found
    server = psutil.Process(found["server_pid"])
    return [server, *server.children()]


def test_what_is_dropped_while_its_device_is_frozen(url: str, artifact: Path) -> None:
    """In a process of its own: while TVM waits, no thread of Python could end that."""
    with subprocess.Popen(
        [sys.executable, "-c", DROPPED, url, artifact],
        env=os.environ | {"PYTHONPATH": ROOT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        frozen = processes(url)
        assert len(frozen) == 2
        for each in frozen:
            each.suspend()
        try:
            said, _ = process.communicate("\n", timeout=60)
        finally:
            process.kill()
            for each in frozen:
                # What is awake again ends what it finds stopped.
                with suppress(psutil.NoSuchProcess):
                    each.resume()
    assert said == "trainer\nsession\n"
    odtc.connect(url).close()


def test_a_session_that_goes_late_leaves_the_next_one_alone(url: str) -> None:
    """One that was lost, and is collected when there is another one to the same device."""
    first = odtc.connect(url)
    assert first.info()["machine"]
    processes(url)[1].kill()
    second = odtc.connect(url)
    del first
    assert second.info()["machine"]
    second.close()


FORKED = """
import os, sys
import odtc

session = odtc.connect(sys.argv[1])
assert session.info()["machine"]
child = os.fork()
if not child:
    del session
    sys.exit()
os.waitpid(child, 0)
assert session.info()["machine"] and session.core_speeds()
session.close()
"""


def test_a_session_outlives_a_fork_that_ends(url: str) -> None:
    """It has the connections of its parent: what it drops is told to no device."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED, url],
        env=os.environ | {"PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not done.returncode, done.stderr
