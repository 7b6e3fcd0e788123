"""Words of a tensor of small elements: 4 bytes that are read at once, whatever is in them."""

from collections.abc import Sequence

from tvm import ir, tirx

from odtc.backends.kernels.common.places import Readable

WORD_BYTES = 4
# What code generators of GPUs know a read of a word by: a function of the address.
READ_WORD = "odtc_word"


def read_word(tensor: Readable, first: Sequence[ir.Expr]) -> ir.Expr:
    """The word, uint32, that begins with an element, which lies at a multiple of its size."""
    address = tirx.address_of(tirx.convert(tensor[tuple(first)]))
    return tirx.call_pure_extern("uint32", READ_WORD, address)
