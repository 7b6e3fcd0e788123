"""The target that an artifact was compiled for, of which its manifest has the text."""

from odtc.backends.targets import Target, parse_target
from odtc.core.artifact.manifest import Manifest
from odtc.core.errors import ArtifactError, UsageError


def target_of(manifest: Manifest) -> Target:
    """The target of an artifact.

    Raises:
        ArtifactError: this version has no such target, as the text is another version's.
    """
    try:
        return parse_target(manifest.target)
    except UsageError as error:
        raise ArtifactError(
            f"the artifact is for {manifest.target}, which is not a target of this version of "
            f"odtc: {error.what}",
            where=f"the artifact, which odtc {manifest.odtc} compiled",
            hint="compile the model again with this version of odtc",
        ) from error
