"""Archives that Android's builds take, with the same bytes whenever they are written."""

import io
import zipfile
from collections.abc import Mapping

# The first moment that the format has.
_TIME = (1980, 1, 1, 0, 0, 0)
_READABLE = 0o644 << 16


def archive(files: Mapping[str, bytes]) -> bytes:
    """A zip file, which a jar and an AAR are, of files by their paths in it."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = _READABLE
            out.writestr(entry, content)
    return written.getvalue()
