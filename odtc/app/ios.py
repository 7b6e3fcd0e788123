"""A step for an iOS app: packages of Swift, of the runtime and of the model.

The runtime is the same for all models, and an app has it once. A model's package has its kernels as
a static library, whose symbols are its own; a table of these for the runtime; and as resources its
program and its weights.
"""

import plistlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from odtc.app.model import PROGRAM, WEIGHTS, Model
from odtc.backends.objects.mach_o import renamed, symbols_of
from odtc.backends.objects.static_kernels import LAUNCH, StaticKernels, read_kernels
from odtc.core.artifact.bundle import file_sha256
from odtc.core.artifact.static_library import static_library
from odtc.runtime_rpc.native.build import FOLDER

_SWIFT = FOLDER.with_name("swift")
_SLICE = "ios-arm64"
_PRIVACY = "PrivacyInfo.xcprivacy"
_ARGUMENTS = "(void *, const void *, int32_t, void *)"

_RUNTIME_PACKAGE = """\
// swift-tools-version:5.5
import PackageDescription

let package = Package(
  name: "OdtcRuntime",
  platforms: [.iOS(.v15)],
  products: [.library(name: "Odtc", targets: ["COdtc", "Odtc"])],
  targets: [
    .target(name: "COdtc"),
    .target(name: "Odtc", dependencies: ["COdtc"], resources: [.copy("{privacy}")]),
  ]
)
"""
_PACKAGE = """\
// swift-tools-version:5.5
import PackageDescription

let package = Package(
  name: "{type}",
  platforms: [.iOS(.v15)],
  products: [.library(name: "{type}", targets: ["{type}"])],
  dependencies: [.package(path: "../OdtcRuntime")],
  targets: [
    .binaryTarget(name: "{type}Kernels", path: "{type}Kernels.xcframework"),
    .target(
      name: "{type}Table",
      dependencies: [.product(name: "Odtc", package: "OdtcRuntime"), "{type}Kernels"]),
    .target(
      name: "{type}",
      dependencies: [.product(name: "Odtc", package: "OdtcRuntime"), "{type}Table"],
      resources: [{resources}]),
  ]
)
"""
_TYPE = """\
import Foundation
import Odtc
import {type}Table

/// The model {name}: its program and weights, which are files of the package, and its kernels.
public enum {type} {{
  public static let program = Bundle.module.bundleURL.appendingPathComponent("{program}")
  public static let weights = Bundle.module.bundleURL.appendingPathComponent("{weights}")

  /// A trainer from the weights of the package.
  ///
  /// - Parameter threads: of a step; 0 for one for each core.
  public static func trainer(threads: Int = 0) throws -> Trainer {{
    try Trainer(program: program, weights: weights, kernels: odtc_model_{name}(), threads: threads)
  }}
}}
"""
_HEADER = """\
/* The kernels of the model {name}, for odtc_options. */
#ifndef ODTC_{upper}_H
#define ODTC_{upper}_H

#include "odtc.h"

const odtc_kernels *odtc_model_{name}(void);

#endif
"""
_MODULE = 'module {module} {{\n  header "{header}"\n  export *\n}}\n'


def write(model: Model, folder: Path) -> None:
    """Writes the packages into a folder.

    Raises:
        OSError: a file cannot be written.
    """
    _write_runtime(folder / "OdtcRuntime")
    _write_model(model, folder / _type(model.name))


def _type(name: str) -> str:
    """The name of a model's Swift type and package, which no other model has.

    Packages and modules are folders and files of a Mac, whose disks do not tell large letters from
    small ones: what is left of a name without them has to be its own, so its underscores stay.
    """
    return re.sub("(?:^|_)([a-z])", lambda found: found[0].upper(), name) + "Model"


def _write_runtime(folder: Path) -> None:
    own, include = folder / "Sources" / "COdtc", folder / "Sources" / "COdtc" / "include"
    include.mkdir(parents=True)
    for path in sorted(FOLDER.glob("*.[ch]")):
        shutil.copyfile(path, (include if path.name == "odtc.h" else own) / path.name)
    swift = folder / "Sources" / "Odtc"
    swift.mkdir()
    shutil.copyfile(_SWIFT / "Trainer.swift", swift / "Trainer.swift")
    (swift / _PRIVACY).write_bytes(_privacy())
    _write_texts(
        folder,
        {
            "Package.swift": _RUNTIME_PACKAGE.replace("{privacy}", _PRIVACY),
            "Sources/COdtc/include/module.modulemap": _MODULE.format(
                module="COdtc", header="odtc.h"
            ),
        },
    )


