"""A step for a program on Linux: a folder that CMake, or a compiler of C alone, builds."""

import shutil
from pathlib import Path

from odtc.app.model import PROGRAM, WEIGHTS, Model
from odtc.runtime_rpc.native.build import FOLDER

# Several such folders may be parts of one project: the runtime is built once.
_CMAKE = """\
cmake_minimum_required(VERSION 3.13)
project(odtc_{name} C)

if(NOT TARGET odtc)
  find_package(Threads REQUIRED)
  add_library(odtc STATIC
{sources}
  )
  target_include_directories(odtc PUBLIC runtime)
  target_compile_features(odtc PUBLIC c_std_11)
  set_target_properties(odtc PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(odtc PUBLIC Threads::Threads ${{CMAKE_DL_LIBS}} m)
endif()
"""
_README = """\
# {name}: a training step without Python

`runtime/` is odtc's runtime in C11, `model/` the step: its program, the weights that training
starts from, and its kernels, for {target} ({triple}).

    cc -std=c11 -O2 -I runtime app.c runtime/*.c -lpthread -ldl -lm -o app

or, in a project of CMake, `add_subdirectory(DIR)` and `target_link_libraries(app PRIVATE odtc)`.

```c
odtc_options options = {{.program = "model/{program}", .weights = "model/{weights}",
                        .library = "model/{kernels}"}};
```

Class numbers are int32, where PyTorch has them as int64: `odtc inspect ART` prints the dtype and
shape of what a step takes; in a program, `code`, `bits` and `bytes` of an `odtc_tensor` say them.

`runtime/odtc.h` says the rest; `runtime/odtc.hpp` is the same for C++17.
"""


def write(model: Model, folder: Path) -> None:
    """Writes the sources of the runtime, and the model, into a folder.

    Raises:
        OSError: a file cannot be written.
    """
    runtime, own = folder / "runtime", folder / "model"
    runtime.mkdir()
    own.mkdir()
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in (".c", ".h", ".hpp"):
            shutil.copyfile(path, runtime / path.name)
    for name, source in {**model.data, model.kernels: model.library}.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, own / name)
    sources = "\n".join(f"    runtime/{path.name}" for path in sorted(FOLDER.glob("*.c")))
    texts = {
        "CMakeLists.txt": _CMAKE.format(name=model.name, sources=sources),
        "README.md": _README.format(
            name=model.name,
            target=model.target.spec,
            triple=model.target.triple,
            program=PROGRAM,
            weights=WEIGHTS,
            kernels=model.kernels,
        ),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
