"""Bytes that a step takes in an app: `python -m benchmarks.app_size`.

SqueezeNet is compiled at batch 4 for Android and for iOS, and `odtc export-app` writes what goes
into an app. Nothing is timed, so the figures are the same whatever else the machine does.
"""

import argparse
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

import odtc
from benchmarks.models.zoo import zoo_model
from benchmarks.output import about, add_figures, numbers_table, terminal, write_figures
from odtc.app.export import export_app

_MODEL, _BATCH = "squeezenet", 4
_TARGETS = {"android": "android-cpu", "ios": "ios-cpu"}


@dataclass(frozen=True)
class PartSize:
    """A file that goes into an app.

    Attributes:
        platform: of the app.
        part: its path in what `odtc export-app` writes; within an archive, behind `!`.
        nbytes: of the file.
        packed: in the archive that it is in, compressed; None for what is in none.
    """

    platform: str
    part: str
    nbytes: int
    packed: int | None = None

    def figures(self) -> dict[str, Any]:
        """The row of docs/howto/app.md."""
        return {
            "what": f"{self.platform}: {self.part}",
            "bytes": self.nbytes,
            "packed": self.packed,
        }


def parts_of(platform: str, folder: Path) -> Iterator[PartSize]:
    """The archives of a folder with their large members, or its library where there are none."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".aar":
            yield PartSize(platform, name, path.stat().st_size)
            with zipfile.ZipFile(path) as archive:
                for each in archive.infolist():
                    if each.filename.startswith(("jni/", "assets/")):
                        size, packed = each.file_size, each.compress_size
                        yield PartSize(platform, f"{name}!{Path(each.filename).name}", size, packed)
        elif path.suffix == ".a":
            yield PartSize(platform, path.name, path.stat().st_size)


def measure(folder: Path, platforms: Iterable[str] = tuple(_TARGETS)) -> list[PartSize]:
    """Compiles and exports for each platform."""
    onnx.save(zoo_model(_MODEL), folder / "model.onnx")
    found = []
    for platform in platforms:
        artifact = odtc.compile(
            folder / "model.onnx",
            _TARGETS[platform],
            batch=_BATCH,
            optimizer=odtc.SGD(momentum=0.9),
        )
        export_app(artifact, platform, folder / platform, _MODEL)
        found += parts_of(platform, folder / platform)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Exports, and prints a row for each part."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.app_size", description=__doc__)
    add_figures(parser, "howto/app_size")
    args = parser.parse_args(argv)
    said = about()
    with TemporaryDirectory() as folder:
        found = measure(Path(folder))
    table = numbers_table(f"{_MODEL}, batch {_BATCH}", "bytes", "in the archive")
    for each in found:
        packed = "" if each.packed is None else f"{each.packed:,}"
        table.add_row(f"{each.platform}: {each.part}", f"{each.nbytes:,}", packed)
    terminal().print(table)
    write_figures(args.figures, said, [each.figures() for each in found])
    return 0


if __name__ == "__main__":
    sys.exit(main())
