"""Several adapters of a trainer on a device: a switch sends them, and gives the bits of here."""

from pathlib import Path

import torch

import odtc
from odtc.runtime_rpc.engines.served import ServedEngine
from tests.runtime_rpc.adapters.several import BATCH, LORA, LR, TARGET, Net, batch, kept
from tests.runtime_rpc.own_server import NATIVE, serving


def test_a_device_gives_the_bits_of_here(tmp_path: Path) -> None:
    torch.manual_seed(0)
    odtc.from_torch(Net(), torch.zeros(BATCH, 8), tmp_path / "net.onnx")
    artifact = odtc.compile(tmp_path / "net.onnx", TARGET, batch=BATCH, optimizer="adam", **LORA)
    with (
        serving(tmp_path / "sessions", server=NATIVE) as url,
        artifact.trainer(url, threads=1) as there,
        artifact.trainer(threads=1) as here,
    ):
        assert isinstance(there._engine, ServedEngine)
        for number, name in enumerate(("default", "bob", "default", "bob")):
            for trainer in (here, there):
                if name not in trainer.adapters:
                    trainer.add_adapter(name)
                trainer.set_adapter(name)
            assert there.step(*batch(number), lr=LR) == here.step(*batch(number), lr=LR)
            assert kept(there) == kept(here)
        assert there.steps == 2
