"""Which base adapters are of: one hash of the weights that no step changes.

A file of an adapter alone says it, and is taken up over that base only: over another one of the
same shapes it would train on without a word, from losses that are not its own. The artifact has the
hash, so that nothing has to be read for it; see docs/design/adapters.md.
"""

import hashlib
from collections.abc import Mapping

import numpy as np

# Its name in files and in facts of a program.
BASE = "base_sha256"


def base_of(hashes: Mapping[str, str]) -> str:
    """The hash of a base, in hex; empty where there is none.

    The native runtime has the same (runtime_rpc/native/runtime/base.c).

    Args:
        hashes: of the bytes of each frozen weight, in hex, by name.
    """
    if not hashes:
        return ""
    names = sorted(hashes, key=str.encode)
    return hashlib.sha256(
        "".join(f"{name}\n{hashes[name]}\n" for name in names).encode()
    ).hexdigest()


def hash_of(value: np.ndarray) -> str:
    """The hash of a weight's bytes, in hex."""
    return hashlib.sha256(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data).hexdigest()
