"""A cache of steps that is used, and what is built beside it."""

from pathlib import Path

import pytest

from odtc.driver import building
from odtc.step_cache.store import step_store


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that is used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return step_store().folder


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that are built."""
    names: list[str] = []
    build = building.build

    def counted(model: Path, *rest):
        names.append(model.name)
        return build(model, *rest)

    monkeypatch.setattr(building, "build", counted)
    return names
