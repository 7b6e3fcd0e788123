"""Targets: each is plain data, known by a name and written as text.

`android-cpu{mcpu=cortex-a76}` is the target `android-cpu` with another core; `parse_target` reads
such text and `Target.spec` writes it. Nothing here imports TVM until a target is resolved.
"""

import functools
import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from odtc.backends.caches import Caches, caches_of
from odtc.backends.cpus import (
    CORES,
    CPU,
    HALF_ARITHMETIC,
    X86_VECTORS,
    Cpu,
    check_cpu,
    check_features,
    default_mattr,
    is_arm,
    llvm_features,
    on_this_machine,
    tvm_cpu,
    with_name,
)
from odtc.backends.gpu.known import OF_HOSTS, known_gpu
from odtc.backends.gpu.machine import PHONE, Gpu
from odtc.backends.target_options import OPTIONS
from odtc.core.errors import UnsupportedError, UsageError
from odtc.core.options.option_text import did_you_mean, format_options, parse_options
from odtc.core.process.side_by_side import cores

if TYPE_CHECKING:
    import tvm

# (system, machine) of the computer that compiles -> triple and linker emulation of its libraries.
_HOSTS = {
    ("Linux", "x86_64"): ("x86_64-linux-gnu", "elf_x86_64"),
    ("Linux", "aarch64"): ("aarch64-linux-gnu", "aarch64linux"),
}

# A phone's large cores need no more instructions for this code than for their own, and its small
# ones wait in code for large cores: docs/arm.md has the counts. Both kinds have its instructions.
_OF_PHONES = "cortex-a55"

# The first iOS whose apps run such a step.
_IOS = "aarch64-apple-ios15.0"

# The names of targets of the machine that compiles begin so.
HOST = "host-"

# Kernels are cut into tasks for about as many cores: those of a phone.
MOST_THREADS = 8

# Bytes that a storage is written and read with in a second: an SSD of a computer, and what phones
# with UFS 3 hold for long.
_SSD, _FLASH = (1_000_000_000, 2_000_000_000), (400_000_000, 1_000_000_000)

# Options of a target that only one kind of processor has, and what they give it: a step on a GPU is
# run by no threads, and keeps nothing in storage.
_OF_GPUS = {"gpu": "GPU"}
_OF_CPUS = {"threads": "threads", "storage_write": "storage", "storage_read": "storage"}


@dataclass(frozen=True)
class Target:
    """A processor, and the system around it, that odtc compiles for.

    Attributes:
        name: how the command line calls it.
        description: one line for a listing.
        triple: LLVM's name of architecture and system.
        emulation: lld's name of the output format.
        mcpu: LLVM's name of the CPU; None is the CPU of the machine that compiles.
        mattr: CPU features to add (`+dotprod`) or to withhold (`-sve`), of each CPU.
        also: names of further CPUs, of which the library has the same kernels, compiled for them.
            The native runtime chooses; TVM runs those of the first.
        threads: the most that a step is run with. Each has workspaces of its own in the step's
            arena. None is the number of cores of the machine that compiles, up to 8, and on a GPU
            none.
        storage_write: bytes that its storage takes in a second.
        storage_read: bytes that are read from it in a second.
        kind: TVM's kind of target.
        gpu: name of the GPU that kernels are made for, of `odtc.backends.gpu.known`; None is any
            of a phone, or whatever this machine has.
        available_from: why it cannot be compiled for, or None.
    """

    name: str
    description: str
    triple: str
    emulation: str
    mcpu: str | None
    mattr: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    threads: int | None = None
    storage_write: int = _SSD[0]
    storage_read: int = _SSD[1]
    kind: str = CPU
    gpu: str | None = None
    available_from: str | None = None

    @property
    def spec(self) -> str:
        """The text that `parse_target` reads back as this target."""
        options = {"gpu": self.gpu} if self.gpu else {}
        if self.mcpu and (self.also or self.mcpu != _registry()[self.name].mcpu):
            options["mcpu"] = "+".join((self.mcpu, *self.also))
        if self.mattr != default_mattr(self.triple, self.mcpu):
            options["mattr"] = ":".join(self.mattr)
        if self.threads != _registry()[self.name].threads:
            options["threads"] = str(self.threads)
        for key in ("storage_write", "storage_read"):
            if getattr(self, key) != getattr(_registry()[self.name], key):
                options[key] = str(getattr(self, key))
        return format_options(self.name, options)

    @property
    def cpu(self) -> Cpu:
        """Its CPU; that of a GPU's target launches the kernels."""
        return Cpu(self.triple, self.mcpu, self.mattr)

    @property
    def cpus(self) -> tuple[Cpu, ...]:
        """All CPUs that its kernels are compiled for; the first is that of `cpu`."""
        return self.cpu, *(with_name(self.cpu, each) for each in self.also)

    def with_cpu(self, cpu: Cpu) -> "Target":
        """The target with another CPU of its architecture."""
        return replace(self, mcpu=cpu.mcpu, mattr=cpu.mattr)

    @property
    def is_static(self) -> bool:
        """Whether kernels are linked into an app, as on systems that load no other code."""
        return "-apple-" in self.triple

    @property
    def vector_bits(self) -> int:
        """Bits of a SIMD register: 128 for NEON; an x86 target asks LLVM about its CPU.

        Raises:
            UsageError: LLVM does not know the CPU, or not for this architecture.
            UnsupportedError: this version of odtc does not compile for the target.
        """
        if is_arm(self.triple):
            return 128
        has = llvm_features(self.resolved().cpu)
        return next(bits for feature, bits in X86_VECTORS if feature in has)

    @property
    def caches(self) -> Caches | None:
        """What a core has near it, of several CPUs every one; None on x86, whose vectors tell."""
        return caches_of(cpu.mcpu for cpu in self.cpus) if is_arm(self.triple) else None

    @property
    def has_half_arithmetic(self) -> bool:
        """Whether it computes with float16, and does not only convert it: a CPU, with vectors.

        Of several CPUs all must: one that does not converts at each operation.

        Raises:
            UsageError: LLVM does not know the CPU, or not for this architecture.
            UnsupportedError: this version of odtc does not compile for the target.
        """
        if self.kind != CPU:
            return self.kind in gpu_of(self).half
        cpus = self.resolved().cpus
        return not any(HALF_ARITHMETIC.isdisjoint(llvm_features(cpu)) for cpu in cpus)

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
        target = self if self.mcpu else self.with_cpu(on_this_machine(self.cpu))
        for cpu in target.cpus:
            check_cpu(cpu, target.spec)
            check_features(cpu, target.spec)
        if self.kind != CPU:
            return target
        return replace(target, threads=self.threads or min(MOST_THREADS, cores()))

    def to_tvm(self) -> "tvm.target.Target":
        """TVM's target object, for the resolved target.

        Raises:
            UsageError: LLVM does not know the CPU or a feature, or not for this architecture.
            UnsupportedError: this version of odtc does not compile for the target.
        """
        return _tvm_target(self.resolved())


