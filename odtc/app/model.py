"""The files that an app takes of an artifact, and the name that tells models of an app apart."""

import re
from dataclasses import dataclass
from pathlib import Path

from odtc.backends.compiled_for import target_of
from odtc.backends.objects.elf import check_library
from odtc.backends.objects.static_kernels import check_kernels as check_static
from odtc.backends.targets import CPU, Target
from odtc.core.artifact.beside import require_whole
from odtc.core.artifact.bundle import Bundle
from odtc.core.errors import BuildError, UnsupportedError, UsageError

PROGRAM, WEIGHTS = "program.bin", "parameters.safetensors"

# In names of files, of packages of Java and of symbols of C, all of which have lower case letters.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
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
    """

    name: str
    target: Target
    program: Path
    weights: Path
    library: Path

    @property
    def kernels(self) -> str:
        """The file name of its kernels in an app, in which each library has another."""
        return f"lib{self.name}_kernels.so"


def model_of(bundle: Bundle, name: str) -> Model:
    """Collects the files that an app takes of an artifact.

    Raises:
        ArtifactError: this version has no such target.
        UsageError: the name is none for an app.
        UnsupportedError: its step runs in TVM alone, as those for GPUs do; or the artifact leaves
            weights in files.
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
    require_whole(bundle, "export-app", "an app's package holds all that its step starts from")
    return Model(name, target, bundle.program, bundle.parameters, bundle.library)


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