def _privacy() -> bytes:
    """The privacy manifest, without which the App Store refuses an app that calls `fstat`.

    The runtime asks for the size and the kind of the files that it is given, those of the app.
    """
    file_metadata = {
        "NSPrivacyAccessedAPIType": "NSPrivacyAccessedAPICategoryFileTimestamp",
        "NSPrivacyAccessedAPITypeReasons": ["C617.1"],
    }
    return plistlib.dumps(
        {
            "NSPrivacyTracking": False,
            "NSPrivacyTrackingDomains": [],
            "NSPrivacyCollectedDataTypes": [],
            "NSPrivacyAccessedAPITypes": [file_metadata],
        }
    )


def _write_model(model: Model, folder: Path) -> None:
    kind, kernels = _type(model.name), read_kernels(model.library)
    framework, swift = folder / f"{kind}Kernels.xcframework", folder / "Sources" / kind
    (framework / _SLICE).mkdir(parents=True)
    swift.mkdir(parents=True)
    library = f"lib{model.name}_kernels.a"
    (framework / _SLICE / library).write_bytes(_library(model.name, kernels))
    (framework / "Info.plist").write_bytes(_description(library))
    for name, path in model.data.items():
        (swift / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, swift / name)
    # A folder is copied as it is.
    tops = dict.fromkeys(name.partition("/")[0] for name in model.data)
    texts = {
        "type": kind,
        "name": model.name,
        "program": PROGRAM,
        "weights": WEIGHTS,
        "resources": ", ".join(f'.copy("{name}")' for name in tops),
    }
    header, source = f"odtc_model_{model.name}.h", f"Sources/{kind}Table"
    _write_texts(
        folder,
        {
            "Package.swift": _PACKAGE.format(**texts),
            f"Sources/{kind}/{kind}.swift": _TYPE.format(**texts),
            f"{source}/kernels.c": _table(model, kernels, header),
            f"{source}/include/{header}": _HEADER.format(**texts, upper=model.name.upper()),
            f"{source}/include/module.modulemap": _MODULE.format(
                module=f"{kind}Table", header=header
            ),
        },
    )


def _write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _own_name(model: str, kernel: str, symbol: str) -> str:
    """The name in an app of a symbol that a kernel's object file has."""
    own = f"odtc_model_{model}_{kernel.rpartition('_')[2]}"
    if symbol == kernel:
        return own
    return f"{own}_launch" if symbol == LAUNCH else f"{own}_{symbol.strip('_')}"


def _library(model: str, kernels: StaticKernels) -> bytes:
    members, symbols = {}, {}
    for kernel, content in sorted(kernels.files.items()):
        name = f"{kernel.rpartition('_')[2]}.o"
        members[name] = renamed(content, lambda old, of=kernel: _own_name(model, of, old))
        symbols[name] = [f"_{each.name}" for each in symbols_of(members[name]) if each.is_defined]
    return static_library(members, symbols)


def _table(model: Model, kernels: StaticKernels, header: str) -> str:
    """The table of kernels for the runtime, in C."""
    slots = {
        kernel: any(each.name == LAUNCH for each in symbols_of(content))
        for kernel, content in kernels.files.items()
    }
    lines = [f'#include "{header}"', ""]
    for kernel, runs_tasks in sorted(slots.items()):
        lines.append(f"int {_own_name(model.name, kernel, kernel)}{_ARGUMENTS};")
        if runs_tasks:
            lines.append(f"extern void *{_own_name(model.name, kernel, LAUNCH)};")
    lines += ["", "static const struct odtc_named_kernel kernels[] = {"]
    for name, kernel in sorted(kernels.symbols.items()):
        launch = f"&{_own_name(model.name, kernel, LAUNCH)}" if slots[kernel] else "0"
        lines.append(f'    {{"{name}", {_own_name(model.name, kernel, kernel)}, {launch}}},')
    digest = ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(file_sha256(model.program)))
    lines += [
        "};",
        f"static const odtc_kernels table = {{{{{digest}}},",
        "                                   sizeof kernels / sizeof *kernels, kernels};",
        "",
        f"const odtc_kernels *odtc_model_{model.name}(void) {{ return &table; }}",
        "",
    ]
    return "\n".join(lines)


def _description(library: str) -> bytes:
    """The property list of a framework, which Xcode reads."""
    return plistlib.dumps(
        {
            "AvailableLibraries": [
                {
                    "BinaryPath": library,
                    "LibraryIdentifier": _SLICE,
                    "LibraryPath": library,
                    "SupportedArchitectures": ["arm64"],
                    "SupportedPlatform": "ios",
                }
            ],
            "CFBundlePackageType": "XFWK",
            "XCFrameworkFormatVersion": "1.0",
        }
    )
