"""Weights that an artifact leaves in files, on a device, which keeps them for later sessions."""

import hashlib
import json
from dataclasses import dataclass

from odtc.core.artifact.beside import check_beside, hashes_beside
from odtc.core.artifact.bundle import Bundle
from odtc.runtime_rpc.engines.served_program import uploaded
from odtc.runtime_rpc.sessions.remote import RemoteSession


@dataclass(frozen=True)
class Kept:
    """What a device has of the files of an artifact.

    Attributes:
        folder: of the device, from the session's; empty where the artifact leaves nothing.
        key: of all files.
        is_found: whether an earlier session brought them.
    """

    folder: str = ""
    key: str = ""
    is_found: bool = False


def kept_weights(session: RemoteSession, bundle: Bundle) -> Kept:
    """Sends files with weights, unless the device has them by their hashes.

    Raises:
        ArtifactError: a file is missing, or has other bytes than when the step was compiled.
        DeviceError: the device failed, or has no room.
    """
    check_beside(bundle)
    hashes = hashes_beside(bundle)
    if not hashes:
        return Kept()
    key = hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()
    size = sum((bundle.folder / name).stat().st_size for name in hashes)
    with session.guard():
        found = str(session.function("odtc.weights.find")(key, size))
    if found:
        return Kept(found, key, is_found=True)
    for name in hashes:
        sent = uploaded(session, bundle.folder / name, "weights")
        with session.guard():
            session.function("odtc.weights.add")(key, sent, name)
    with session.guard():
        return Kept(str(session.function("odtc.weights.keep")(key)), key)


def sent_again(session: RemoteSession, bundle: Bundle, kept: Kept) -> Kept:
    """Sends the files in place of those that the device has, which were damaged there, or are gone.

    Raises:
        ArtifactError, DeviceError: as of `kept_weights`.
    """
    with session.guard():
        session.function("odtc.weights.leave")(kept.key)
    return kept_weights(session, bundle)
