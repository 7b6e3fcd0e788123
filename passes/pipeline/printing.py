"""Prints a module after passes of a pipeline, by TVM's instruments.

with tvm.transform.PassContext(instruments=[PrintAfter(["fuse-named"], print)]):
odtc.compile("model.onnx")
"""

import re
from collections.abc import Callable, Collection

import tvm
from tvm.ir.instrument import pass_instrument

# What is given in place of names for each pass.
ALL = "all"
# Of a call of our own operators, whose type is inferred where the text is read.
_TYPE = re.compile(r', ret_ty=metadata\["[\w.]+"\]\[\d+\]')

_METADATA, _OMITTED = 'metadata["', "# Metadata omitted"


def script_of(module: tvm.IRModule) -> str:
    """A module as TVM script, without what is not for readers: large constants and such types."""
    text = _TYPE.sub("", module.script(show_meta=False))
    return text if _METADATA in text else text.partition(_OMITTED)[0].rstrip()


def is_watched() -> bool:
    """Whether instruments watch the passes of this thread, which have to run for that."""
    return bool(tvm.transform.PassContext.current().instruments)


@pass_instrument
class PrintAfter:
    """Prints the module after each of some passes, under their names."""

    def __init__(self, names: Collection[str], write: Callable[[str], None]):
        """Takes what to print, and where.

        Args:
            names: titles of passes. Passes that these run themselves have others.
            write: is given the text of a module, with a comment above it that names the pass.
        """
        self.names, self.write = names, write
        self.seen: set[str] = set()

    def run_after_pass(self, module: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        """Prints it, if it is asked for."""
        if info.name in self.names:
            self.seen.add(info.name)
            self.write(f"# -----// IR Dump After {info.name} //----- #\n{script_of(module)}\n")
