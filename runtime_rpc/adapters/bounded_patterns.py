"""Regular expressions from a file, matched within a bounded time.

Such an expression can take longer than anyone waits, on a name of thirty letters. What repeats
nothing and has no branches takes a step a letter, and is matched here; all else in a process that
is ended when its time is over.
"""

import json
import re
import subprocess
import sys
from collections.abc import Collection

from odtc.core.errors import ArtifactError

SECONDS = 10
# Letters, dots, escaped signs, and either end.
_PLAIN = re.compile(r"\^?(?:[\w.-]|\\[^\w\s])*\$?", re.ASCII)
_CHILD = """
import json, re, sys
def number(pattern, name):
    try:
        found = re.fullmatch(pattern, name)
    except (re.error, RecursionError, OverflowError):
        return None
    return found and found.groupdict().get("number", "")
json.dump([number(*pair) for pair in json.load(sys.stdin)], sys.stdout)
"""


def matching(
    pairs: Collection[tuple[str, str]], outside: Collection[str], where: str
) -> dict[tuple[str, str], str]:
    """The pairs of an expression and a name that it matches as a whole, with its group `number`.

    Args:
        pairs: to try; an expression that is none matches nothing.
        outside: the parts of expressions that are from the file.
        where: the file.

    Returns:
        Texts of the group, which are empty where an expression has none.

    Raises:
        ArtifactError: it took too long.
    """
    if all(_PLAIN.fullmatch(each) for each in outside):
        tried = [(pair, re.fullmatch(*pair)) for pair in pairs]
        return {pair: found.groupdict().get("number", "") for pair, found in tried if found}
    given = [*pairs]
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CHILD],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
    except (subprocess.SubprocessError, OSError) as error:
        raise ArtifactError(
            f"the regular expressions of the folder could not be matched within {SECONDS} s",
            where=where,
            hint="name the modules instead of an expression, as in a list of target_modules",
        ) from error
    found = zip(given, json.loads(done.stdout), strict=True)
    return {pair: text for pair, text in found if text is not None}
