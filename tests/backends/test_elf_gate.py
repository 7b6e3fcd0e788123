"""The ELF gate: every rule refuses a library that breaks it, and says so."""

import re
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from elftools.elf.dynamic import Dynamic
from elftools.elf.elffile import ELFFile
from tvm import te

from odtc.backends import targets
from odtc.backends.objects.elf import check_library, check_program
from odtc.backends.objects.library import export_library
from odtc.backends.objects.link import find_linker, link, link_program
from odtc.backends.objects.stub_library import stub_library
from odtc.backends.objects.system_libraries import TVM, write_stubs
from odtc.backends.targets import Target, parse_target
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.errors import BuildError
from tests.needs import needs_emulated_arm

PHONE = parse_target("android-cpu")
# Without SSE4 and FMA, so that LLVM calls libm for what they would do.
X86 = replace(targets._host("Linux", "x86_64"), mcpu="x86-64")


def compile_objects(folder: Path, target: Target, called: str = "expf") -> list[Path]:
    """Object files of a function that calls the C function `called`."""
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: tvm.tirx.call_pure_extern("float32", called, x[i]))
    module = tvm.IRModule({"main": te.create_prim_func([x, y]).with_attr("global_symbol", "main")})
    kept: list[Path] = []

    def keep(_: str, objects: Sequence[str]) -> None:
        for number, name in enumerate(objects):
            kept.append(Path(name).rename(folder / f"{called}{number}.o"))

    executable = tvm.compile(module, target=target.to_tvm())
    executable.export_library(str(folder / "unused.so"), fcompile=keep)
    return kept


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return compile_objects(tmp_path_factory.mktemp("objects"), PHONE)


def link_badly(objects: Sequence[Path], output: Path, *extra: str) -> Path:
    """Links for the phone as we do, except that `extra` comes last and so wins."""
    with temporary_folder() as folder:
        stubs = write_stubs(PHONE, folder)
        arguments = find_linker(X86).arguments([*objects, *stubs], output, PHONE)
        subprocess.run([*arguments, *extra], check=True, timeout=300)
    return output


def link_with(objects: Sequence[Path], output: Path, *libraries: Path) -> Path:
    """Links for the phone with these libraries in place of the system's."""
    with temporary_folder() as folder:
        tvm_own = [path for path in write_stubs(PHONE, folder) if path.name in TVM]
        arguments = find_linker(X86).arguments([*objects, *libraries, *tvm_own], output, PHONE)
        subprocess.run(arguments, check=True, timeout=300)
    return output


def stub(folder: Path, name: str, *symbols: str) -> Path:
    """A library of the phone's architecture that claims to have symbols."""
    (path := folder / name).write_bytes(stub_library(name, "aarch64", symbols))
    return path


def refusal(path: Path, target: Target = PHONE) -> list[str]:
    """The violations that the gate lists."""
    with pytest.raises(BuildError) as error:
        check_library(path, target)
    first, *violations = error.value.what.splitlines()
    assert first == f"the library cannot be shipped to {target.name}:"
    assert error.value.where == str(path)
    return [violation.removeprefix("  - ") for violation in violations]


def test_our_own_library_passes(objects: list[Path], tmp_path: Path):
    link(objects, tmp_path / "lib.so", PHONE)
    check_library(tmp_path / "lib.so", PHONE)


def test_tables_are_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """And not for each symbol, which took most of the gate's time."""
    looked: list[str] = []
    find = Dynamic.get_table_offset

    def counted(dynamic: Dynamic, tag: str) -> tuple[int | None, int | None]:
        looked.append(tag)
        return find(dynamic, tag)

    monkeypatch.setattr(Dynamic, "get_table_offset", counted)
    counts = []
    for count in (10, 100):
        many = stub(tmp_path, f"lib{count}.so", *(f"function_{each}" for each in range(count)))
        # Of rules, a stub keeps few.
        with pytest.raises(BuildError):
            check_library(many, PHONE)
        counts.append(len(looked))
        looked.clear()
    assert counts[0] == counts[1] > 0


