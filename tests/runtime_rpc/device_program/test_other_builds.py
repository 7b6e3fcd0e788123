"""An odtc-device of this version that was built from other sources."""

from pathlib import Path

import pytest

import odtc
from odtc.core.errors import DeviceError
from odtc.runtime_rpc.native.device import build
from tests.runtime_rpc.own_server import OTHER_BUILD, OTHER_SOURCES, serving


def test_it_is_told_apart(tmp_path: Path) -> None:
    with serving(tmp_path, server=OTHER_BUILD) as url, pytest.raises(DeviceError) as caught:
        odtc.connect(url)
    here = build.source_hash()
    assert str(caught.value) == (
        "the device's server is a different version or build: the hash of odtc-device's sources is "
        f"{OTHER_SOURCES} there and {here} here\n  where: {url}\n  hint: replace it: `odtc device "
        "setup SERIAL` does so on a phone; for a board, `odtc device build` writes it"
    )


def test_the_hash_is_of_lines_however_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "source_folders", lambda: (tmp_path,))
    found = []
    for content in (b"int a;\nint b;\n", b"int a;\r\nint b;\r\n", b"int a;\nint c;\n"):
        (tmp_path / "one.c").write_bytes(content)
        found.append(build.source_hash.__wrapped__())
    assert found[0] == found[1] != found[2]
