"""Modules that are kept are those of equal code."""

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te

from tests.host import loaded


def scaled(factor: float) -> tvm.IRModule:
    x = te.placeholder((4,), "float32", "x")
    y = te.compute((4,), lambda i: te.exp(x[i]) * tvm.tirx.const(factor, "float32"), "y")
    return tvm.IRModule({"main": te.create_prim_func([x, y]).with_attr("global_symbol", "main")})


def test_each_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = []
    compile_ = tvm.compile

    def counted(module: tvm.IRModule, *rest):
        compiled.append(module)
        return compile_(module, *rest)

    monkeypatch.setattr(tvm, "compile", counted)
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    for factor in (2.0, 3.0, 2.0):
        found = tvm.runtime.empty((4,), "float32")
        loaded(scaled(factor))["main"](tvm.runtime.tensor(x), found)
        np.testing.assert_allclose(found.numpy(), factor * np.exp(x), rtol=1e-6)
    assert len(compiled) == 2
