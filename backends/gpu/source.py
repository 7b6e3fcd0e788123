"""Writes the OpenCL source of kernels so that a phone's driver has little to compile.

Short loops stay loops, with a hint to unroll them: TVM would write every iteration out, hundreds of
kilobytes of a large kernel. A kernel does not declare all others, which it never calls; nor does it
require arithmetic in float16 only because it holds some in memory. What it reads in whole vectors
it can read as images, too.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import tvm
import tvm_ffi

from odtc.backends.gpu.coded.words import READ_WORD

# Iterations of a loop that is unrolled, at most: those of the tiles and slices of products.
_MOST = 16
# Lines of such a loop, at most: what has more is written out as far as it pays.
_MOST_LINES = 64
_LOOP = re.compile(r"^( *)for \(int (\w+) = 0; \2 < (\d+); \+\+\2\) \{$", re.MULTILINE)
_BARRIER = "barrier(CLK_LOCAL_MEM_FENCE)"
# TVM's prologue of a kernel with a pointer to float16, and the code that needs it.
_EXTENSION = re.compile(r"^#ifdef cl_khr_fp16\n.*?^#endif\n", re.MULTILINE | re.DOTALL)
_HALF = re.compile(r"\bhalf\d*\b(?! ?\*)|\bconvert_half")
# Lanes of the vectors of tensors that products read and write.
_OF_TENSORS = (2, 4)
# Memory that a group shares, and tensors.
_SHARED = re.compile(r"^( *__local \w+ (\w+)\[\d+\]);$", re.MULTILINE)
_MEMORY = re.compile(r"\b(__local|__global) (float|half)(?: (\w+)\[|\* restrict (\w+))")
# The places of neighbours, which TVM computes each where it cannot tell that a vector is aligned.
_PLACES = re.compile(
    r"\b(?:int|long)([24]) (\w+) = .*\+\(1\*0\), .*\+\(1\*([13])\)\);$", re.MULTILINE
)
# A vector of scalars, as C++ would write it.
_CONSTRUCTED = re.compile(r"(?<![\w)])(float[24])\(")
_READ_WORD = f"#define {READ_WORD}(at) (*(const __global uint *)(at))\n"
# A tensor among a kernel's parameters, which come in the order of its arguments.
_OPERANDS = re.compile(r"__global (\w+)\* restrict (\w+)")


@dataclass(frozen=True)
class _Load:
    """A form of loads of four neighbours.

    Attributes:
        load: pattern of all before the place that is read; the tensor is called NAME.
        macro: what defines that an operand is an image, but for its number.
        image: the same load of an image.
        buffer: of a buffer.
    """

    load: str
    macro: str
    image: str
    buffer: str

    def choice(self, number: int, name: str, kind: str) -> str:
        """Macros: how the operand of a number and a name is declared, and how it is read."""
        return f"""#ifdef {self.macro}_{number}
