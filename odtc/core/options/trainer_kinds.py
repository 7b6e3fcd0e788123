"""Kinds of arguments of an artifact and its trainers: where a step runs, and how data is read."""

from typing import Any

from odtc.core.artifact.bundle import Bundle
from odtc.core.options.kinds import (
    FLAG,
    PATH,
    TEXT,
    WHOLE,
    Kind,
    either,
    instance,
    kind,
    optional,
)

BUNDLE = instance(
    Bundle, "unpacked artifact", "odtc.compile and odtc.load make it: artifact.trainer()"
)


def _session(value: Any) -> Any:
    # By what it does: classes of sessions come with TVM.
    if isinstance(value, type) or not (hasattr(value, "guard") and hasattr(value, "load")):
        raise TypeError
    return value


SESSION = kind("session", "odtc.connect makes one", _session)
DEVICE = either(
    TEXT,
    SESSION,
    hint="give 'adb://SERIAL', 'rpc://HOST:PORT/KEY', or what odtc.connect returns",
)
THREADS = {
    "threads": optional(WHOLE),
    "cores": optional(TEXT.with_hint("give 'big', 'little' or 'all', or numbers such as '4,5'")),
}
READ: dict[str, Kind] = {
    "tokenizer": optional(PATH),
    "end_token": optional(TEXT),
    "pack": FLAG,
    "skip_broken": FLAG,
}
