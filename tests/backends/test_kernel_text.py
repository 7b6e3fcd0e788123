"""What a kernel is hashed by has nothing of where its source stands."""

import importlib.util
from pathlib import Path

import tvm
from tvm import tirx

from odtc.backends.objects.kernel_text import text_of

_SOURCE = """
from tvm.script import tirx as T


@T.prim_func
def add(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    for i in range(4):
        b[i] = a[i] + T.float32({})
"""


def _kernel(path: Path, before: str, constant: str) -> tirx.PrimFunc:
    path.parent.mkdir(exist_ok=True)
    path.write_text(before + _SOURCE.format(constant))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.add


def test_a_clone_elsewhere_and_a_comment_above_make_no_other_kernel(tmp_path: Path) -> None:
    one = _kernel(tmp_path / "a" / "k.py", "", "1")
    other = _kernel(tmp_path / 'b"\\' / "k.py", "# A comment.\n\n\n", "1")
    assert tvm.ir.save_json(one) != tvm.ir.save_json(other)
    assert text_of(one) == text_of(other)
    assert "k.py" not in text_of(one)


def test_other_code_has_another_text(tmp_path: Path) -> None:
    one, other = (_kernel(tmp_path / f"{each}.py", "", each) for each in "12")
    assert text_of(one) != text_of(other)
