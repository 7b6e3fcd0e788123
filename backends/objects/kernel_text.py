"""A kernel as text that hashes are taken of: equal texts are compiled to equal code.

Kernels that TVMScript parses have the file and the line of their source in each node. Code has
nothing of it, so it is no part of the text: a clone elsewhere, or a comment above a kernel, makes
no other kernel of it.
"""

import re

import tvm
from tvm import tirx

_FILE = re.compile(r'(\{"type":"ir\.SourceName","data":)"(?:[^"\\]|\\.)*"')
_LINES = re.compile(r',"line":\d+,"column":\d+,"end_line":\d+,"end_column":\d+')


def text_of(kernel: tirx.PrimFunc) -> str:
    """The JSON of a kernel, without where its source stands."""
    return _LINES.sub("", _FILE.sub(r'\1""', tvm.ir.save_json(kernel)))
