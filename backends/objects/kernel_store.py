"""The stores of kernels between compiles: of object files, and of their outlines."""

from odtc.core.disk.content_store import ContentStore
from odtc.core.disk.files import cache_folder

# SqueezeNet's kernels take 1.5 MB.
MOST_BYTES = 1 << 30


def kernel_store() -> ContentStore:
    """The store, in the user's cache."""
    return ContentStore(cache_folder() / "kernels", MOST_BYTES)


# SqueezeNet's take 0.2 MB.
_OUTLINE_BYTES = 1 << 26


def outline_store() -> ContentStore:
    """The store of outlines, in the user's cache; see `backends/objects/outlines.py`."""
    return ContentStore(cache_folder() / "outlines", _OUTLINE_BYTES)