def test_machine(tmp_path: Path):
    link(compile_objects(tmp_path, X86), tmp_path / "lib.so", X86)
    check_library(tmp_path / "lib.so", X86)
    first, *others = refusal(tmp_path / "lib.so")
    assert first == "it is for EM_X86_64, and android-cpu is EM_AARCH64"
    assert all("libm.so.6" in other or "expf" in other for other in others)


def test_page_size(objects: list[Path], tmp_path: Path):
    violations = refusal(link_badly(objects, tmp_path / "lib.so", "-z", "max-page-size=4096"))
    assert len(violations) >= 3
    expected = r"the segment at 0x[0-9a-f]+ is aligned to 0x1000, not to 0x4000"
    assert all(re.fullmatch(expected, violation) for violation in violations)


def test_needed_library(objects: list[Path], tmp_path: Path):
    foo = stub(tmp_path, "libfoo.so", "expf")
    assert refusal(link_with(objects, tmp_path / "lib.so", foo)) == [
        "it needs the library libfoo.so; allowed are libc.so, libdl.so, libm.so, "
        "libtvm_ffi.so, libtvm_runtime.so",
        "it leaves the symbol expf undefined: libm.so has it, and it does not need that",
    ]


def test_needed_library_of_glibc(objects: list[Path], tmp_path: Path):
    libm = stub(tmp_path, "libm.so.6", "expf")
    assert refusal(link_with(objects, tmp_path / "lib.so", libm)) == [
        "it needs the library libm.so.6; allowed are libc.so, libdl.so, libm.so, "
        "libtvm_ffi.so, libtvm_runtime.so",
        "it leaves the symbol expf undefined: libm.so has it, and it does not need that",
    ]


def needed_by(path: Path) -> list[str]:
    with path.open("rb") as file:
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        return [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]


@pytest.mark.parametrize(("target", "name"), [(PHONE, "libm.so"), (X86, "libm.so.6")])
def test_a_library_names_what_it_calls(tmp_path: Path, target: Target, name: str):
    link(compile_objects(tmp_path, target), tmp_path / "lib.so", target)
    assert needed_by(tmp_path / "lib.so") == [name, "libtvm_ffi.so"]
    check_library(tmp_path / "lib.so", target)


def test_a_symbol_whose_library_is_not_named(objects: list[Path], tmp_path: Path):
    """As every library was before: Android's loader looks into no other library of the process."""
    assert refusal(link_with(objects, tmp_path / "lib.so")) == [
        "it leaves the symbol expf undefined: libm.so has it, and it does not need that"
    ]


def test_a_symbol_in_another_library_than_is_named(tmp_path: Path):
    objects = compile_objects(tmp_path, PHONE, "ldexp")
    libm = stub(tmp_path, "libm.so", "ldexp")
    assert refusal(link_with(objects, tmp_path / "lib.so", libm)) == [
        "it leaves the symbol ldexp undefined: libc.so has it, and it does not need that"
    ]


def test_variables_of_threads(objects: list[Path], tmp_path: Path):
    # No object that TVM emits has any, so that a segment which no loader needs is made one.
    path = link_badly(objects, tmp_path / "lib.so")
    with path.open("r+b") as file:
        elf = ELFFile(file)
        kinds = [segment["p_type"] for segment in elf.iter_segments()]
        file.seek(elf["e_phoff"] + elf["e_phentsize"] * kinds.index("PT_PHDR"))
        file.write(struct.pack("<I", 7))
    assert refusal(path) == [
        "it has variables of threads (TLS), which Android loads from version 10 on only"
    ]


def test_code_that_is_writable(objects: list[Path], tmp_path: Path):
    path = link_badly(objects, tmp_path / "lib.so")
    with path.open("r+b") as file:
        elf = ELFFile(file)
        flags = [segment["p_flags"] for segment in elf.iter_segments()]
        number = next(n for n, each in enumerate(flags) if each & 1)
        address = elf.get_segment(number)["p_vaddr"]
        file.seek(elf["e_phoff"] + elf["e_phentsize"] * number + 4)
        file.write(struct.pack("<I", flags[number] | 2))
    assert refusal(path) == [f"the segment at {address:#x} is writable and holds code"]


