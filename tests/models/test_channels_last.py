"""Small versions of image networks train as PyTorch trains them where all channels are last."""

from pathlib import Path

import pytest

from benchmarks.models.pytorch.table import SMALL
from odtc.backends.cost import layout_cost
from odtc.core.ir.layouts import LAST
from odtc.dialect import channels_last
from odtc.driver.layouts import AUTO
from odtc.passes.layout.step_graph import Costs
from tests.fast import fast_if
from tests.models.parity import check_parity

IMAGES = ("squeezenet", "unet", "googlenet", "mobilenet_v2", "densenet40_12")
FAST = ("squeezenet", "unet")


@pytest.mark.parametrize("name", fast_if(lambda name: name in FAST, IMAGES))
def test_all_that_can_has_its_channels_last(name: str, tmp_path: Path, monkeypatch) -> None:
    """Whatever it takes, and however few channels there are."""
    costs = Costs(lambda _, layout: float(layout != LAST), lambda _: 0.0, lambda _: 0.0, 0)
    monkeypatch.setattr(channels_last, "FEW", 1)
    monkeypatch.setattr(layout_cost, "layout_costs", lambda *_, **__: costs)
    check_parity(SMALL[name], "torchscript", tmp_path, layout=AUTO)
