"""What odtc compiles for: each target is plain data, known by a name and written as text.

`android-cpu{mcpu=cortex-a55}` is the target `android-cpu` with another core; `parse_target` reads
such text and `Target.spec` writes it. Nothing here imports TVM until a target is resolved.
"""

import difflib
import functools
import os
import platform
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.option_text import format_options, parse_options

if TYPE_CHECKING:
    import tvm

# Kind of the targets that compute on a CPU; that of others is the interface of their GPU.
CPU = "llvm"
# Work-items of a group that every GPU of a phone allows.
_GROUP = 256

# (system, machine) of the computer that compiles -> triple and linker emulation of its libraries.
_HOSTS = {
    ("Linux", "x86_64"): ("x86_64-linux-gnu", "elf_x86_64"),
    ("Linux", "aarch64"): ("aarch64-linux-gnu", "aarch64linux"),
}

# What TVM and LLVM are told about a core. SVE is off where a core has it: the kernels are written
# for NEON, and some phones have cores with SVE and kernels that trap it.
_ARMV8_0 = ("+neon",)
_ARMV8_2 = ("+neon", "+dotprod")
_ARMV9 = ("+neon", "+dotprod", "-sve")
_ANY_ARM = ("+neon", "-sve", "-sme")
_CORES = {
    "generic": _ARMV8_0,
    "cortex-a35": _ARMV8_0,
    "cortex-a53": _ARMV8_0,
    "cortex-a57": _ARMV8_0,
    "cortex-a72": _ARMV8_0,
    "cortex-a73": _ARMV8_0,
    "cortex-a55": _ARMV8_2,
    "cortex-a75": _ARMV8_2,
    "cortex-a76": _ARMV8_2,
    "cortex-a77": _ARMV8_2,
    "cortex-a78": _ARMV8_2,
    "cortex-x1": _ARMV8_2,
    "cortex-a510": _ARMV9,
    "cortex-a520": _ARMV9,
    "cortex-a710": _ARMV9,
    "cortex-a715": _ARMV9,
    "cortex-a720": _ARMV9,
    "cortex-a725": _ARMV9,
    "cortex-x2": _ARMV9,
    "cortex-x3": _ARMV9,
    "cortex-x4": _ARMV9,
    "cortex-x925": _ARMV9,
}

# x86 features that LLVM generates code for, and that a virtual machine may hide though the name of
# its CPU promises them.
_HIDEABLE = ("avx", "bmi", "f16c", "fma", "gfni", "lzcnt", "movbe", "popcnt", "vaes", "vpclmul")

# The widest feature of an x86 CPU that it has -> bits of a vector register.
_X86_VECTORS = (("avx512f", 512), ("avx", 256), ("sse2", 128))

# Kernels are cut into tasks for about as many cores: those of a phone.
_MOST_THREADS = 8

# Bytes that a storage is written and read with in a second: an SSD of a computer, and what phones
# with UFS 3 hold for long.
_SSD, _FLASH = (1_000_000_000, 2_000_000_000), (400_000_000, 1_000_000_000)
_FASTEST = 10**15

# Arithmetic with vectors of float16: ARM's FEAT_FP16, and x86.
_HALF_ARITHMETIC = {"fullfp16", "avx512fp16"}


def _cpu_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", value):
        raise ValueError("a CPU name of LLVM, such as cortex-a76")
    return value


def _features(value: str) -> tuple[str, ...]:
    if not re.fullmatch(r"[+-][a-z0-9.-]+(:[+-][a-z0-9.-]+)*", value):
        raise ValueError("LLVM features joined by colons, such as +neon:-sve")
    return tuple(value.split(":"))


def _threads(value: str) -> int:
    if not re.fullmatch(r"[1-9]\d?", value):
        raise ValueError("a number of threads from 1 to 99")
    return int(value)


def _bandwidth(value: str) -> int:
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 1 <= found <= _FASTEST:
        raise ValueError("bytes a second, such as 5e8")
    return int(found)


# The fields that a target's text may override; a reader raises ValueError with what it expects.
_OPTIONS: dict[str, Callable[[str], Any]] = {
    "mcpu": _cpu_name,
    "mattr": _features,
    "threads": _threads,
    "storage_write": _bandwidth,
    "storage_read": _bandwidth,
}


