"""The zip file of an artifact, before anything of it is unpacked.

Deflated, a megabyte may hold a gigabyte. Members are stored, as odtc writes them, so that none is
larger than the file that it is in, and all together are not either.
"""

import zipfile
from collections import Counter
from collections.abc import Mapping

from odtc.core.errors import ArtifactError

_ENCRYPTED = 0x1
_HINT = "copy the artifact again, or compile the model again"


def require_stored(
    archive: zipfile.ZipFile, most: Mapping[str, int | None], size: int, where: str
) -> None:
    """Checks how the members of an artifact lie in its file.

    Args:
        archive: the opened artifact.
        most: bytes that each of its members may have, by name; None for no limit but the file's.
        size: of the file, in bytes.
        where: the artifact, for messages.

    Raises:
        ArtifactError: a member is there twice, compressed, encrypted or too large.
        KeyError: it is not there.
    """
    counts, total = Counter(archive.namelist()), 0
    for name, limit in most.items():
        item = archive.getinfo(name)
        is_plain = item.compress_type == zipfile.ZIP_STORED and item.compress_size == item.file_size
        if not is_plain or item.flag_bits & _ENCRYPTED:
            raise _refused(f"the member {name} is compressed or encrypted; odtc stores it", where)
        if counts[name] > 1:
            raise _refused(f"the member {name} is there {counts[name]} times", where)
        if limit is not None and item.file_size > limit:
            raise _refused(
                f"the member {name} has {item.file_size:,} bytes; at most {limit:,} are read", where
            )
        total += item.file_size
    if total > size:
        raise _refused(f"its members have {total:,} bytes, and the file has {size:,}", where)


def _refused(what: str, where: str) -> ArtifactError:
    return ArtifactError(f"not a whole odtc artifact ({what})", where=where, hint=_HINT)