def test_no_table_of_sections(objects: list[Path], tmp_path: Path):
    path = link_badly(objects, tmp_path / "lib.so")
    with path.open("r+b") as file:
        # Where the table is, and at the end how many it has and which one has their names.
        for place, width in ((0x28, 8), (0x3C, 4)):
            file.seek(place)
            file.write(bytes(width))
    assert refusal(path) == ["its table of sections does not have its dynamic section"]


def test_nothing_but_loaded_sections(objects: list[Path], tmp_path: Path):
    link(objects, tmp_path / "lib.so", PHONE)
    with (tmp_path / "lib.so").open("rb") as file:
        names = [section.name for section in ELFFile(file).iter_sections()]
    assert not [name for name in names if name.startswith(".debug") or name == ".symtab"]


def test_versions_of_glibc(objects: list[Path], tmp_path: Path):
    script = tmp_path / "versions"
    script.write_text("GLIBC_2.27 { expf; };")
    define = ("--defsym=expf=0", f"--version-script={script}")
    libm = link_badly(objects, tmp_path / "libm.so", *define)
    assert refusal(link_with(objects, tmp_path / "lib.so", libm)) == [
        "it asks for the version GLIBC_2.27"
    ]


def test_text_relocations(objects: list[Path], tmp_path: Path):
    # No object that TVM emits has any, so the flag is set by hand.
    path = link_badly(objects, tmp_path / "lib.so")
    with path.open("r+b") as file:
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        tags = [tag.entry.d_tag for tag in dynamic.iter_tags()]
        file.seek(dynamic["sh_offset"] + 16 * tags.index("DT_FLAGS") + 8)
        file.write(struct.pack("<Q", 0x4 | 0x8))
    assert refusal(path) == ["it has text relocations, which Android refuses"]


@pytest.mark.parametrize(
    ("extra", "violation"),
    [
        (("-z", "lazy"), "it binds its symbols late (no BIND_NOW)"),
        (("-z", "execstack"), "its stack is executable"),
        (("--hash-style=gnu",), "it has no DT_HASH table"),
        (("--hash-style=sysv",), "it has no DT_GNU_HASH table"),
    ],
)
def test_flags(objects: list[Path], tmp_path: Path, extra: tuple[str, ...], violation: str):
    assert refusal(link_badly(objects, tmp_path / "lib.so", *extra)) == [violation]


def test_undefined_symbol(tmp_path: Path):
    path = link_badly(compile_objects(tmp_path, PHONE, "mystery"), tmp_path / "lib.so")
    assert refusal(path) == ["it leaves the symbol mystery undefined: no library has it"]


def test_all_violations_are_listed(tmp_path: Path):
    objects = compile_objects(tmp_path, PHONE, "mystery")
    path = link_badly(objects, tmp_path / "lib.so", "-z", "lazy", "--hash-style=gnu")
    assert refusal(path) == [
        "it binds its symbols late (no BIND_NOW)",
        "it has no DT_HASH table",
        "it leaves the symbol mystery undefined: no library has it",
    ]


def test_object_file_is_not_a_library(objects: list[Path]):
    assert refusal(objects[0]) == ["it is not a shared library: it has no dynamic section"]


@pytest.mark.parametrize("content", [b"", b"not an ELF file at all"])
def test_other_file(tmp_path: Path, content: bytes):
    (tmp_path / "lib.so").write_bytes(content)
    with pytest.raises(BuildError, match="it is not an ELF library"):
        check_library(tmp_path / "lib.so", PHONE)


