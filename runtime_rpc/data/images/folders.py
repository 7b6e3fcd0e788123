"""The files of images in folders by class, and what else is in these."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from odtc.core.errors import DataError
from odtc.core.printable import printable
from odtc.core.process.missing_packages import require_packages
from odtc.runtime_rpc.data.images.decoded import SKIP_BROKEN, is_readable
from odtc.runtime_rpc.data.names import listed

_ENDINGS = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"))
HINT = "make a folder of images for each class"
_ANY = "put images into it, in any folders, or give a file of samples"
# Parts of a data set, which torchvision and others have as folders beside each other.
_PARTS = frozenset(("train", "training", "val", "valid", "validation", "test", "testing", "dev"))
_OTHERS = ("file whose name is no image's", "files whose names are no images'")
_WRONG = ("file is not a readable image", "files are not readable images")
_LEFT = ("image that cannot be read", "images that cannot be read")
# Files that are looked at to say what a folder has.
_MOST = 10_000


@dataclass(frozen=True)
class ImageFolders:
    """Images in folders by class.

    Attributes:
        folders: of the classes, in the order of their names.
        files: of the images, each with the number of its folder.
        others: files in these folders that are no images by their names.
        broken: images in these folders that cannot be read, and are left out.
    """

    folders: Sequence[Path]
    files: Sequence[tuple[Path, int]]
    others: Sequence[Path]
    broken: Sequence[Path] = ()


def images_in(path: Path, *, skip_broken: bool = False) -> ImageFolders:
    """The folders of classes, and what is in them. What is hidden is no part of it.

    Args:
        path: of the folder that has them.
        skip_broken: whether images that cannot be read are left out. Each is decoded then, so that
            a run, and one that goes on with it, meets none later.

    Raises:
        DataError: there are no images, a file is none, or folders are no classes.
        MissingPackageError: pillow is not installed.
    """
    seen = sorted(each for each in path.iterdir() if not _is_hidden(each, path))
    folders = [each for each in seen if each.is_dir()]
    held = [
        (file, number)
        for number, folder in enumerate(folders)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not _is_hidden(file, path)
    ]
    images = [each for each in held if each[0].suffix.lower() in _ENDINGS]
    others = [file for file, _ in held if file.suffix.lower() not in _ENDINGS]
    if not images:
        raise _without_images(path)
    _check_classes(path, folders, {number for _, number in images}, others)
    broken = _broken(path, [file for file, _ in images], skip_broken=skip_broken)
    kept = [each for each in images if each[0] not in broken]
    return ImageFolders(folders, kept, others, [file for file, _ in images if file in broken])


def every_image_in(path: Path, *, skip_broken: bool = False) -> ImageFolders:
    """All images of a folder, and of those in it, without classes; see `images_in`.

    Raises:
        DataError: there are none, or a file is none.
        MissingPackageError: pillow is not installed.
    """
    held = sorted(each for each in path.rglob("*") if each.is_file() and not _is_hidden(each, path))
    images = [each for each in held if each.suffix.lower() in _ENDINGS]
    others = [each for each in held if each.suffix.lower() not in _ENDINGS]
    if not images:
        raise _without_images(path, is_predicted=True)
    broken = _broken(path, images, skip_broken=skip_broken)
    kept = [(each, 0) for each in images if each not in broken]
    return ImageFolders((), kept, others, sorted(broken))


def notes_of_left(path: Path, found: ImageFolders) -> list[str]:
    """What is to be said of files that are left out."""
    left = ((found.others, _OTHERS), (found.broken, _LEFT))
    return [f"{path}: left out are {_counted(path, files, *said)}" for files, said in left if files]


def _check_classes(
    path: Path, folders: Sequence[Path], used: set[int], others: Sequence[Path]
) -> None:
    """Checks that each folder may be a class.

    Raises:
        DataError: they are parts of a data set, or one has other files alone.
    """
    names = [each.name for each in folders]
    if len(names) > 1 and {each.lower() for each in names} <= _PARTS:
        raise DataError(
            f"its folders are parts of a data set, {listed(names)}, not classes",
            where=str(path),
            hint=f"give one of them, such as {path / names[0]}, and another one as the validation",
        )
    for number, folder in enumerate(folders):
        inside = [each for each in others if each.is_relative_to(folder)]
        if number not in used and inside:
            raise DataError(
                f"the folder {printable(folder.name)} has no images, but "
                f"{_counted(folder, inside, *_OTHERS)}",
                where=str(path),
                hint="each folder is a class; move others away, or put a dot in front of their "
                f"names; images end in {', '.join(sorted(_ENDINGS))}. Boxes, masks and captions "
                "are given as arrays",
            )


def _broken(path: Path, files: Sequence[Path], *, skip_broken: bool) -> set[Path]:
    """The files that are no whole images.

    Raises:
        DataError: there are some, and they are not to be left out; there are no others; or nothing
            says how large the numbers of an image may be.
    """
    require_packages("PIL")
    wrong = [file for file in files if not is_readable(file, decodes=skip_broken)]
    if wrong and not skip_broken:
        raise DataError(
            _counted(path, wrong, *_WRONG),
            where=str(path),
            hint=f"remove them, or leave them out by {SKIP_BROKEN}. They are those of which "
            "PIL.Image.open(FILE).load() fails",
        )
    if len(wrong) == len(files):
        raise DataError(
            f"no image of it can be read: {_counted(path, wrong, *_WRONG)}",
            where=str(path),
            hint="provide images that PIL.Image.open(FILE).load() reads",
        )
    return set(wrong)


def _counted(path: Path, files: Sequence[Path], one: str, several: str) -> str:
    count, names = len(files), listed([str(each.relative_to(path)) for each in files])
    return f"{count} {one if count == 1 else several}: {names}"


@dataclass(frozen=True)
class _Folder:
    """A kind of folders that is not read.

    Attributes:
        has: whether a folder with such files is of the kind.
        hint: what to do with it.
    """

    has: Callable[[Path, Counter[str]], bool]
    hint: str


def _ends(*endings: str) -> Callable[[Path, Counter[str]], bool]:
    return lambda _, found: any(ending in found for ending in endings)


_FOLDERS = (
    _Folder(
        lambda path, _: any((path / n).is_file() for n in ("state.json", "dataset_dict.json")),
        "it is a data set that Hugging Face saved: in Python trainer.fit(datasets.load_from_disk("
        "PATH)), of one with parts [\"train\"] of it; or .to_parquet('data.parquet')",
    ),
    _Folder(
        lambda path, _: any(f.suffix.lower() in _ENDINGS for f in islice(path.iterdir(), _MOST)),
        "its images lie in no folder of a class: " + HINT,
    ),
    _Folder(
        _ends(".csv", ".tsv", ".parquet", ".npz", ".safetensors", ".jsonl"),
        "give one of its files, with all samples: pandas.concat joins several tables",
    ),
    _Folder(
        _ends(".wav", ".flac", ".mp3", ".ogg"),
        "compute features of sounds, and save them as arrays: docs/howto/keywords.md does so",
    ),
)


def _without_images(path: Path, *, is_predicted: bool = False) -> DataError:
    """The error of a folder that has none; those that are predicted may lie in any folders."""
    files = islice((each for each in path.rglob("*") if each.is_file()), _MOST)
    found = Counter(each.suffix.lower() or "without an ending" for each in files)
    usual, where = (_ANY, "") if is_predicted else (HINT, " in folders")
    hint = next((kind.hint for kind in _FOLDERS if kind.has(path, found)), usual)
    has = listed([f"{count} {ending}" for ending, count in found.most_common()]) or "no files"
    return DataError(
        f"the data is a folder without images{where}, and without .npy files; it has {has}",
        where=str(path),
        hint=hint,
    )


def _is_hidden(path: Path, folder: Path) -> bool:
    """Whether it is of a system or a tool, such as ._1.png and .ipynb_checkpoints."""
    return any(part.startswith(".") for part in path.relative_to(folder).parts)
