"""What is told of a file that no engine runs."""

from pathlib import Path

from odtc.runtime_rpc.export.engine import load_engine


def test_the_file_is_not_named(tmp_path: Path) -> None:
    """It has a temporary name, and is gone when the line is read."""
    path = tmp_path / ".m.onnx.3abda0"
    path.write_bytes(b"no model")
    engine, reasons = load_engine(path)
    assert engine is None
    assert "onnxruntime does not take the file" in reasons[0]
    assert not any(path.name in reason for reason in reasons)
