"""Fixtures of the tests of GPUs."""

import pytest
from tvm import tirx

from odtc.backends.spirv import assemble
from odtc.backends.spirv.assemble import Shader


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Shader]:
    """The kernels that are assembled while a test runs."""
    shaders: list[Shader] = []

    def kept(function: tirx.PrimFunc, *, images: bool = False) -> Shader:
        shaders.append(whole(function, images=images))
        return shaders[-1]

    whole = assemble.assemble
    monkeypatch.setattr(assemble, "assemble", kept)
    return shaders
