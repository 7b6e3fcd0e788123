"""Weights in other files: beside the model, outside its folder, or of another size."""

from random import Random

from onnx import TensorProto

from tests.fuzz.mutant import CANARY, Mutant

WEIGHTS = "weights.bin"


def external_data(rng: Random, mutant: Mutant) -> None:
    """Right: a file beside the model."""
    _move_out(rng, mutant, WEIGHTS)


def external_path(rng: Random, mutant: Mutant) -> None:
    """A path that leaves the folder."""
    _, canary = _move_out(rng, mutant, ""), mutant.outside / CANARY
    paths = [
        *(f"../{CANARY}", str(canary), f"./../{CANARY}", f"inner/../../{CANARY}"),
        *(f"..//{CANARY}", f"../model/../{CANARY}", f"..\\{CANARY}", f"file://{canary}"),
        *("/etc/passwd", "/proc/self/environ", "/dev/zero", "", ".", "..", "\0", "~/x"),
        *("a" * 5000, "\udcff".encode("utf-8", "replace").decode(), "model.onnx"),
    ]
    mutant.files["inner/some.bin"] = b"0" * 64
    _point(mutant, rng.choice(paths))


def external_link(rng: Random, mutant: Mutant) -> None:
    """A link in the folder to a file outside, or a folder of such."""
    _move_out(rng, mutant, "")
    links = {"link": f"../{CANARY}", "folder": "..", "far": str(mutant.outside / CANARY)}
    mutant.links = links | {"self": "self", "zero": "/dev/zero"}
    _point(mutant, rng.choice(["link", f"folder/{CANARY}", "far", "self", "zero"]))


def external_range(rng: Random, mutant: Mutant) -> None:
    """An offset or length that the file does not have."""
    _move_out(rng, mutant, WEIGHTS)
    numbers = ["-1", "1", "3", "4096", str(2**31), str(2**62), str(2**70), "many", "", "1.5", "0x4"]
    for tensor in mutant.model.graph.initializer:
        for key in ("offset", "length"):
            if tensor.external_data and rng.random() < 0.6:
                tensor.external_data.add(key=key, value=rng.choice(numbers))


def external_size(rng: Random, mutant: Mutant) -> None:
    """A file that is too short, too long, or missing."""
    _move_out(rng, mutant, WEIGHTS)
    change = rng.choice(["empty", "short", "long", "missing"])
    data = mutant.files.pop(WEIGHTS)
    sizes = {"empty": b"", "short": data[:-1], "long": data * 2}
    if change in sizes:
        mutant.files[WEIGHTS] = sizes[change]


def external_keys(rng: Random, mutant: Mutant) -> None:
    """Entries that are repeated, unknown, or lacking."""
    _move_out(rng, mutant, WEIGHTS)
    for tensor in mutant.model.graph.initializer:
        if tensor.external_data:
            if rng.random() < 0.3:
                del tensor.external_data[:]
            key = rng.choice(["location", "offset", "checksum", "basepath", "", "\n"])
            values = [WEIGHTS, f"../{CANARY}", "0", str(mutant.outside)]
            tensor.external_data.add(key=key, value=rng.choice(values))


def _move_out(rng: Random, mutant: Mutant, location: str) -> None:
    """Moves the data of some initializers, at least one, to a file."""
    data = b""
    tensors = [t for t in mutant.model.graph.initializer if t.raw_data]
    for tensor in rng.sample(tensors, rng.randrange(1, len(tensors) + 1)):
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        tensor.external_data.add(key="offset", value=str(len(data)))
        tensor.external_data.add(key="length", value=str(len(tensor.raw_data)))
        data += tensor.raw_data
        tensor.ClearField("raw_data")
    if location:
        mutant.files[location] = data


def _point(mutant: Mutant, location: str) -> None:
    for tensor in mutant.model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
            if entry.key == "offset":
                entry.value = "0"


MUTATIONS = (
    *(external_data, external_path, external_link, external_range, external_size, external_keys),
)
