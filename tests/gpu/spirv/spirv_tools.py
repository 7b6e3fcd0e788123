"""Khronos' own validator, of what our assembler writes."""

import itertools
import struct
import subprocess
from collections.abc import Iterator, Sequence

from odtc.backends.spirv.assemble import Shader
from odtc.backends.spirv.module import text

_NAME, _EXTENSION, _DECORATE, _BINDING = 5, 10, 71, 33
_MEMBER_DECORATE, _NON_WRITABLE = 72, 24
_TYPE_POINTER, _VARIABLE, _STORAGE_BUFFER, _WORKGROUP = 32, 59, 12, 4
_TYPE_VECTOR, _TYPE_ARRAY, _LOAD, _STORE, _COMPOSE = 23, 28, 61, 62, 80
_CONSTANT, _CONTROL_BARRIER = 43, 224
_MATRIX_TYPE, _MATRIX_LOAD, _MATRIX_STORE, _MATRIX_MULTIPLY = 4456, 4457, 4458, 4459
_SELECTION_MERGE, _BRANCH = 247, 250
_PHI = 245
_FETCH, _CONSTANTS, _SPEC_ID = 95, 0, 1
# Shifts to the right, and the `and` of bits.
_BITS = (194, 195, 199)
_OF_INTEGERS = (*_BITS, 128, 130, 132)
# Or, and, not.
_LOGICAL = (166, 167, 168)


def binary(shader: Shader) -> bytes:
    """The module as a file holds it."""
    return struct.pack(f"<{len(shader.words)}I", *shader.words)


