"""A case of the digits model whose engines are prepared once."""

from pathlib import Path

import onnx
import pytest

from benchmarks.models.digits import digits_model
from odtc.comparison.case import Case
from odtc.comparison.comparison import entries_of
from odtc.comparison.turns import PreparedCase, prepared
from odtc.core.process.progress import silent

MODULE = f"{Path(__file__).parent / 'digits_module.py'}:"


@pytest.fixture(scope="session")
def digits_model_file(tmp_path_factory) -> Path:
    """The digits model."""
    path = tmp_path_factory.mktemp("compared") / "digits.onnx"
    onnx.save(digits_model(), path)
    return path


@pytest.fixture(scope="session")
def ready(digits_model_file: Path, tmp_path_factory) -> PreparedCase:
    """odtc, its peers, and odtc with a budget that it can meet; logs tell what was imported."""
    case = Case(str(digits_model_file), batch=4, threads=1, module=f"{MODULE}Digits")
    entries = entries_of(["onnxruntime-training", "pytorch"], ["160KB"])
    folder = tmp_path_factory.mktemp("case") / "4-1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPROFILEIMPORTTIME", "1")
        found = prepared(case, entries, folder, 600, silent)
    assert not found.failures
    return found
