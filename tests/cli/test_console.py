"""Output on a terminal, as a person sees it."""

import io
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from rich.console import Console

from odtc.cli import console as console_module
from odtc.cli.console import (
    aligned,
    emit,
    print_error,
    progress_of,
    readable_bytes,
    say,
    stages,
)
from odtc.cli.main import main
from odtc.core.errors import ModelError


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


HOSTILE = "a\x1b[31mb\rc\x9bd\u202ee\ud800\nf"
SHOWN = r"a\x1b[31mb\rc\x9bd\u202ee\ud800\nf"


def test_what_a_file_says_steers_no_terminal(monkeypatch, capsys):
    emit(HOSTILE, *aligned([(HOSTILE, "|"), ("x" * len(SHOWN), "|")]))
    wide = f"{SHOWN}  |", f"{'x' * len(SHOWN)}  |"
    assert capsys.readouterr().out.splitlines() == [SHOWN, *wide]
    say(HOSTILE)
    print_error(HOSTILE)
    lines = SHOWN.replace(r"\n", "\n")
    assert capsys.readouterr().err == f"{lines}\nerror: {lines}\n"
    written = terminal(monkeypatch)
    with stages() as progress:
        progress(HOSTILE)
    with progress_of(4, 1) as update:
        update(4, HOSTILE)
    assert "\x1b[31mb" not in written.getvalue()
    assert written.getvalue().count(SHOWN) >= 2


def test_a_name_makes_up_no_line_of_an_error():
    error = ModelError("no\u2028such\x85name", where="node a\n  hint: run it", hint="look")
    assert str(error).splitlines() == [
        r"no\u2028such\x85name",
        r"  where: node a\n  hint: run it",
        "  hint: look",
    ]


@pytest.mark.parametrize("command", [["check", "--all"], ["check", "--all", "--json"]])
def test_names_of_a_model_are_printed_with_their_escapes(command, tmp_path: Path, capfd):
    name = "w\x1b]0;title\x07\x1b[2J"
    weight = numpy_helper.from_array(np.ones((4, 2), np.float32), name)
    x, y = (
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["N", size])
        for n, size in (("x", 4), (f"y{name}", 2))
    )
    node = helper.make_node("MatMul", ["x", name], [f"y{name}"], f"node {name}")
    graph = helper.make_graph([node], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    assert main([*command[:1], str(tmp_path / "m.onnx"), *command[1:]]) == 0
    out, err = capfd.readouterr()
    assert "title" in out
    assert (out + err).replace("\n", "").isprintable()
