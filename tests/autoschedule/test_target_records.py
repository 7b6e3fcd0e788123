"""Which records compile sees: the user's file, what ships, and the device of this machine."""

from pathlib import Path

import pytest

from odtc.autoschedule.tuning import target_records as module
from odtc.autoschedule.tuning.database import add, user_database
from odtc.autoschedule.tuning.record import Record, gpu_device, place_of
from odtc.autoschedule.tuning.target_records import known_device, records_for
from odtc.backends.targets import Target, parse_target
from odtc.core.errors import BuildError
from odtc.core.found_gpu import FoundGpu

HOST = parse_target("host-cpu").resolved()


def kept(target: Target, workload: str = "a product") -> Record:
    """A record of this machine for a target."""
    place = place_of(target, known_device(HOST))
    assert place.device is not None
    of = (workload, place.target, place.device, place.odtc, place.tvm)
    return Record(*of, {"tile": (1, 1)}, (1.0,), (2.0,), kept=True)


def test_the_users_own_file_is_read_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert user_database() == tmp_path / "odtc" / "tuned.jsonl"
    assert records_for(HOST)("a product") is None
    add(user_database(), [kept(HOST)])
    assert records_for(HOST)("a product") is not None
    add(tmp_path / "other", [kept(HOST, "another product")])
    assert records_for(HOST, tmp_path / "other")("a product") is None
    assert records_for(HOST, tmp_path / "other")("another product") is not None


def test_what_ships_for_a_target_is_read_beside_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "files", lambda _: tmp_path)
    add(tmp_path / "host-cpu" / "some.jsonl", [kept(HOST)])
    add(tmp_path / "android-cpu" / "some.jsonl", [kept(HOST, "another product")])
    of = records_for(HOST, tmp_path / "none")
    assert of("a product") is not None
    assert of("another product") is None
    # Once: a user's file may change while a process runs, and these do not.
    read, files = module.read, list[Path]()
    monkeypatch.setattr(module, "read", lambda path: files.append(path) or read(path))
    assert records_for(HOST, tmp_path / "none")("a product") is not None
    assert files == [tmp_path / "none"]


def test_a_gpu_that_cannot_be_opened_keeps_nobody_from_compiling(tmp_path: Path) -> None:
    target, looked_for = parse_target("host-opencl").resolved(), list[str]()

    def refuse(kind: str) -> FoundGpu:
        looked_for.append(kind)
        raise BuildError("there is no compiler")

    add(tmp_path / "db", [kept(HOST)])
    assert records_for(target, tmp_path / "db", gpu=refuse)("a product") is None
    assert not looked_for
    add(tmp_path / "db", [kept(target)])
    assert records_for(target, tmp_path / "db", gpu=refuse)("a product") is None
    assert looked_for == ["opencl"]


def test_records_of_this_machines_gpu_are_taken(tmp_path: Path) -> None:
    target = parse_target("host-opencl").resolved()
    found = FoundGpu("a GPU", "its driver 1.0")
    of = place_of(target, gpu_device(found, target))
    assert of.device is not None
    record = Record(
        *("a product", of.target, of.device, of.odtc, of.tvm),
        *({"tile": (1, 1)}, (1.0,), (2.0,)),
        kept=True,
    )
    add(tmp_path / "db", [record])
    choice = records_for(target, tmp_path / "db", gpu=lambda _: found)("a product")
    assert choice is not None
    assert choice.source.startswith("this device, a GPU")


@pytest.mark.parametrize(
    ("name", "is_known"),
    [("Mali-G76", True), ("llvmpipe (LLVM 15.0.6, 256 bits)", False), ("pthread-AMD EPYC", False)],
)
def test_what_a_cpu_measured_is_not_taken_for_a_phones_gpu(
    name: str, is_known: bool, tmp_path: Path
) -> None:
    """Kernels for a Mali run on lavapipe, too; how fast, says nothing of a Mali."""
    here, phone = (
        parse_target(f"{name}{{gpu=mali-g76}}").resolved()
        for name in ("host-vulkan", "android-vulkan")
    )
    of = place_of(phone, gpu_device(FoundGpu(name, "a driver"), here))
    assert of.device is not None
    record = Record(
        *("a product", of.target, of.device, of.odtc, of.tvm),
        *({"tile": (1, 1)}, (1.0,), (2.0,)),
        kept=True,
    )
    add(tmp_path / "db", [record])
    assert (records_for(phone, tmp_path / "db")("a product") is not None) == is_known
