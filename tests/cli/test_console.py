"""What a person sees on a terminal."""

import io

import pytest
from rich.console import Console

from odtc.cli import console as console_module
from odtc.cli.console import progress_of, readable_bytes, stages
from odtc.cli.main import main


def terminal(monkeypatch, **environment: str) -> io.StringIO:
    """Makes stderr a terminal, and gives what is written there."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    written = io.StringIO()
    fake = Console(file=written, force_terminal=True, width=100)
    monkeypatch.setattr(console_module, "console", lambda: fake)
    return written


def test_errors_are_red_unless_colour_is_unwanted(monkeypatch):
    written = terminal(monkeypatch)
    main(["nothing"])
    assert "\x1b[1;31merror\x1b[0m: " in written.getvalue()
    written = terminal(monkeypatch, NO_COLOR="1")
    main(["nothing"])
    assert "\x1b[1merror\x1b[0m: " in written.getvalue()


def test_a_terminal_sees_a_spinner_and_a_bar(monkeypatch):
    written = terminal(monkeypatch)
    with stages() as progress:
        progress("[stage]")
    with progress_of(4, 1) as update:
        update(4, "[loss] 0.5")
    assert "[stage]" in written.getvalue()
    assert "[loss] 0.5" in written.getvalue()
    assert "4/4" in written.getvalue()


def test_elsewhere_progress_is_a_line_now_and_then(monkeypatch, capsys):
    with progress_of(1000, 0) as update:
        for step in range(1, 1001):
            update(step, "loss 1")
    assert capsys.readouterr().err == "step 1000 of 1000: loss 1\n"
    monkeypatch.setattr(console_module, "PLAIN_SECONDS", 0)
    with progress_of(3, 0) as update:
        update(1, "loss 1")
    assert capsys.readouterr().err == "step 1 of 3: loss 1\n"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 41, "6144.0 GiB"),
    ],
)
def test_readable_bytes(count: int, text: str):
    assert readable_bytes(count) == text
