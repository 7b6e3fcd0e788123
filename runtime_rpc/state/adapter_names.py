"""Names of adapters, which are parts of names in files; without NumPy, for commands to check."""

import re

from odtc.core.errors import UsageError
from odtc.core.options.kinds import shown

ADAPTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_adapter_name(name: str) -> None:
    """Checks that an adapter may have a name.

    Raises:
        UsageError: it may not; an empty name is none.
    """
    if not ADAPTER_NAME.fullmatch(name):
        raise UsageError(
            f"{shown(name)} is not a valid adapter name",
            hint="give 1 to 64 letters, digits, _, - and ., starting with a letter or a digit",
        )