# Those that may call into libm, some of them only on a CPU without an instruction for it.
UNARY = [
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp"),
    *("floor", "log", "round", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
]


@pytest.mark.parametrize("target", [X86, PHONE], ids=lambda target: target.name)
def test_symbols_of_operators_are_allowed(tmp_path: Path, target: Target):
    from tvm import relax

    x = relax.Var("x", relax.TensorType((4, 16), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        results = [builder.emit(getattr(relax.op, name)(x)) for name in UNARY]
        more = [relax.op.power(x, x), relax.op.mod(x, x), relax.op.argmax(x, 1)]
        more += [relax.op.nn.softmax(x), relax.op.nn.gelu(x), relax.op.cumsum(x, 1)]
        builder.emit_func_output(relax.Tuple(results + [builder.emit(call) for call in more]))
    path = tmp_path / "lib.so"
    export_library(tvm.compile(builder.get(), target=target.to_tvm()), path, target)
    check_library(path, target)


def test_what_an_app_has_not(objects: list[Path], tmp_path: Path):
    """A check of arguments calls TVM, which is there in a process of TVM's alone."""
    link(objects, tmp_path / "lib.so", PHONE)
    with pytest.raises(BuildError) as error:
        check_library(tmp_path / "lib.so", PHONE, in_app=True)
    assert error.value.what.splitlines()[1:] == [
        "  - it needs the library libtvm_ffi.so; allowed are libc.so, libdl.so, libm.so",
        "  - it leaves the symbol TVMFFIErrorSetRaisedFromCStrParts undefined: no library has it",
    ]


ARM_COMPILER = "aarch64-linux-gnu-gcc"
# A program that calls nothing, and one that has a variable of a library.
BEGINNING = "void _start(void) {}"
COPYING = "extern void *stderr; void *f(void) { return stderr; } void _start(void) { f(); }"


def program_of(folder: Path, text: str, *flags: str) -> list[Path]:
    """The object file of a program for a phone."""
    (source := folder / "program.c").write_text(text)
    output = folder / "program.o"
    command = [ARM_COMPILER, "-O1", "-ffreestanding", *flags, "-c", str(source)]
    subprocess.run([*command, "-o", str(output)], check=True)
    return [output]


def refusal_of_program(path: Path) -> list[str]:
    with pytest.raises(BuildError, match="the program cannot be shipped") as caught:
        check_program(path, PHONE)
    _, *lines, _ = str(caught.value).splitlines()
    return [line.removeprefix("  - ") for line in lines]


@needs_emulated_arm()
def test_a_program_has_the_loader_of_android_and_any_address(tmp_path: Path):
    objects = program_of(tmp_path, BEGINNING)
    link_program(objects, tmp_path / "good", PHONE)
    check_program(tmp_path / "good", PHONE)
    link(objects, tmp_path / "other", PHONE, kind=["-pie", "--dynamic-linker=/lib/ld.so"])
    assert refusal_of_program(tmp_path / "other") == [
        "its loader is /lib/ld.so, and Android's is /system/bin/linker64"
    ]
    link(objects, tmp_path / "library", PHONE)
    assert refusal_of_program(tmp_path / "library") == [
        "its loader is none, and Android's is /system/bin/linker64",
        "it is not a program that runs at any address (PIE)",
    ]


@needs_emulated_arm()
def test_a_program_has_no_copies_of_variables(tmp_path: Path):
    (source := tmp_path / "libc.c").write_text("void *stderr;")
    library = tmp_path / "libc.so"
    flags = ["-shared", "-nostdlib", "-fPIC", "-Wl,-soname,libc.so"]
    subprocess.run([ARM_COMPILER, *flags, str(source), "-o", str(library)], check=True)
    objects = [*program_of(tmp_path, COPYING, "-fno-pic"), library]
    with pytest.raises(BuildError, match="recompile with -fPIC"):
        link_program(objects, tmp_path / "refused", PHONE)
    kind = ["-pie", "--dynamic-linker=/system/bin/linker64"]
    link(objects, tmp_path / "copying", PHONE, kind=kind)
    assert refusal_of_program(tmp_path / "copying") == [
        "it has copies of a library's variables, which Android's loader does not make"
    ]
    link_program([*program_of(tmp_path, COPYING, "-fPIC"), library], tmp_path / "good", PHONE)
    check_program(tmp_path / "good", PHONE)
