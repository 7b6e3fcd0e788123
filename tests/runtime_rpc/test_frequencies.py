"""Caps of frequencies through a session, on a tree of files; they are gone however it ends."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import odtc
from odtc.core.errors import DeviceError
from odtc.runtime_rpc.server.measure.measuring import CAP_FREQUENCY, UNCAP_FREQUENCY
from odtc.runtime_rpc.sessions.session import Session
from tests.needs import needs
from tests.runtime_rpc.own_server import NATIVE, PYTHON, SANITIZED, serving
from tests.runtime_rpc.trees import plant

_POLICIES = "sys/devices/system/cpu/cpufreq"
# Two small cores with a list, in a strange order, and two large ones without.
CORES = {
    f"{_POLICIES}/policy0/scaling_available_frequencies": "300000 900000 1800000 600000 \n",
    f"{_POLICIES}/policy0/scaling_max_freq": "1800000\n",
    f"{_POLICIES}/policy4/cpuinfo_min_freq": "500000\n",
    f"{_POLICIES}/policy4/cpuinfo_max_freq": "2500000\n",
    f"{_POLICIES}/policy4/scaling_max_freq": "2400000\n",
}
BEFORE = ["1800000", "2400000"]
# Of four the third is in the middle, as Python rounds.
CAPS = {"low": ["300000", "500000"], "mid": ["900000", "1500000"], "high": ["1800000", "2500000"]}


@pytest.fixture(scope="module", params=[PYTHON, NATIVE, SANITIZED])
def server(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Which it is, and its URL."""
    folder = tmp_path_factory.mktemp("server") / "sessions"
    with serving(folder, server=request.param) as url:
        yield request.param, url


@pytest.fixture
def session(server: tuple[str, str]) -> Iterator[Session]:
    found = odtc.connect(server[1])
    yield found
    found.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return plant(CORES, tmp_path)


def limits(root: Path) -> list[str]:
    paths = sorted(Path(root, _POLICIES).glob("policy*/scaling_max_freq"))
    return [path.read_text().strip() for path in paths]


def test_a_cap_holds_until_it_is_taken_off(session: Session, root: Path) -> None:
    for level, expected in CAPS.items():
        assert str(session.measure(CAP_FREQUENCY, level, str(root))) == ""
        assert limits(root) == expected
    assert str(session.measure(UNCAP_FREQUENCY)) == ""
    assert limits(root) == BEFORE
    session.measure(UNCAP_FREQUENCY)
    assert limits(root) == BEFORE


def wait_for(root: Path, expected: list[str]) -> None:
    deadline = time.monotonic() + 20
    while limits(root) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert limits(root) == expected


def test_it_ends_with_the_session(session: Session, root: Path) -> None:
    session.measure(CAP_FREQUENCY, "low", str(root))
    session.close()
    wait_for(root, BEFORE)


@pytest.mark.parametrize("level", ["low", "high"])
def test_a_cap_of_a_session_that_is_killed_ends_too(
    server: tuple[str, str], session: Session, root: Path, level: str
) -> None:
    session.measure(CAP_FREQUENCY, "mid", str(root))
    session.measure(CAP_FREQUENCY, level, str(root))
    os.kill(session.info()["pid"], signal.SIGKILL)
    # The server in Python leaves it.
    wait_for(root, CAPS[level] if server[0] == PYTHON else BEFORE)


def test_cores_without_frequencies_are_told(session: Session, root: Path, tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    assert str(session.measure(CAP_FREQUENCY, "low", none)) == f"no /{_POLICIES}/policy*"
    for name in ("cpuinfo_min_freq", "scaling_max_freq"):
        Path(root, _POLICIES, "policy4", name).unlink()
        assert "policy4" in str(session.measure(CAP_FREQUENCY, "low", str(root)))
        assert limits(root)[0] == BEFORE[0]


@needs(os.geteuid() == 0, reason="root makes files that not even root can write")
def test_what_cannot_be_changed_is_told(session: Session, root: Path) -> None:
    limit = Path(root, _POLICIES, "policy4/scaling_max_freq")
    limit.unlink()
    limit.symlink_to("/proc/version")
    assert str(session.measure(CAP_FREQUENCY, "low", str(root)))
    assert limits(root)[0] == BEFORE[0]


def test_another_level_is_refused(session: Session, root: Path) -> None:
    with pytest.raises(DeviceError):
        session.measure(CAP_FREQUENCY, "lowest", str(root))
    assert limits(root) == BEFORE


def test_a_server_takes_off_what_one_that_was_killed_has_left(tmp_path: Path) -> None:
    root, left = plant(CORES, tmp_path / "root"), tmp_path / "sessions" / "odtc-session-gone"
    left.mkdir(parents=True)
    limit = root / _POLICIES / "policy0/scaling_max_freq"
    (left / ".frequencies").write_text(f"{limit}\t1800000\n{root}/nothing\t1\nhalf a line")
    limit.write_text("300000")
    with serving(tmp_path / "sessions", server=SANITIZED):
        assert limits(root) == BEFORE
        assert not left.exists()


@needs(os.geteuid() == 0, reason="root gives a file to another user")
def test_what_another_user_has_left_is_not_written_anywhere(tmp_path: Path) -> None:
    """Where all users may write, as in /tmp, anybody can make a folder with a session's name."""
    target, left = tmp_path / "target", tmp_path / "sessions" / "odtc-session-planted"
    left.mkdir(parents=True)
    target.write_text("mine")
    (left / ".frequencies").write_text(f"{target}\ttheirs\n")
    os.chown(left / ".frequencies", 10_123, 10_123)
    with serving(tmp_path / "sessions", server=SANITIZED):
        assert target.read_text() == "mine"
        assert not left.exists()
