"""Harm to sessions with a GPU of odtc-device: a crowd of peers, and what a client uploads.

What is damaged is refused with what is wrong about it, or ends its session; the server goes on.
"""

import hashlib
import json
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import odtc
from odtc.core.errors import ArtifactError, DeviceError
from odtc.runtime_rpc.guards.limits import Limits
from odtc.runtime_rpc.server.net import wire
from odtc.runtime_rpc.tracker.greeting import greet
from tests.native.on_gpu.same_run import KINDS
from tests.native.on_gpu.test_device_module import modules_in
from tests.numeric.mlp import batches, mlp_artifact
from tests.runtime_rpc.hostile_peers import hostile
from tests.runtime_rpc.own_server import NATIVE, address, serving

PEERS, SECONDS = 100, 1.5
# Of how many steps the losses are compared, at most.
FIRST = 60
# How many libraries of each kind are damaged at random.
RANDOM = 8
KERNEL = b"__kernel void "
SPIRV = struct.pack("<I", 0x07230203)
# What a host waits for in a crowd.
PATIENT = Limits(beat=0.2, silence=60, connect=30, request=30)

Edit = Callable[[bytearray], None]


class Uploads:
    """A server of GPUs, and an artifact whose files are changed before they are uploaded.

    Args:
        kind: of the GPU.
        folder: of the artifact.
        url: of the server.
    """

    def __init__(self, kind: str, folder: Path, url: str) -> None:
        self.url, self.artifact = url, mlp_artifact(folder, odtc.SGD(), target=f"host-{kind}")
        self._library = self.artifact._bundle.library
        self._program = Path(self.artifact._bundle.root, "program.bin")
        self._whole = self._library.read_bytes(), self._program.read_bytes()
        with self._library.open("rb") as file:
            self.modules = modules_in(file)

    def change(self, modules: Edit | None = None, program: Edit | None = None) -> None:
        """Edits what there was at first; the library's build id goes with the program."""
        library, changed = bytearray(self._whole[0]), bytearray(self._whole[1])
        at = library.find(self.modules)
        edited = bytearray(self.modules)
        if modules:
            modules(edited)
        assert len(edited) == len(self.modules)
        library[at : at + len(edited)] = edited
        before = hashlib.sha256(changed).digest()
        if program:
            program(changed)
        at = library.find(before)
        library[at : at + len(before)] = hashlib.sha256(changed).digest()
        for path, data in ((self._library, library), (self._program, changed)):
            path.unlink()  # one that is loaded may be mapped
            path.write_bytes(data)

    def step(self) -> float:
        """The first step, in a session of its own."""
        with closing(odtc.connect(self.url, PATIENT)) as session:
            return self.artifact.trainer(session).step(*batches(1)[0], lr=0.1)

    def status(self) -> dict[str, Any]:
        with greet(address(self.url), 30) as connection:
            return wire.ask(connection, {"ask": "status"})


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    with serving(folder / "sessions", log=folder / "log", server=NATIVE) as running:
        yield running


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def started(kind: str, url: str, tmp_path_factory: pytest.TempPathFactory) -> Uploads:
    return Uploads(kind, tmp_path_factory.mktemp(kind), url)


@pytest.fixture
def uploads(started: Uploads) -> Iterator[Uploads]:
    """Whatever a test uploads, the same process serves after it, and steps have their bits."""
    started.change()
    before, loss = started.status(), started.step()
    yield started
    started.change()
    assert started.step() == loss
    assert started.status()["server_pid"] == before["server_pid"]


def test_a_crowd_does_not_change_a_run(uploads: Uploads) -> None:
    """Nor does it keep the session from its device."""
    words = map(str, (*address(uploads.url), PEERS, SECONDS))
    data, found = batches(3), []
    with (
        closing(odtc.connect(uploads.url, PATIENT)) as session,
        uploads.artifact.trainer(session) as trainer,
        subprocess.Popen(
            [sys.executable, "-m", hostile.__name__, *words], stdout=subprocess.PIPE, text=True
        ) as crowd,
    ):
        assert crowd.stdout
        assert crowd.stdout.readline().strip() == hostile.CONNECTED
        while crowd.poll() is None:
            found += trainer.train(data, lr=0.01, steps_per_call=2)
        told = json.loads(crowd.stdout.read())
    assert told["at once"] > PEERS / 3
    assert len(found) > len(data)
    with uploads.artifact.trainer() as here:
        assert found[:FIRST] == [*here.train((data * FIRST)[: len(found[:FIRST])], lr=0.01)]