def check_valid(shader: Shader) -> None:
    """Fails with what the validator says; Vulkan 1.1 is what phones of 2019 have."""
    done = subprocess.run(
        ["spirv-val", "--target-env", "vulkan1.1", "-"],
        input=binary(shader),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"{shader.name}: {done.stderr.decode()}"


def capabilities(shader: Shader) -> set[int]:
    """Returns the capabilities that a module asks for: instructions 17 after the header."""
    found, at = set(), 5
    while shader.words[at] & 0xFFFF == 17:
        found.add(shader.words[at + 1])
        at += shader.words[at] >> 16
    return found


def extensions(shader: Shader) -> set[str]:
    """Returns the extensions that a module names."""
    found = (words[1:] for words in _instructions(shader) if _is(words, _EXTENSION))
    return {struct.pack(f"<{len(name)}I", *name).rstrip(b"\0").decode() for name in found}


def decorations(shader: Shader) -> set[int]:
    """Returns the numbers of the decorations that types and variables have."""
    return {words[2] for words in _instructions(shader) if words[0] & 0xFFFF == _DECORATE}


def storage_buffers(shader: Shader) -> Iterator[tuple[int, int]]:
    """Yields the binding and the struct of each variable that is a storage buffer."""
    found = list(_instructions(shader))
    bound = {
        words[1]: words[3] for words in found if _is(words, _DECORATE) and words[2] == _BINDING
    }
    pointed = {words[1]: words[3] for words in found if _is(words, _TYPE_POINTER)}
    for words in found:
        if _is(words, _VARIABLE) and words[3] == _STORAGE_BUFFER:
            yield bound[words[2]], pointed[words[1]]


def non_writable(shader: Shader) -> set[int]:
    """Returns the bindings of which no variable may be stored in."""
    marked = {
        words[1]
        for words in _instructions(shader)
        if _is(words, _MEMBER_DECORATE) and words[3] == _NON_WRITABLE
    }
    buffers = list(storage_buffers(shader))
    return {at for at, _ in buffers} - {at for at, struct in buffers if struct not in marked}


def read_only(shader: Shader) -> set[int]:
    """Returns the bindings whose name says that the kernel only reads them."""
    found = list(_instructions(shader))
    bindings = {
        words[1]: words[3]
        for words in found
        if words[0] & 0xFFFF == _DECORATE and words[2] == _BINDING
    }
    names = {
        words[1]: struct.pack(f"<{len(words) - 2}I", *words[2:]).rstrip(b"\0").decode()
        for words in found
        if words[0] & 0xFFFF == _NAME
    }
    return {bindings[variable] for variable, name in names.items() if name == "read_only"}


def questions(shader: Shader) -> int:
    """Returns how many comparisons decide on branches, beside those of loops."""
    found = list(_instructions(shader))
    made = {words[2]: words for words in found if len(words) > 2}

    def asked(number: int) -> int:
        words = made[number]
        return sum(map(asked, words[3:])) if words[0] & 0xFFFF in _LOGICAL else 1

    return sum(
        asked(branch[1])
        for merge, branch in itertools.pairwise(found)
        if merge[0] & 0xFFFF == _SELECTION_MERGE and branch[0] & 0xFFFF == _BRANCH
    )


def barriers(shader: Shader) -> list[int]:
    """Returns the memory semantics of each barrier."""
    found = list(_instructions(shader))
    constants = {words[2]: words[3] for words in found if _is(words, _CONSTANT)}
    return [constants[words[3]] for words in found if _is(words, _CONTROL_BARRIER)]


def vectors_loaded(shader: Shader) -> int:
    """Returns how many loads give vectors."""
    found = list(_instructions(shader))
    vectors = {words[1] for words in found if words[0] & 0xFFFF == _TYPE_VECTOR}
    return sum(words[0] & 0xFFFF == _LOAD and words[1] in vectors for words in found)


def vectors_stored(shader: Shader) -> int:
    """Returns how many stores in buffers are of vectors that are composed for them."""
    found = list(_instructions(shader))
    vectors = {words[1] for words in found if _is(words, _TYPE_VECTOR)}
    composed = {words[2] for words in found if _is(words, _COMPOSE) and words[1] in vectors}
    pointers = {words[1] for words in found if _is(words, _TYPE_POINTER) and words[2] == _WORKGROUP}
    shared = {words[2] for words in found if len(words) > 2 and words[1] in pointers}
    stores = (words for words in found if _is(words, _STORE) and words[1] not in shared)
    return sum(words[2] in composed for words in stores)


def vectors_shared(shader: Shader) -> int:
    """Returns how many variables that a group shares are arrays of vectors."""
    found = list(_instructions(shader))
    vectors = {words[1] for words in found if _is(words, _TYPE_VECTOR)}
    arrays = {words[1] for words in found if _is(words, _TYPE_ARRAY) and words[2] in vectors}
    pointers = {words[1] for words in found if _is(words, _TYPE_POINTER) and words[3] in arrays}
    return sum(_is(words, _VARIABLE) and words[1] in pointers for words in found)


def shared_accesses(shader: Shader) -> list[int]:
    """Returns what each load or store of what a group shares says of itself, of matrices too."""
    found = list(_instructions(shader))
    pointers = {words[1] for words in found if _is(words, _TYPE_POINTER) and words[2] == _WORKGROUP}
    shared = {words[2] for words in found if len(words) > 2 and words[1] in pointers}
    # Where the pointer stands, and what is said behind other operands.
    places = {_LOAD: (3, 4), _STORE: (1, 3), _MATRIX_LOAD: (3, 6), _MATRIX_STORE: (1, 5)}
    return [
        words[said] if said < len(words) else 0
        for words in found
        for pointer, said in [places.get(words[0] & 0xFFFF, (0, 0))]
        if pointer and words[pointer] in shared
    ]


def matrices(shader: Shader) -> tuple[dict[int, tuple[int, ...]], set[tuple[int, int, int]]]:
    """Returns what matrices of each use are, and how they are loaded.

    That is scope, rows and columns by use, and use, layout and stride of each load. The first two
    operands of each product have to be of the uses 0 and 1, and its sums of 2.
    """
    found = list(_instructions(shader))
    constants = {words[2]: words[3] for words in found if _is(words, _CONSTANT)}
    types = {
        words[1]: tuple(constants[each] for each in words[3:])
        for words in found
        if _is(words, _MATRIX_TYPE)
    }
    of = {words[2]: words[1] for words in found if _is(words, _LOAD) and words[1] in types}
    for words in found:
        if _is(words, _MATRIX_MULTIPLY):
            assert [types[of[each]][3] for each in words[3:6]] == [0, 1, 2]
    loads = {
        (types[words[1]][3], constants[words[4]], constants[words[5]])
        for words in found
        if _is(words, _MATRIX_LOAD)
    }
    return {use: tuple(rest) for *rest, use in types.values()}, loads


def _is(words: Sequence[int], op: int) -> bool:
    return words[0] & 0xFFFF == op


def _instructions(shader: Shader) -> Iterator[tuple[int, ...]]:
    at = 5
    while at < len(shader.words):
        size = shader.words[at] >> 16
        yield shader.words[at : at + size]
        at += size


def shifted_in_loops(shader: Shader) -> int:
    """Returns how many shifts and masks of bits hang on the number of a loop's iteration."""
    moving: set[int] = set()
    count = 0
    for words in _instructions(shader):
        op = words[0] & 0xFFFF
        if op == _PHI or (op in _OF_INTEGERS and moving & {*words[3:]}):
            moving.add(words[2])
            count += op in _BITS
    return count


def images(shader: Shader, name: str | None = None) -> dict[int, int]:
    """Returns the bindings of images, with the number of the constant that says: read it.

    Each is read by one branch of a condition, the constant. Of those of a name, if one is given.
    """
    found = list(_instructions(shader))
    bound = {
        words[1]: words[3] for words in found if _is(words, _DECORATE) and words[2] == _BINDING
    }
    numbers = {
        words[1]: words[3] for words in found if _is(words, _DECORATE) and words[2] == _SPEC_ID
    }
    variables = {words[2] for words in found if _is(words, _VARIABLE) and words[3] == _CONSTANTS}
    loaded = {words[2]: words[3] for words in found if _is(words, _LOAD) and words[3] in variables}
    of: dict[int, set[int]] = {}
    condition = 0
    for words in found:
        if _is(words, _BRANCH):
            condition = words[1]
        elif _is(words, _FETCH):
            of.setdefault(bound[loaded[words[3]]], set()).add(numbers[condition])
    assert of.keys() == {bound[each] for each in variables}
    named = {
        bound[w[1]]
        for w in found
        if _is(w, _NAME) and w[1] in variables and [*w[2:]] == text(name or "")
    }
    return {at: number for at, (number,) in of.items() if name is None or at in named}
