"""A checkpoint of several adapters, with another one at work than where it was written."""

from dataclasses import replace

from odtc.core.artifact.manifest import Manifest
from odtc.core.specs import Role
from odtc.runtime_rpc.state.checkpoint import Checkpoint
from odtc.runtime_rpc.state.kept_adapters import Adapters
from odtc.runtime_rpc.state.parked import Parked


def with_at_work(found: Checkpoint, name: str, manifest: Manifest) -> Checkpoint:
    """The checkpoint as it would be if that adapter had been set before it was written.

    Args:
        found: of several adapters.
        name: of one of them.
        manifest: of the step.
    """
    assert found.adapters
    chosen = found.adapters.parked[name]
    if chosen is None:
        return found
    frozen = {item.spec.name for item in manifest.of_role(Role.FROZEN)}
    own = {key: value for key, value in found.tensors.items() if key not in frozen}
    base = {key: value for key, value in found.tensors.items() if key in frozen}
    before = Parked(found.step, own, found.progress, found.run, is_stored=True)
    parked = {**found.adapters.parked, found.adapters.active: before, name: None}
    return replace(
        found,
        step=chosen.steps,
        tensors={**base, **chosen.tensors},
        progress=chosen.progress,
        run=chosen.run,
        adapters=Adapters(name, parked),
    )