def replaced(old: bytes, new: bytes) -> Edit:
    """The first one of some bytes by others."""

    def edit(data: bytearray) -> None:
        at = data.index(old)
        data[at : at + len(old)] = new

    assert len(old) == len(new)
    return edit


def words_of_a_shader(count: Callable[[int], int]) -> Edit:
    """Changes how many words the first SPIR-V says that it has."""

    def edit(data: bytearray) -> None:
        at = data.index(SPIRV) - 8
        (before,) = struct.unpack_from("<Q", data, at)
        struct.pack_into("<Q", data, at, count(before))

    return edit


def group_of_a_shader(data: bytearray) -> None:
    """Gives the groups of the first SPIR-V another size: its launches are not of that."""
    at = data.index(struct.pack("<HH", 16, 6), data.index(SPIRV)) + 12
    struct.pack_into("<I", data, at, struct.unpack_from("<I", data, at)[0] + 1)


def name_in_source(data: bytearray) -> None:
    data[data.index(KERNEL) + len(KERNEL)] = ord("z")


NOT_ODTCS = "the kernels of the library are not what odtc wrote"
EDITS: dict[tuple[str, str], tuple[Edit, str]] = {
    ("vulkan", "more words"): (words_of_a_shader(lambda _: 1 << 40), NOT_ODTCS),
    ("vulkan", "fewer words"): (
        words_of_a_shader(lambda count: count - 1),
        "the SPIR-V of the kernel .* is damaged",
    ),
    ("vulkan", "other groups"): (group_of_a_shader, "items to a group: its code has"),
    ("vulkan", "no magic"): (replaced(SPIRV, bytes(4)), "the SPIR-V of the kernel .* is damaged"),
    ("opencl", "no source"): (
        replaced(b"// Function: ", b"//           "),
        "the library has no code of the kernel",
    ),
    ("opencl", "no such kernel"): (name_in_source, "its source has no kernel of that name"),
    ("opencl", "no language"): (replaced(KERNEL, b"__kernal void "), "does not compile the kernel"),
}
BOTH: dict[str, tuple[Edit, str]] = {
    "no modules": (lambda data: data.__setitem__(slice(8), b"\xff" * 8), NOT_ODTCS),
    "a launch along no axis": (
        replaced(b"blockIdx.x", b"blockIdx.w"),
        r"is launched by blockIdx\.w",
    ),
    "a name of no characters": (replaced(b"blockIdx.x", b"\xff\xfe\x1b[31m..."), "is launched by"),
}


def test_what_is_damaged_is_refused(uploads: Uploads, kind: str) -> None:
    own = {name: edit for (of, name), edit in EDITS.items() if of == kind}
    found = {}
    for name, (edit, _) in (wanted := own | BOTH).items():
        uploads.change(edit)
        try:
            uploads.step()
        except (ArtifactError, DeviceError) as error:
            found[name] = str(error)
    assert found.keys() == wanted.keys()
    for name, (_, says) in wanted.items():
        assert re.search(says, found[name]), found[name]
        assert found[name].replace("\n", "").isprintable()


def at_random(seed: int) -> Edit:
    def edit(data: bytearray) -> None:
        drawn = random.Random(seed)
        for _ in range(3):
            data[drawn.randrange(len(data))] = drawn.choice((0, 1, 0x7F, 0xFF))

    return edit


def test_what_is_damaged_at_random_ends_a_session_at_most(uploads: Uploads) -> None:
    """Of the library what the runtime and the driver read, of the program all."""
    for seed in range(RANDOM):
        uploads.change(**{("modules", "program")[seed % 2]: at_random(seed)})
        with suppress(ArtifactError, DeviceError):
            uploads.step()