@dataclass(frozen=True)
class Target:
    """A processor, and the system around it, that odtc compiles for.

    Attributes:
        name: how the command line calls it.
        description: one line for a listing.
        triple: LLVM's name of architecture and system.
        emulation: lld's name of the output format.
        mcpu: LLVM's name of the CPU; None is the CPU of the machine that compiles.
        mattr: CPU features to add (`+dotprod`) or to withhold (`-sve`).
        threads: the most that a step is run with. Each has workspaces of its own in the step's
            arena. None is the number of cores of the machine that compiles, up to 8.
        storage_write: bytes that its storage takes in a second.
        storage_read: bytes that are read from it in a second.
        kind: TVM's kind of target.
        available_from: why it cannot be compiled for, or None.
    """

    name: str
    description: str
    triple: str
    emulation: str
    mcpu: str | None
    mattr: tuple[str, ...] = ()
    threads: int | None = None
    storage_write: int = _SSD[0]
    storage_read: int = _SSD[1]
    kind: str = CPU
    available_from: str | None = None

    @property
    def spec(self) -> str:
        """The text that `parse_target` reads back as this target."""
        options = {}
        if self.mcpu and self.mcpu != _registry()[self.name].mcpu:
            options["mcpu"] = self.mcpu
        if self.mattr != _default_mattr(self.triple, self.mcpu):
            options["mattr"] = ":".join(self.mattr)
        if self.threads != _registry()[self.name].threads:
            options["threads"] = str(self.threads)
        for key in ("storage_write", "storage_read"):
            if getattr(self, key) != getattr(_registry()[self.name], key):
                options[key] = str(getattr(self, key))
        return format_options(self.name, options)

    @property
    def vector_bits(self) -> int:
        """Bits of a SIMD register: 128 for NEON; an x86 target asks LLVM about its CPU.

        Raises:
            UsageError: LLVM does not know the CPU, or not for this architecture.
            UnsupportedError: this version of odtc does not compile for the target.
        """
        if _is_arm(self.triple):
            return 128
        has = _llvm_features(self.resolved())
        return next(bits for feature, bits in _X86_VECTORS if feature in has)

    @property
    def has_half_arithmetic(self) -> bool:
        """Whether the CPU computes with vectors of float16, and does not only convert them.

        Raises:
            UsageError: LLVM does not know the CPU, or not for this architecture.
            UnsupportedError: this version of odtc does not compile for the target.
        """
        return not _HALF_ARITHMETIC.isdisjoint(_llvm_features(self.resolved()))

    def resolved(self) -> "Target":
        """The same target with what it takes from this machine filled in, and checked.

        Raises:
            UsageError: LLVM does not know the CPU or a feature, or not for this architecture.
            UnsupportedError: this version of odtc does not compile for the target.
        """
        if self.available_from:
            raise UnsupportedError(
                f"odtc cannot compile for {self.name}: {self.available_from}",
                hint=f"choose one of {_names(t for t in targets() if not t.available_from)}",
            )
        target = self if self.mcpu else _on_this_machine(self)
        _check_cpu(target)
        _check_features(target)
        cores = len(os.sched_getaffinity(0))
        return replace(target, threads=self.threads or min(_MOST_THREADS, cores))

    def to_tvm(self) -> "tvm.target.Target":
        """TVM's target object, for the resolved target.

        Raises:
            UsageError: LLVM does not know the CPU or a feature, or not for this architecture.
            UnsupportedError: this version of odtc does not compile for the target.
        """
        return _tvm_target(self.resolved())


def targets() -> tuple[Target, ...]:
    """All targets, in the order of a listing, those too that cannot be compiled for here."""
    return tuple(_registry().values())


def parse_target(text: str) -> Target:
    """Reads `name` or `name{key=value,key=value}`.

    Raises:
        UsageError: the text is malformed, or names a target or an option that odtc does not know.
    """
    try:
        name, written = parse_options(text)
    except ValueError as error:
        raise UsageError(
            f"cannot read the target {text!r}: {error}",
            hint="write it as android-cpu or android-cpu{mcpu=cortex-a55}",
        ) from error
    target = _registry().get(name)
    if not target:
        raise UsageError(
            f"unknown target {name!r}",
            hint=_nearest(name, _registry()) + f"known targets: {_names(targets())}",
        )
    options = {key: _read_option(text, key, value) for key, value in written.items()}
    if "mcpu" in options:
        target = _with_cpu(target, options["mcpu"])
    return replace(target, **options)


def _read_option(text: str, key: str, value: str) -> Any:
    if key not in _OPTIONS:
        raise UsageError(
            f"a target has no option {key!r}",
            where=text,
            hint=_nearest(key, _OPTIONS) + f"known options: {', '.join(_OPTIONS)}",
        )
    try:
        return _OPTIONS[key](value)
    except ValueError as expected:
        raise UsageError(
            f"the option {key!r} cannot be {value!r}", where=text, hint=f"give {expected}"
        ) from None


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}? " if close else ""


def _names(some: Iterable[Target]) -> str:
    return ", ".join(target.name for target in some)


def _is_arm(triple: str) -> bool:
    return triple.startswith("aarch64")


def _default_mattr(triple: str, mcpu: str | None) -> tuple[str, ...]:
    return _CORES.get(mcpu or "", _ANY_ARM) if _is_arm(triple) else ()


def _with_cpu(target: Target, mcpu: str) -> Target:
    chosen = target.mattr != _default_mattr(target.triple, target.mcpu)
    mattr = target.mattr if chosen else _default_mattr(target.triple, mcpu)
    return replace(target, mcpu=mcpu, mattr=mattr)


