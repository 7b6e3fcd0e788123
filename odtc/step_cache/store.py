"""Where compiled steps are kept: artifacts, without the weights that are in the model's files.

    key ─┬─ kept, and files beside the model as they were ─→ artifact
         └─ built ─→ keep ──────────────────────────────────→

An entry is a zip file: the members of an artifact but for its weights, where these lie in the
model's files, the content of those that do not, and what was said of the compile.
"""

import dataclasses
import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from odtc.core.artifact import bundle as bundles
from odtc.core.artifact.bundle import Bundle
from odtc.core.artifact.manifest import Manifest
from odtc.core.artifact.parsing import parse_manifest
from odtc.core.disk.content_store import ContentStore
from odtc.core.disk.files import cache_folder, output_errors, private_folder
from odtc.core.disk.left_behind import remove_folder
from odtc.core.disk.package_files import is_as_loaded
from odtc.core.disk.pieces import Piece, cut, join
from odtc.core.disk.tensor_file import read_header
from odtc.core.errors import OdtcError
from odtc.step_cache.unchanged import Seen

MOST_BYTES = 1 << 30
# Of one that is kept, a sixteenth of these: weights that are in no file of the model count.
_DIGITS = 1

_ENTRY, _CONTENT = "entry.json", "content"


def step_store() -> ContentStore:
    """The store, in the user's cache."""
    return ContentStore(cache_folder() / "steps", MOST_BYTES, _DIGITS)


@dataclass(frozen=True)
class KeptStep:
    """A compile's result, as it is kept.

    Attributes:
        bundle: the artifact.
        warnings: that were given.
    """

    bundle: Bundle
    warnings: Sequence[str]


def find(key: str, model: Path) -> KeptStep | None:
    """The step under a key; None where there is none, or where files beside the model are others.

    Raises:
        OutputError: there is no room for the artifact.
    """
    found = step_store().get(key)
    if found is None:
        return None
    with zipfile.ZipFile(io.BytesIO(found)) as archive:
        entry = json.loads(archive.read(_ENTRY))
        if any(_sha256(model.parent / name) != sha256 for name, sha256 in entry["beside"]):
            return None
        manifest = parse_manifest(archive.read(bundles.MANIFEST), os.fspath(model))
        root = private_folder()
        try:
            with output_errors("the folder for temporary files"):
                for name in _kept(manifest):
                    (root / name).write_bytes(archive.read(name))
                pieces = [Piece(*each) for each in entry["pieces"]]
                join(root / bundles.PARAMETERS, pieces, archive.read(_CONTENT), model.parent)
            whole = _sha256(root / bundles.PARAMETERS) == manifest.files[bundles.PARAMETERS]
        except BaseException:
            remove_folder(root)
            raise
    if not whole:
        # The model's file has changed since its hash was taken: who compiles reads it once more.
        remove_folder(root)
        return None
    bundle = Bundle(manifest, root, model.absolute().parent)
    return KeptStep(bundles.owned(bundle), entry["warnings"])


def _kept(manifest: Manifest) -> list[str]:
    """Members of an artifact that an entry has."""
    return [name for name in bundles.members_of(manifest) if name != bundles.PARAMETERS]


def beside(model: Path) -> set[Path]:
    """Files that hold elements of a model's tensors, beside its own; none where nobody can tell."""
    # ONNX comes with it, which a step that is found goes without.
    from odtc.frontend.weights.in_file import UNREADABLE

    try:
        return {model.parent / name for name in _names(model, _places(model))}
    except UNREADABLE:
        return set()


def keep(key: str, model: Path, kept: KeptStep, seen: Seen) -> None:
    """Keeps the step under a key, unless a file that it was made from, or by, changed meanwhile.

    Args:
        key: of the step.
        model: path of its file.
        kept: what became of it.
        seen: all files that it was made from, as they were before they were read.
    """
    from odtc.frontend.weights.in_file import UNREADABLE

    try:
        found = list(_places(model))
        names = _names(model, found)
        places = dict(found)
        known = list(_known(kept.bundle.parameters, places))
        rest = kept.bundle.parameters.stat().st_size - sum(piece.size for _, piece in known)
        if rest > step_store().most_of_one:
            return
        pieces, content = cut(kept.bundle.parameters, known, model.parent)
        entry = {
            "warnings": list(kept.warnings),
            "beside": [(name, _sha256(model.parent / name)) for name in names],
            "pieces": [dataclasses.astuple(each) for each in pieces],
        }
    except (*UNREADABLE, OdtcError):
        return
    all_seen = seen.files.keys() >= {model.parent / name for name in names}
    if not all_seen or not seen.are_unchanged:
        return
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr(_ENTRY, json.dumps(entry))
        archive.writestr(bundles.MANIFEST, kept.bundle.manifest.to_json())
        archive.writestr(_CONTENT, content)
        for name in _kept(kept.bundle.manifest):
            archive.write(kept.bundle.root / name, name)
    # Looked at last: it is some thousand files, for nothing where there can be no store.
    if not step_store().problem and is_as_loaded():
        step_store().put(key, memory.getvalue())


def _places(model: Path) -> Iterator[tuple[str, Piece]]:
    """Where the elements of tensors lie that are large, or in files beside the model's."""
    from odtc.frontend.weights.in_file import elements_in_files

    folder = model.absolute().parent
    for each in elements_in_files(model):
        yield each.tensor, Piece(os.path.relpath(each.path, folder), each.offset, each.size)


def _names(model: Path, places: Iterable[tuple[str, Piece]]) -> list[str]:
    """The files of places but the model's own: tensors of one name may lie in several."""
    return sorted({piece.file for _, piece in places} - {model.name})


def _known(parameters: Path, places: dict[str, Piece]) -> Iterator[tuple[int, Piece]]:
    """Places of weights, each with its offset in the file of an artifact."""
    with parameters.open("rb") as file:
        header = read_header(file)
    for name, entry in header.entries.items():
        piece = places.get(name)
        if piece and piece.size == entry.end - entry.begin:
            yield header.start + entry.begin, piece


def _sha256(path: Path) -> str:
    """The hash of a file; empty where it cannot be read."""
    try:
        return bundles.file_sha256(path)
    except OSError:
        return ""
