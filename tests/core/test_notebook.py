"""What notebooks show of a history and of an artifact, and `predict`."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx

import odtc
from odtc.core.notebook import html_table
from odtc.driver.frontier import Frontier, Point
from tests.mlp import BATCH, mlp


def cells(html: str) -> list[list[str]]:
    """The rows of a table, which is read as XML."""
    table = ElementTree.fromstring(f"<div>{html}</div>")
    return [[cell.text or "" for cell in row] for row in table.iter("tr")]


def test_a_history_is_a_table():
    rows = [{"step": 2, "loss": 0.51234}, {"step": 4, "loss": 0.25, "val_<b>": float("nan")}]
    history = odtc.History(rows, "a < b")
    assert cells(history._repr_html_()) == [
        ["step", "loss", "val_<b>"],
        ["2", "0.5123", ""],
        ["4", "0.25", "nan"],
    ]
    assert "<p>stopped: a &lt; b</p>" in history._repr_html_()
    assert cells(odtc.History()._repr_html_()) == []


def test_a_table_without_a_head():
    assert cells(html_table([("a", "1")])) == [["a", "1"]]


def test_an_artifact_is_a_table_and_predict_is_evaluate(tmp_path: Path):
    onnx.save(mlp(6, 5, 3), tmp_path / "m.onnx")
    artifact = odtc.compile(tmp_path / "m.onnx")
    table = dict(cells(artifact._repr_html_()))
    assert table["batch"] == str(BATCH)
    assert table["target"] == artifact.manifest.target
    assert table["step, bytes"] == f"{artifact.manifest.sizes.train_step:,}"
    trainer = artifact.trainer(threads=1)
    x = np.ones((3, 6), np.float32)
    assert np.array_equal(trainer.predict(x), trainer.evaluate(x))
    assert trainer.predict(x, output="y").shape == (3, 3)


def test_a_plan_is_a_table():
    points = (Point(39424, 1.0, 15, 0), Point(15360, 4.53, 20, 2, 4, accumulator_bytes=9640))
    html = Frontier(points, 15000, 9000, 640)._repr_html_()
    assert cells(html) == [
        ["budget, bytes", "time", "micro-batches", "calls again"],
        ["39,424", "1.000", "1", "0 of 15"],
        ["25,000", "4.530", "4", "2 of 20"],
    ]
    assert "9,640 bytes of weights and state" in html
