"""Binds the parts of an artifact to each other by one hash, which its library has in it.

The hashes in a manifest tell what came apart on the way. They do not tell that a manifest is
another one: with a parameter renamed or two of them exchanged, hashed again, the library would
train the wrong weights without a word. So the linker writes a hash of the manifest, and of the
weights and the model, into the library, as its build id.
"""

import hashlib
import json
from collections.abc import Collection

from odtc.core.artifact.manifest import Manifest
from odtc.core.artifact.parsing import parse_manifest


def identity_of(manifest: Manifest, bound: Collection[str]) -> str:
    """The hash, in hex, of everything that a manifest says.

    Args:
        manifest: with the hashes of the members `bound`.
        bound: members of the artifact that are part of it; the library itself cannot be.
    """
    # What is read back may be spelt otherwise, such as 0 as 0.0.
    read = parse_manifest(manifest.to_json(), "")
    data = read.as_data() | {"files": {name: read.files[name] for name in bound}}
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
