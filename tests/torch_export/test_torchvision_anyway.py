"""torchvision, and what imports it, in a new process."""

import subprocess
import sys

import pytest

BEFORE = """
import sys
from odtc.torch_export.torchvision_anyway import import_torchvision_anyway
import_torchvision_anyway()
import_torchvision_anyway()
assert len([each for each in sys.meta_path if type(each).__module__.startswith("odtc")]) == 1
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize(
    "statement",
    [
        "from torchvision.models import resnet18",
        pytest.param("from timm.models.xception import Xception", marks=pytest.mark.slow),
        pytest.param("from transformers import LlamaForCausalLM", marks=pytest.mark.slow),
        "from peft import PeftModel",
    ],
)
def test_it_is_imported(statement: str) -> None:
    subprocess.run([sys.executable, "-c", BEFORE + statement], check=True, timeout=300)
