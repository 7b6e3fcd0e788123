"""The bounds of servers: both servers have the same, and the page on security tells each."""

import re
from pathlib import Path

import pytest

from odtc.runtime_rpc.native.device.build import FOLDER
from odtc.runtime_rpc.server.net import bounds


def test_few_files_make_few_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(bounds.resource, "setrlimit", lambda _, both: told.append(both))
    for limits, most in [((100, 200), 136), ((100, 1 << 20), 1024), ((30, 30), 1)]:
        monkeypatch.setattr(bounds.resource, "getrlimit", lambda _, both=limits: both)
        assert bounds.most_peers() == most
    assert told == [(200, 200), (1088, 1 << 20)]


def test_both_servers_have_the_same_bounds() -> None:
    header = (FOLDER / "server" / "bounds.h").read_text()
    found = re.findall(r"\b([A-Z_]+)(?: =)? ([\d.]+)(?: << (\d+))?", header)
    there = {name: float(value) * 2 ** int(shift or 0) for name, value, shift in found}
    here = {name: value for name, value in vars(bounds).items() if re.fullmatch("[A-Z_]+", name)}
    # Nothing that nests is read there, and a peer's turn is as short as what it has sent.
    for name in ("DEPTH", "TURNS_SECONDS", "NEWCOMER_SECONDS"):
        del here[name]
    assert here.pop("SEND_BUFFER_BYTES") == here["WAITING_BYTES"]
    assert there == here


def test_the_page_has_every_bound() -> None:
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([\d.]+) \|", page, re.MULTILINE)
    told = {name: float(value) for name, value in rows}
    assert told == {
        name: float(value) for name, value in vars(bounds).items() if re.fullmatch("[A-Z_]+", name)
    }
