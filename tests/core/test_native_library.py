"""Libraries that are built where they are used: once for all that they are made from."""

import platform
import subprocess
from pathlib import Path

import pytest

from odtc.core.process.cxx import cxx_command
from odtc.core.process.native_library import kept_library, library_store, load_library


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return library_store().folder


def kept(*made_from: bytes) -> list[Path]:
    """Where what was not kept was built."""
    built: list[Path] = []

    def build(path: Path) -> None:
        built.append(path)
        path.write_bytes(b"a library")

    assert kept_library(made_from, build) == b"a library"
    return built


def test_each_part_counts() -> None:
    (first,) = kept(b"one", b"two")
    assert not first.exists()
    assert not kept(b"one", b"two")
    assert kept(b"one", b"three")
    assert kept(b"three", b"two")
    assert kept(b"one")


@pytest.mark.parametrize(("name", "value"), [("machine", "sparc"), ("libc_ver", ("musl", "1"))])
def test_machines_that_share_a_home_have_their_own(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(b"one")
    monkeypatch.setattr(platform, name, lambda: value)
    assert kept(b"one")


def test_what_was_not_built_is_not_kept() -> None:
    def fails(path: Path) -> None:
        path.write_bytes(b"half a library")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        kept_library([b"one"], fails)
    assert library_store().size().entries == 0


def test_it_is_loaded_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, library, place = (tmp_path / name for name in ("a.cc", "a.so", "tmp"))
    source.write_text('extern "C" int seven() { return 7; }\n')
    subprocess.run([*cxx_command(), "-shared", "-fPIC", source, "-o", library], check=True)
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    assert load_library(library.read_bytes()).seven() == 7
    assert not list(place.iterdir())
    with pytest.raises(OSError, match=r"library\.so"):
        load_library(library.read_bytes()[:100])
