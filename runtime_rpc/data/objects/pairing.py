"""Batches as pairs of inputs and labels, where a loader gives them by name or one by one."""

from collections.abc import Mapping
from typing import Any

from odtc.core.artifact.manifest import Manifest
from odtc.core.options.caller_warning import warn_caller
from odtc.core.specs import Role
from odtc.runtime_rpc.data.objects.named import Naming
from odtc.runtime_rpc.feed.texts import check_no_texts

_PAIR = 2


class Pairing:
    """Makes a pair of a batch, and tells once what a batch has beside inputs and labels.

    Args:
        manifest: of the step.
    """

    def __init__(self, manifest: Manifest) -> None:
        inputs = manifest.of_role(Role.INPUT)
        self._naming = Naming(inputs, manifest.labels, "data", "a batch")
        self._told = False

    def __call__(self, batch: Any) -> Any:
        """A pair of mappings, of a mapping or of a tuple of as many parts; else the batch itself.

        Raises:
            DataError: an input or a label is missing in a mapping; the batch is of texts.
        """
        check_no_texts(batch, "batches of the data")
        naming = self._naming
        count = len(naming.inputs) + len(naming.labels)
        is_flat = isinstance(batch, list | tuple) and len(batch) == count > _PAIR
        if not isinstance(batch, Mapping) and not is_flat:
            return batch
        if not self._told and (said := naming.left_out(batch)):
            warn_caller(said)
        self._told = True
        named = naming.named(batch)
        return tuple(
            {item.spec.name: named[item.spec.name] for item in items}
            for items in (naming.inputs, naming.labels)
        )
