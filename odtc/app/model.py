"""The files that an app takes of an artifact, and the name that tells models of an app apart."""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

from odtc.backends.compiled_for import target_of
from odtc.backends.objects.elf import check_library
from odtc.backends.objects.static_kernels import check_kernels as check_static
from odtc.backends.targets import CPU, Target
from odtc.core.artifact.beside import check_beside, files_beside
from odtc.core.artifact.bundle import Bundle
from odtc.core.errors import BuildError, UnsupportedError, UsageError

PROGRAM, WEIGHTS = "program.bin", "parameters.safetensors"

# In names of files, of packages of Java and of symbols of C, all of which have lower case letters.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
# A file's path in an app: parts that builds of apps take as they are, and leave none out.
_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*")
_NAME_HINT = (
    "give --name 1 to 40 lower case letters, digits and _, beginning with a letter, such as digits"
)


@dataclass(frozen=True)
class Model:
    """A compiled step for an app.

    Attributes:
        name: of the model in the app.
        target: what it was compiled for.
        program: the step as data.
        weights: those that training starts from.
        library: its kernels.
        beside: files with weights that the artifact leaves there, by their paths from `weights`.
    """

    name: str
    target: Target
    program: Path
    weights: Path
    library: Path
    beside: Mapping[str, Path]

    @property
    def data(self) -> Mapping[str, Path]:
        """The files of an app that are no code, by their paths in the model's folder."""
        return {PROGRAM: self.program, WEIGHTS: self.weights, **self.beside}

    @property
    def kernels(self) -> str:
        """The file name of its kernels in an app, in which each library has another."""
        return f"lib{self.name}_kernels.so"


def model_of(bundle: Bundle, name: str) -> Model:
    """Collects the files that an app takes of an artifact.

    Raises:
        ArtifactError: this version has no such target.
        UsageError: the name is none for an app.
        UnsupportedError: its step runs in TVM alone, as those for GPUs do; or a file in which the
            artifact leaves weights has no name for an app.
        ArtifactError: such a file is missing, or has other bytes.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name for a model in an app", hint=_NAME_HINT)
    target = target_of(bundle.manifest)
    if bundle.program is None:
        raise UnsupportedError(
            f"this step for {target.name} has no program for the native runtime to run",
            hint="compile the model for a CPU, with this version of odtc",
        )
    if target.kind != CPU:
        raise UnsupportedError(
            f"this step is for {target.name}, and apps have the runtime for CPUs alone so far",
            hint="compile the model for a CPU",
        )
    model = Model(name, target, bundle.program, bundle.parameters, bundle.library, {})
    return replace(model, beside=_beside(bundle, {*model.data, model.kernels}))


def _beside(bundle: Bundle, taken: Set[str]) -> dict[str, Path]:
    """The files in which an artifact leaves weights, by their paths.

    Raises:
        UnsupportedError: a name is taken, or none that builds of apps take.
        ArtifactError: a file is missing, or has other bytes.
    """
    files = files_beside(bundle)
    tops = {name.partition("/")[0].lower() for name in taken}
    for name in files:
        if not _PATH.fullmatch(name) or name.partition("/")[0].lower() in tops:
            raise UnsupportedError(
                f"the artifact leaves weights in {name!r}, which is not a valid file name in "
                "an app",
                where="export-app",
                hint="save the model's external data under a name of letters, digits, ., _, + and "
                f"-, other than {PROGRAM} and {WEIGHTS}, and compile it again",
            )
    check_beside(bundle)
    return {name: bundle.folder / name for name in files}


def check_kernels(model: Model) -> None:
    """Checks that a process without TVM loads the kernels, or that an app can be linked with them.

    Raises:
        BuildError: it would not, as those that an older version of odtc compiled.
    """
    try:
        if model.target.is_static:
            check_static(model.library, model.target)
        else:
            check_library(model.library, model.target, in_app=True)
    except BuildError as error:
        hint = "compile the model again, with this version of odtc"
        raise BuildError(error.what, where=error.where, hint=hint) from error


def default_name(path: Path) -> str:
    """A model's name by the file of its artifact, up to the first dot; `model_of` may refuse it."""
    return path.name.partition(".")[0].lower().replace("-", "_")
