"""Our declarations of Vulkan: sizes, offsets, numbers and functions are those of vulkan.h."""

import re
import subprocess
from pathlib import Path

from odtc.core.process.cxx import cc_command
from odtc.runtime_rpc.native.build import FOLDER
from tests.needs import needs

OWN = FOLDER.with_name("gpu") / "vulkan"
KHRONOS = Path("/usr/include/vulkan/vulkan.h")

pytestmark = needs(KHRONOS.exists() and cc_command(), reason="no vulkan.h or no C compiler")


def text(name: str) -> str:
    return re.sub(r"/\*.*?\*/", "", (OWN / name).read_text(), flags=re.DOTALL)


def structures() -> dict[str, list[str]]:
    """Members of each structure, in the order of the header."""
    found = {}
    for body, name in re.findall(r"typedef struct \{\n(.*?)\n\} (\w+);", text("vk.h"), re.DOTALL):
        members = ["sType", "pNext"] if "VK_INPUT" in body or "VK_OUTPUT" in body else []
        for line in re.findall(r"[^;]+;", re.sub(r"VK_(IN|OUT)PUT", "", body)):
            first, *others = line.strip(" \n;").split(",")
            names = [re.findall(r"(\w+)(?:\[\w+\])?$", each)[0] for each in (first, *others)]
            members += [each for each in names if not each.startswith("unused")]
        found[name] = members
    return found


def numbers() -> list[str]:
    return sorted(set(re.findall(r"\b(VK_[A-Z0-9_]+) = ", text("vk_constants.h"))))


def test_layouts_and_numbers(tmp_path: Path) -> None:
    assert len(structures()) > 40
    assert len(numbers()) > 80
    lines = [f'printf("{each} %lld\\n", (long long){each});' for each in numbers()]
    for name, members in structures().items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for each in members:
            place = f"offsetof({name}, {each}), sizeof((({name} *)0)->{each})"
            lines.append(f'printf("{name}.{each} %zu %zu\\n", {place});')
    program = (
        "#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "}\n"
    )
    found = [
        printed(program, header, tmp_path / name)
        for name, header in (("own", OWN / "vk.h"), ("khronos", KHRONOS))
    ]
    assert found[0] == found[1]


def printed(program: str, header: Path, output: Path) -> list[str]:
    """What a program prints that is compiled with a header."""
    source = output.with_suffix(".c")
    source.write_text(program)
    command = [*cc_command(), "-std=c11", "-Werror", "-include", str(header), str(source)]
    subprocess.run([*command, "-o", str(output)], check=True)
    return subprocess.run([output], check=True, capture_output=True, text=True).stdout.splitlines()


def test_functions(tmp_path: Path) -> None:
    """Each has the type that vulkan.h gives it."""
    source = tmp_path / "functions.c"
    source.write_text(
        "#include <vulkan/vulkan.h>\n"
        f'#include "{OWN / "vk_functions.h"}"\n'
        "#define CHECK(result, name, arguments) _Static_assert(__builtin_types_compatible_p("
        "PFN_vk##name, result(*) arguments), #name);\n"
        "VK_OF_LOADER(CHECK)\nVK_OF_INSTANCE(CHECK)\nVK_OF_DEVICE(CHECK)\n"
        "VK_OF_STATISTICS(CHECK)\n"
    )
    subprocess.run([*cc_command(), "-std=c11", "-fsyntax-only", str(source)], check=True)
