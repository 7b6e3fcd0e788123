"""The names of ONNX's tests, kept: to list them computes what each expects, 5 s in each process."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

from odtc.core.disk.content_store import ContentStore
from odtc.core.disk.files import cache_folder
from tests.caches import KEPT
from tests.conformance import worker

_MOST_BYTES = 1 << 22


def kept_names() -> list[str]:
    """All tests, as `group/name`: those of `worker.names`, for the packages that are installed."""
    store = ContentStore(cache_folder().with_name(KEPT) / "names", _MOST_BYTES, digits=1)
    made_by = [version("onnx"), version("numpy"), Path(worker.__file__).read_text()]
    key = hashlib.sha256(json.dumps(made_by).encode()).hexdigest()
    content = store.get(key)
    if content is None:
        content = json.dumps(worker.names()).encode()
        store.put(key, content)
    return json.loads(content)
