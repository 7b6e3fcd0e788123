"""Where the object files of kernels are kept between compiles."""

from odtc.core.content_store import ContentStore
from odtc.core.files import cache_folder

# SqueezeNet's kernels take 1.5 MB.
MOST_BYTES = 1 << 30


def kernel_store() -> ContentStore:
    """The store, in the user's cache."""
    return ContentStore(cache_folder() / "kernels", MOST_BYTES)