#define OPERAND_{number} __read_only image1d_buffer_t
#define READ_{number}(at) {self.image.replace("NAME", name)}
#else
#define OPERAND_{number} __global {kind}* restrict
#define READ_{number}(at) {self.buffer.replace("NAME", name)}
#endif
"""


# What is before a load whose value is converted to float16.
_ROUNDED = re.compile(r"\bconvert_half4\(\(*$")
_FORMS = (
    _Load(
        r"\*\(__global float4\*\)\(NAME \+ ",
        "ODTC_IMAGE",
        "read_imagef(NAME, (at) >> 2)",
        "(*(__global float4*)(NAME + (at)))",
    ),
    _Load(
        r"\*\(__global half4\*\)\(NAME \+ ",
        "ODTC_IMAGE_HALVES",
        "convert_half4(read_imagef(NAME, (at) >> 2))",
        "(*(__global half4*)(NAME + (at)))",
    ),
    _Load(
        r"\bvloada_half4\(0, \(\(__global half \*\)NAME \+ ",
        "ODTC_IMAGE_HALVES",
        "read_imagef(NAME, (at) >> 2)",
        "vloada_half4(0, NAME + (at))",
    ),
)
_DECLARATION = re.compile(r"^__kernel void \w+\([^;{]*\);\n", re.MULTILINE)


@contextmanager
def compact_source(*, images: bool = False) -> Iterator[None]:
    """A block in which TVM writes such source; kernels may be told to read images."""
    written = partial(_rewritten, images)
    tvm_ffi.register_global_func("tvm_callback_opencl_postproc", written, override=True)
    with tvm.transform.PassContext(config={"tirx.UnrollLoop": {"explicit_unroll": 0}}):
        yield


def hinted(source: str) -> str:
    """The source with a hint at each short loop of few lines, in which items do not wait.

    A loop over slices of a product is as large as all that it multiplies: written out, even 8 of
    them do not fit a GPU's cache of instructions.
    """

    def hint(match: re.Match[str]) -> str:
        body = source[match.end() : source.find(f"\n{match[1]}}}", match.end())]
        is_long = int(match[3]) > _MOST or body.count("\n") > _MOST_LINES
        if is_long or _BARRIER in body:
            return match[0]
        return f"{match[1]}#pragma unroll\n{match[0]}"

    return _LOOP.sub(hint, source)


def alone(source: str) -> str:
    """The source of a kernel without the declarations of others."""
    return _DECLARATION.sub("", source)


def plain(source: str) -> str:
    """The source for drivers without arithmetic in float16, of a kernel that needs none."""
    without = _EXTENSION.sub("", source)
    return source if _HALF.search(without) else without


def aligned(source: str) -> str:
    """The source with vectors of products that are read and written at once.

    TVM does so by `vload` and `vstore`, which promise no more than where an element lies, so that a
    driver may take one after the other; or, of a tensor with an offset, reads one after the other
    itself. Vectors of products lie at multiples of their size (`product_slices.py`, `runs.py`): of
    tensors, products alone read or write some floats at once.
    """
    side_by_side = {m[2] for m in _PLACES.finditer(source) if int(m[3]) == int(m[1]) - 1}
    tensors = "|".join(map(str, _OF_TENSORS))
    for match in _MEMORY.finditer(source):
        (space, kind), name = match.group(1, 2), match[3] or match[4]
        lanes = r"(\d+)" if space == "__local" else f"({tensors})"
        load = re.compile(rf"\bvload{lanes}\(0, {name} \+ ")
        store = re.compile(rf"\bvstore{lanes}\((.*), 0, {name} \+ (.*)\);$", re.MULTILINE)
        source = load.sub(rf"*({space} {kind}\1*)({name} + ", source)
        source = store.sub(rf"*({space} {kind}\1*)({name} + \3) = \2;", source)
        for count in _OF_TENSORS:
            each = ",".join(rf"{name}\[\1\.s{lane}\]" for lane in range(1, count))
            gather = re.compile(rf"\(\({kind}{count}\)\({name}\[(\w+)\.s0\],{each}\)\)")
            at_once = rf"(*({space} {kind}{count}*)({name} + \1.s0))"
            source = gather.sub(
                lambda found, to=at_once: (
                    found.expand(to) if found[1] in side_by_side else found[0]
                ),
                source,
            )
    source = _CONSTRUCTED.sub(r"(\1)(", source)
    return _SHARED.sub(r"\1 __attribute__((aligned(16)));", source)


def with_words(source: str) -> str:
    """The source with what reads words, if it does (`backends/gpu/coded/words.py`)."""
    return _READ_WORD + source if f"{READ_WORD}(" in source else source


def with_images(source: str) -> str:
    """The aligned source with operands that its driver may be told to read as images.

    Operand n is one where `ODTC_IMAGE_n` is defined, or `ODTC_IMAGE_HALVES_n`, which the runtime
    does that launches it (`opencl_programs.c`). Of each such operand all that the source has is its
    declaration and loads of four: nothing else reads it, and nothing writes it. What is rounded as
    it is read is none: see `only_read_by_fours` in `backends/spirv/memory/shared.py`.
    """
    for number, operand in enumerate(_OPERANDS.finditer(source)):
        name = operand[2]
        mentions = len(re.findall(rf"\b{name}\b", source))
        for form in _FORMS:
            loads = list(_loads(source, form.load.replace("NAME", name)))
            if not loads or len(loads) + 1 != mentions:
                continue
            for begin, end, place in reversed(loads):
                source = f"{source[:begin]}READ_{number}({place}){source[end:]}"
            source = re.sub(rf"{re.escape(operand[0])}\b", f"OPERAND_{number} {name}", source)
            source = form.choice(number, name, operand[1]) + source
    return source


def _loads(source: str, load: str) -> Iterator[tuple[int, int, str]]:
    """Where each load of a form begins and ends, and the place that it is of."""
    for match in re.finditer(load, source):
        end = _closing(source, match.end())
        # Of two parentheses, the inner one is around a pointer and the place.
        after = end + match[0].count("((") + 1
        is_rounded = _ROUNDED.search(source, 0, match.start())
        if not source.startswith(" = ", after) and not is_rounded:
            yield match.start(), after, source[match.end() : end]


def _closing(source: str, begin: int) -> int:
    """Where the parenthesis ends that a place is inside of."""
    depth = 1
    for at in range(begin, len(source)):
        depth += {"(": 1, ")": -1}.get(source[at], 0)
        if not depth:
            return at
    raise ValueError("a parenthesis without an end")


def _rewritten(images: bool, source: str, _: object) -> str:
    rewritten = aligned(hinted(alone(str(source))))
    return with_words(plain(with_images(rewritten) if images else rewritten))