@functools.cache
def _registry() -> dict[str, Target]:
    phone = Target(
        name="android-cpu",
        description="64-bit ARM CPU of an Android phone, Cortex-A76 unless mcpu names another",
        triple="aarch64-linux-android",
        emulation="aarch64linux",
        mcpu="cortex-a76",
        mattr=_CORES["cortex-a76"],
        threads=_MOST_THREADS,
        storage_write=_FLASH[0],
        storage_read=_FLASH[1],
    )
    host = _host(platform.system(), platform.machine())
    listed = (
        host,
        replace(
            host,
            name="host-opencl",
            description="OpenCL device of the machine that compiles",
            kind="opencl",
        ),
        replace(
            host,
            name="host-vulkan",
            description="Vulkan device of the machine that compiles",
            kind="vulkan",
        ),
        Target(
            name="linux-arm64-cpu",
            description="64-bit ARM CPU under Linux, any core unless mcpu names one",
            triple="aarch64-linux-gnu",
            emulation="aarch64linux",
            mcpu="generic",
            mattr=_CORES["generic"],
            threads=_MOST_THREADS,
        ),
        phone,
        replace(
            phone,
            name="android-opencl",
            description="GPU of an Android phone through OpenCL",
            kind="opencl",
        ),
        replace(
            phone,
            name="android-vulkan",
            description="GPU of an Android phone through Vulkan",
            kind="vulkan",
        ),
    )
    return {target.name: target for target in listed}


def _host(system: str, machine: str) -> Target:
    triple, emulation = _HOSTS.get((system, machine), ("", ""))
    known = " or ".join(" ".join(host) for host in _HOSTS)
    return Target(
        name="host-cpu",
        description="CPU of the machine that compiles",
        triple=triple,
        emulation=emulation,
        mcpu=None,
        mattr=_default_mattr(triple, None),
        available_from=None if triple else f"this machine is {system} {machine}, not {known}",
    )


def _tvm_target(target: Target) -> "tvm.target.Target":
    """What TVM compiles for: of a GPU, with the CPU that launches its kernels."""
    import tvm

    cpu = _tvm_cpu(target)
    if target.kind == CPU:
        return cpu
    return tvm.target.Target({"kind": target.kind, "max_num_threads": _GROUP}, host=cpu)


def _tvm_cpu(target: Target) -> "tvm.target.Target":
    import tvm

    fields: dict[str, Any] = {"kind": CPU, "mtriple": target.triple, "mcpu": target.mcpu}
    return tvm.target.Target(fields | ({"mattr": list(target.mattr)} if target.mattr else {}))


def _llvm_features(target: Target) -> set[str]:
    from tvm.target.codegen import llvm_get_cpu_features

    return {str(feature) for feature in llvm_get_cpu_features(_tvm_cpu(target))}


def lacking_features(target: Target) -> list[str]:
    """Features that code for the target may use, and this machine does not have.

    Code that uses one of them ends the process: it is an illegal instruction.
    """
    import tvm_ffi

    machine = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return sorted(
        feature
        for feature in _llvm_features(target)
        if feature.startswith(_HIDEABLE) and not machine.get(feature, True)
    )


def _on_this_machine(target: Target) -> Target:
    from tvm.target.codegen import llvm_get_system_cpu

    named = _with_cpu(target, str(llvm_get_system_cpu()))
    hidden = lacking_features(named)
    return replace(named, mattr=(*(f"-{feature}" for feature in hidden), *named.mattr))


def _check_cpu(target: Target) -> None:
    # LLVM replaces an unknown CPU by `generic`, and aborts the process for a 32-bit one.
    from tvm.target.codegen import llvm_get_cpu_archlist

    any_cpu = replace(target, mcpu="generic", mattr=())
    known = sorted(str(cpu) for cpu in llvm_get_cpu_archlist(_tvm_cpu(any_cpu)))
    mcpu = target.mcpu or ""
    if mcpu not in known:
        usual = [cpu for cpu in known if cpu in _CORES or cpu.startswith("x86-64")]
        raise UsageError(
            f"LLVM has no CPU {mcpu!r} for {target.triple}",
            where=target.spec,
            hint=_nearest(mcpu, known) + f"usual CPUs: {', '.join(usual)}",
        )
    if not _is_arm(target.triple) and "64bit" not in _llvm_features(target):
        raise UsageError(
            f"the CPU {mcpu!r} is a 32-bit one",
            where=target.spec,
            hint="choose a 64-bit CPU, such as x86-64-v3",
        )


def _check_features(target: Target) -> None:
    # LLVM ignores a feature that it does not know.
    ignored = {f[1:] for f in target.mattr if f.startswith("+")} - _llvm_features(target)
    if ignored:
        raise UsageError(
            f"LLVM has no feature {', '.join(sorted(ignored))} for {target.triple}",
            where=target.spec,
            hint="take it out of mattr, or spell it as LLVM does",
        )