def gpu_of(target: Target) -> Gpu:
    """The GPU that a target's kernels are made for."""
    if target.gpu:
        return known_gpu(target.gpu, target.kind)
    return OF_HOSTS.get(target.name, PHONE)


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
            hint="write it as android-cpu or android-cpu{mcpu=cortex-a76}",
        ) from error
    target = _registry().get(name)
    if not target:
        raise UsageError(
            f"unknown target {name!r}",
            hint=did_you_mean(name, _registry()) + f"known targets: {_names(targets())}",
        )
    options = {key: _read_option(text, key, value) for key, value in written.items()}
    _check_options_of(target, options, text)
    first, *also = options.pop("mcpu", ("",))
    if also and target.kind != CPU:
        raise UsageError(
            f"{name} computes on a GPU, whose kernels one CPU launches",
            where=text,
            hint=f"give mcpu={first}; several are for {_names(_of_cpus())}",
        )
    if first:
        target = replace(target.with_cpu(with_name(target.cpu, first)), also=tuple(also))
    return replace(target, **options)


def _check_options_of(target: Target, options: Iterable[str], text: str) -> None:
    """Checks that no option of the other kind of processor is given, which would change nothing.

    Raises:
        UsageError: one is.
    """
    others = _OF_CPUS if target.kind != CPU else _OF_GPUS
    wrong = next((key for key in options if key in others), None)
    if wrong:
        kind, fitting = ("CPU", _of_gpus()) if target.kind == CPU else ("GPU", _of_cpus())
        raise UsageError(
            f"{target.name} computes on a {kind}, and takes no {others[wrong]}",
            where=text,
            hint=f"leave {wrong} out, or give it to one of {_names(fitting)}",
        )


def as_target(given: str | Target) -> Target:
    """The target that a user names or gives: inside odtc it is no text any more.

    Raises:
        UsageError: it is named, and cannot be read; see `parse_target`.
    """
    return parse_target(given) if isinstance(given, str) else given


def _read_option(text: str, key: str, value: str) -> Any:
    if key not in OPTIONS:
        raise UsageError(
            f"a target has no option {key!r}",
            where=text,
            hint=did_you_mean(key, OPTIONS) + f"known options: {', '.join(OPTIONS)}",
        )
    try:
        return OPTIONS[key](value)
    except ValueError as expected:
        raise UsageError(
            f"the option {key!r} cannot be {value!r}", where=text, hint=f"give {expected}"
        ) from None


def _of_cpus() -> Iterable[Target]:
    return (target for target in targets() if target.kind == CPU)


def _of_gpus() -> Iterable[Target]:
    return (target for target in targets() if target.kind != CPU)


def _names(some: Iterable[Target]) -> str:
    return ", ".join(target.name for target in some)


@functools.cache
def _registry() -> dict[str, Target]:
    phone = Target(
        name="android-cpu",
        description="64-bit ARM CPU of an Android phone, by code for its small cores (Cortex-A55) "
        "unless mcpu names others",
        triple="aarch64-linux-android",
        emulation="aarch64linux",
        mcpu=_OF_PHONES,
        mattr=CORES[_OF_PHONES],
        threads=MOST_THREADS,
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
            mattr=CORES["generic"],
            threads=MOST_THREADS,
        ),
        phone,
        replace(
            phone,
            name="android-opencl",
            threads=None,
            description="GPU of an Android phone through OpenCL",
            kind="opencl",
        ),
        replace(
            phone,
            name="android-vulkan",
            threads=None,
            description="GPU of an Android phone through Vulkan",
            kind="vulkan",
        ),
        Target(
            name="ios-cpu",
            description="64-bit ARM CPU of an iPhone, from an A12 on, for an app",
            triple=_IOS,
            emulation="",
            mcpu="apple-a12",
            mattr=default_mattr(_IOS, "apple-a12"),
            threads=MOST_THREADS,
            storage_write=_FLASH[0],
            storage_read=_FLASH[1],
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
        mattr=default_mattr(triple, None),
        available_from=None if triple else f"this machine is {system} {machine}, not {known}",
    )


def _tvm_target(target: Target) -> "tvm.target.Target":
    """TVM's target object; a GPU's has the CPU that launches its kernels as host."""
    import tvm

    cpu = tvm_cpu(target.cpu)
    if target.kind == CPU:
        return cpu
    fields = {"kind": target.kind, "max_num_threads": gpu_of(target).group}
    return tvm.target.Target(fields, host=cpu)
