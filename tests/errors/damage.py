"""Ways to damage artifacts, checkpoints and adapters, or to give those of something else."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.errors.causes import train
from tests.errors.models import LINEAR
from tests.errors.place import Argv, Cause, Place


def artifact_bytes(change: Callable[[bytes], bytes]) -> Cause:
    """`odtc inspect` of the artifact with its bytes changed."""

    def cause(place: Place) -> Argv:
        data = change(place.digits.artifact.read_bytes())
        return ["inspect", str(place.write("a.odtc", data))]

    return cause


def artifact_members(change: Callable[[dict[str, bytes]], None]) -> Cause:
    """`odtc inspect` of the artifact with its members changed."""

    def cause(place: Place) -> Argv:
        with zipfile.ZipFile(place.digits.artifact) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        change(members)
        with zipfile.ZipFile(place.inputs / "a.odtc", "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return ["inspect", str(place.inputs / "a.odtc")]

    return cause


def flipped(member: str, share: float = 0.5) -> Cause:
    """`odtc inspect` of the artifact with a byte of a member changed, and a checksum that fits.

    Args:
        member: of the artifact.
        share: of the member that lies before the byte.
    """

    def change(members: dict[str, bytes]) -> None:
        data = bytearray(members[member])
        data[int(len(data) * share)] ^= 0x10
        members[member] = bytes(data)

    return artifact_members(change)


def manifest_with(**fields: Any) -> Cause:
    """`odtc inspect` of the artifact with fields of its manifest changed."""

    def change(members: dict[str, bytes]) -> None:
        members["manifest.json"] = json.dumps(
            json.loads(members["manifest.json"]) | fields
        ).encode()

    return artifact_members(change)


def plan_with(**fields: Any) -> Cause:
    """`odtc inspect --memory` with fields of the plan changed, and a hash that fits."""
    return plans_with(lambda plans: [plan | fields for plan in plans])


def plans_with(changed: Callable[[list[dict]], list[dict]]) -> Cause:
    """`odtc inspect --memory` with other plans, and a hash that fits."""

    def change(members: dict[str, bytes]) -> None:
        plan = json.dumps(changed(json.loads(members["memory.json"]))).encode()
        manifest = json.loads(members["manifest.json"])
        manifest["files"]["memory.json"] = hashlib.sha256(plan).hexdigest()
        members |= {"memory.json": plan, "manifest.json": json.dumps(manifest).encode()}

    return lambda place: [*(artifact_members(change)(place) or []), "--memory"]


def moved_up(members: dict[str, bytes]) -> None:
    """The library's member gets a path that leaves the folder."""
    members["../step.so"] = members.pop("step.so")


def checkpoint_bytes(change: Callable[[bytes], bytes]) -> Cause:
    """`odtc train --resume` from a checkpoint with its bytes changed."""

    def cause(place: Place) -> Argv:
        import odtc

        path = place.inputs / "c"
        odtc.load(place.digits.artifact).trainer().save_checkpoint(path)
        path.write_bytes(change(path.read_bytes()))
        return train("--resume", "--checkpoint", str(path))(place)

    return cause


def checkpoint_of(run: dict[str, str]) -> Cause:
    """`odtc train --resume` from a checkpoint that says what run it is of."""

    def cause(place: Place) -> Argv:
        import odtc

        trainer = odtc.load(place.digits.artifact).trainer()
        trainer.run = run
        trainer.save_checkpoint(place.inputs / "c")
        return train("--resume", "--checkpoint", str(place.inputs / "c"))(place)

    return cause


# Metadata of a checkpoint for the digits' artifact; `sha` stands for the model's hash.
CHECKPOINT = {
    "format": "odtc-checkpoint-2",
    "model_sha256": "sha",
    "step": "1",
    "optimizer": "sgd",
    "accumulate": "1",
}


def foreign_checkpoint(metadata: dict[str, str], **tensors: np.ndarray) -> Cause:
    """`odtc train --resume` from another safetensors file; `sha` stands for the model's hash."""

    def cause(place: Place) -> Argv:
        from safetensors.numpy import save_file

        import odtc

        sha = odtc.load(place.digits.artifact).manifest.model_sha256
        filled = {key: value.replace("sha", sha) for key, value in metadata.items()}
        save_file(tensors, place.inputs / "c", filled)
        return train("--resume", "--checkpoint", str(place.inputs / "c"))(place)

    return cause


def several_adapters(use: Callable[[Any], object]) -> Cause:
    """Something done with a trainer of the adapters `default`, which is at work, and `bob`."""

    def cause(place: Place) -> None:
        import odtc

        model = place.write("linear.onnx", LINEAR.SerializeToString())
        trainer = odtc.compile(model, batch=2, lora=odtc.LoRA(rank=2)).trainer()
        trainer.add_adapter("bob")
        use(trainer)

    return cause


def kept_adapters(use: Callable[[Any, str], object]) -> Cause:
    """Something done with such a trainer and a checkpoint of it, where each has taken a step."""
    data = (np.ones((2, 4)), np.arange(2))

    def cause(place: Place) -> None:
        def keep(trainer: Any) -> None:
            for name in ("bob", "default"):
                trainer.set_adapter(name)
                trainer.fit(data, lr=0.1)
            path = str(place.inputs / "all.ckpt")
            trainer.save_checkpoint(path)
            use(trainer, path)

        several_adapters(keep)(place)

    return cause


def lose_adapters(trainer: Any, path: str) -> None:
    """A run of `default` alone writes the checkpoint that has `bob`, too."""
    import odtc

    trainer.delete_adapter("bob")
    trainer.fit((np.ones((2, 4)), np.arange(2)), lr=0.1, callbacks=[odtc.Checkpoint(path)])


def resume_another(trainer: Any, path: str) -> None:
    """A run of an adapter that the checkpoint does not have goes on with it."""
    trainer.add_adapter("eve")
    trainer.set_adapter("eve")
    trainer.fit((np.ones((2, 4)), np.arange(2)), lr=0.1, resume=path)


def take_over_another_base(trainer: Any, path: str) -> None:
    """An adapter's file is taken up after a frozen weight was set by hand."""
    trainer.save_adapter(path)
    trainer.delete_adapter("bob")
    trainer.set_parameters({"w": trainer.parameters()["w"] + 1})
    trainer.load_checkpoint(path)


def load_within(trainer: Any, path: str) -> None:
    """A callback in a run of `bob` loads the checkpoint, in which `default` is at work."""
    trainer.set_adapter("bob")
    data, load = (np.ones((2, 4)), np.arange(2)), [lambda _: trainer.load_checkpoint(path)]
    trainer.fit(data, lr=0.1, callbacks=load)


def load_adapters(data: bytes | None = None, **metadata: str) -> Cause:
    """Adapters taken up from a file with these bytes, or with wrong tensors; b"" is no file."""

    def cause(place: Place) -> None:
        from safetensors.numpy import save_file

        import odtc

        model = place.write("linear.onnx", LINEAR.SerializeToString())
        path = place.inputs / "adapters"
        if data is None:
            save_file({"w.lora_A.weight": np.ones((2, 4), np.float32)}, path, metadata)
        elif data:
            path.write_bytes(data)
        odtc.compile(model, batch=2, lora=odtc.LoRA(rank=2)).trainer().load_adapters(path)

    return cause
