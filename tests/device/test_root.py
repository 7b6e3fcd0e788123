"""The root folder of the emulated phone, where odtc's own Python is not the phone's 3.11."""

import sys
from pathlib import Path

import pytest

from odtc.core.process.progress import silent
from odtc.runtime_rpc.standin import root


def test_tvm_alone_has_the_version_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer versions of others, which this Python may have, there are none of for the phone's."""
    monkeypatch.setattr(root, "version", lambda name: "9.5")
    assert root._requirements() == [
        *("apache-tvm==9.5", "apache-tvm-ffi==9.5", "ml-dtypes<=9.5", "numpy<=9.5"),
        *("psutil<=9.5", "typing-extensions<=9.5"),
    ]


@pytest.mark.parametrize("is_own", [True, False])
def test_bytecode_is_that_of_the_phone(
    is_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.setattr(root, "PYTHON", own if is_own else "/usr/bin/python3.99")
    for folder in (root.PACKAGES_FOLDER, "/usr/lib/python3.11"):
        (made := Path(f"{tmp_path}{folder}")).mkdir(parents=True)
        (made / "module.py").write_text("x = 1\n")
    root._finish(tmp_path, silent)
    assert len([*tmp_path.rglob("*.pyc")]) == 2 * is_own
