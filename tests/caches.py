"""Caches for tests: a step is compiled by each test that wants it, of kernels that a run made once.

    test ─compile→ step ─┬─ kernel of a test before ─kept→ its outline
                         └─ new ─lower, compile→ keep ───→

Kernels are kept for one run, by all that makes code of them: each is made by the compiler that is
tested, and by none of before. What other tests have made shows nothing of a compiler that a test
has changed, so there none are kept.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odtc.core.disk.files import cache_folder

# What tests keep for themselves lies beside odtc's cache in a folder of this name.
KEPT = "odtc-tests"
# Of the user's caches; beside odtc's own, drivers keep what they have made of a kernel's code by a
# hash of that.
_OURS = ("kernels", "libraries", "published", "standin", "storage")
_BESIDE = ("pocl", "mesa_shader_cache", KEPT)
# What makes code of a model.
_COMPILER = "autoschedule backends core dialect driver frontend passes".split()
_COMPILERS = ("tvm.", *(f"odtc.{name}." for name in _COMPILER))


def without_steps(folder: Path) -> str:
    """Makes an empty cache in which neither steps nor outlines are kept; its path."""
    return _without(folder, "steps", "outlines")


def with_outlines(folder: Path) -> str:
    """Makes an empty cache in which no steps are kept; its path."""
    return _without(folder, "steps")


def _without(folder: Path, *names: str) -> str:
    place = folder / "odtc"
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        # Where there is no folder, nothing is kept.
        (place / name).touch()
    return str(folder)


def of_this_run(folder: Path, *, is_worker: bool) -> str:
    """Makes the cache of a process of tests, for what it starts, too; its path.

    Args:
        folder: that is empty.
        is_worker: whether the cache that there is is that of the process which started this one
            for the same run: its outlines are shared.
    """
    _link(folder)
    outlines = folder / "odtc" / "outlines"
    if is_worker:
        outlines.symlink_to(cache_folder() / "outlines")
    else:
        outlines.mkdir(mode=0o700)
    return with_outlines(folder)


def anew(folder: Path) -> str:
    """Makes the cache of a process of tests for those that change the compiler; its path."""
    _link(folder)
    return without_steps(folder)


def _link(folder: Path) -> None:
    """Makes a cache of what lies in the one that there is, but for steps and outlines."""
    there = cache_folder()
    (folder / "odtc").mkdir(mode=0o700, parents=True)
    for name in _OURS:
        (there / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "odtc" / name).symlink_to(there / name)
    for name in _BESIDE:
        (there.parent / name).mkdir(mode=0o700, exist_ok=True)
        (folder / name).symlink_to(there.parent / name)


def patching(cache: str, instead: str, setattr_: Callable[..., None]) -> Callable[..., None]:
    """`MonkeyPatch.setattr`, but where it changes the compiler, kernels are made anew from then on.

    Args:
        cache: of the tests. One that a test has for itself stays.
        instead: the cache in which no outlines are kept.
        setattr_: as pytest has it.
    """

    def patched(patch: Any, target: Any, *change: Any, **options: Any) -> None:
        if is_compilers(target) and os.environ.get("XDG_CACHE_HOME") == cache:
            patch.setenv("XDG_CACHE_HOME", instead)
        setattr_(patch, target, *change, **options)

    return patched


def is_compilers(target: object) -> bool:
    """Whether a module, what is of one, or what a path names is a part of the compiler."""
    named = getattr(target, "__module__", None) or getattr(target, "__name__", "")
    name = target if isinstance(target, str) else str(named)
    return f"{name}.".startswith(_COMPILERS)
