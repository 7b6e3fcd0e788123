"""CPUs: the cores of phones, and what LLVM and this machine report about them."""

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from odtc.core.errors import UsageError
from odtc.core.options.option_text import did_you_mean

if TYPE_CHECKING:
    import tvm

# Kind of the targets that compute on a CPU; that of others is the interface of their GPU.
CPU = "llvm"

# What TVM and LLVM are told about a core. SVE is off where a core has it: the kernels are written
# for NEON, and some phones have cores with SVE and kernels that trap it.
_ARMV8_0 = ("+neon",)
_ARMV8_2 = ("+neon", "+dotprod")
_ARMV9 = ("+neon", "+dotprod", "-sve")
_ANY_ARM = ("+neon", "-sve", "-sme")
CORES = {
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

# What the native runtime can ask a CPU for; see `runtime_rpc/native/runtime/cpu.c`.
_TOLD_BY_ARM = frozenset(
    "aes bf16 crc dotprod fp16fml fullfp16 i8mm lse neon rdm sha2 sve sve2".split()
)
_TOLD_BY_X86 = frozenset(
    "avx avx2 avx512bf16 avx512bitalg avx512bw avx512cd avx512dq avx512f avx512fp16 avx512ifma "
    "avx512vbmi avx512vbmi2 avx512vl avx512vnni avx512vp2intersect avx512vpopcntdq "
    "avxifma avxneconvert avxvnni avxvnniint16 avxvnniint8 "
    "bmi bmi2 f16c fma fma4 gfni lzcnt movbe popcnt vaes vpclmulqdq".split()
)

# Of LLVM's levels. Its highest takes a quarter to a half longer for kernels, and no step that was
# measured was faster by it: they are vectorised and unrolled before LLVM has them.
_OPTIMISED = 2

# The widest feature of an x86 CPU that it has -> bits of a vector register.
X86_VECTORS = (("avx512f", 512), ("avx", 256), ("sse2", 128))

# Arithmetic with vectors of float16: ARM's FEAT_FP16, and x86.
HALF_ARITHMETIC = {"fullfp16", "avx512fp16"}


@dataclass(frozen=True)
class Cpu:
    """A CPU as LLVM knows it.

    Attributes:
        triple: LLVM's name of architecture and system.
        mcpu: LLVM's name of the CPU; None is the CPU of this machine.
        mattr: CPU features to add (`+dotprod`) or to withhold (`-sve`).
    """

    triple: str
    mcpu: str | None
    mattr: tuple[str, ...] = ()


def is_arm(triple: str) -> bool:
    """Whether LLVM's name of a system is of a 64-bit ARM one."""
    return triple.startswith("aarch64")


def default_mattr(triple: str, mcpu: str | None) -> tuple[str, ...]:
    """The CPU features that a target of such a CPU has unless its text says otherwise."""
    return CORES.get(mcpu or "", _ANY_ARM) if is_arm(triple) else ()


def with_name(cpu: Cpu, mcpu: str) -> Cpu:
    """Another CPU of the same architecture, with its features unless others were chosen."""
    chosen = cpu.mattr != default_mattr(cpu.triple, cpu.mcpu)
    mattr = cpu.mattr if chosen else default_mattr(cpu.triple, mcpu)
    return replace(cpu, mcpu=mcpu, mattr=mattr)


def tvm_cpu(cpu: Cpu) -> "tvm.target.Target":
    """TVM's target object for a CPU."""
    import tvm

    fields: dict[str, Any] = {
        "kind": CPU,
        "mtriple": cpu.triple,
        "mcpu": cpu.mcpu,
        "opt-level": _OPTIMISED,
    }
    return tvm.target.Target(fields | ({"mattr": list(cpu.mattr)} if cpu.mattr else {}))


@cache
def llvm_features(cpu: Cpu) -> frozenset[str]:
    """Features that LLVM generates code with for a CPU."""
    from tvm.target.codegen import llvm_get_cpu_features

    return frozenset(str(feature) for feature in llvm_get_cpu_features(tvm_cpu(cpu)))


@cache
def _llvm_cpus(cpu: Cpu) -> list[str]:
    """The CPUs that LLVM knows for the architecture."""
    from tvm.target.codegen import llvm_get_cpu_archlist

    return sorted(str(cpu) for cpu in llvm_get_cpu_archlist(tvm_cpu(cpu)))


def lacking_features(cpu: Cpu) -> list[str]:
    """Features that code for a CPU may use, and this machine does not have.

    Code that uses one of them ends the process: it is an illegal instruction.
    """
    import tvm_ffi

    machine = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return sorted(
        feature
        for feature in llvm_features(cpu)
        if feature.startswith(_HIDEABLE) and not machine.get(feature, True)
    )


def told_features(cpu: Cpu) -> list[str]:
    """Features of a CPU that the native runtime looks for before it runs a kernel.

    Its own table has all of these; what is in neither, as SSE2 and such, every CPU of 64 bits has.
    """
    told = _TOLD_BY_ARM if is_arm(cpu.triple) else _TOLD_BY_X86
    return sorted(llvm_features(cpu) & told)


def on_this_machine(cpu: Cpu) -> Cpu:
    """The CPU of this machine, without the features that it hides."""
    from tvm.target.codegen import llvm_get_system_cpu

    named = with_name(cpu, str(llvm_get_system_cpu()))
    hidden = lacking_features(named)
    return replace(named, mattr=(*(f"-{feature}" for feature in hidden), *named.mattr))


def check_cpu(cpu: Cpu, where: str) -> None:
    """Checks that LLVM knows a CPU; `where` is the target's text, for messages.

    Raises:
        UsageError: it does not, or not for this architecture.
    """
    # LLVM replaces an unknown CPU by `generic`, and aborts the process for a 32-bit one.
    known = _llvm_cpus(replace(cpu, mcpu="generic", mattr=()))
    mcpu = cpu.mcpu or ""
    if mcpu not in known:
        usual = [cpu for cpu in known if cpu in CORES or cpu.startswith("x86-64")]
        raise UsageError(
            f"LLVM has no CPU {mcpu!r} for {cpu.triple}",
            where=where,
            hint=did_you_mean(mcpu, known) + f"usual CPUs: {', '.join(usual)}",
        )
    if not is_arm(cpu.triple) and "64bit" not in llvm_features(cpu):
        raise UsageError(
            f"the CPU {mcpu!r} is a 32-bit one",
            where=where,
            hint="choose a 64-bit CPU, such as x86-64-v3",
        )


def check_features(cpu: Cpu, where: str) -> None:
    """Checks that LLVM knows the features that are added to a CPU; `where` as of `check_cpu`.

    Raises:
        UsageError: it does not.
    """
    # LLVM ignores a feature that it does not know.
    ignored = {f[1:] for f in cpu.mattr if f.startswith("+")} - llvm_features(cpu)
    if ignored:
        raise UsageError(
            f"LLVM has no feature {', '.join(sorted(ignored))} for {cpu.triple}",
            where=where,
            hint="take it out of mattr, or spell it as LLVM does",
        )
