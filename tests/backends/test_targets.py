"""Targets as text and as data, and what is said about those that are wrong."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odtc.backends import targets as module
from odtc.backends.caches import Caches, caches_of
from odtc.backends.cpus import (
    CORES,
    CPU,
    Cpu,
    llvm_features,
    on_this_machine,
    told_features,
)
from odtc.backends.families import family_of
from odtc.backends.gpu.known import GPUS, known_gpu
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.targets import Target, gpu_of, parse_target, targets
from odtc.core.errors import UnsupportedError, UsageError

KNOWN = (
    "host-cpu, host-opencl, host-vulkan, linux-arm64-cpu, android-cpu, android-opencl, "
    "android-vulkan, ios-cpu"
)
WRITE = "write it as android-cpu or android-cpu{mcpu=cortex-a76}"
GPU_TARGETS = [target.name for target in targets() if target.kind != CPU]
CPU_TARGETS = [target.name for target in targets() if target.kind == CPU]
cpus = st.from_regex(r"[A-Za-z0-9._-]+", fullmatch=True) | st.sampled_from(sorted(CORES))
features = st.lists(st.from_regex(r"[+-][a-z0-9.-]+", fullmatch=True), min_size=1).map(":".join)


@pytest.fixture
def x86_host(monkeypatch: pytest.MonkeyPatch):
    """As on an x86 machine, whatever this one is."""
    monkeypatch.setattr(module, "_registry", lambda: {"host-cpu": module._host("Linux", "x86_64")})


def test_module_imports_without_tvm():
    code = (
        "import sys, odtc.backends.targets as t; t.parse_target('host-cpu{mcpu=x86-64-v3}').spec;"
        "sys.exit(any(name.split('.')[0].startswith('tvm') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=300).returncode == 0


def test_targets_are_listed_with_a_line_each():
    assert ", ".join(target.name for target in targets()) == KNOWN
    assert all(target.description and "\n" not in target.description for target in targets())


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_name_alone_is_the_spec_of_a_listed_target(target: Target):
    assert target.spec == target.name
    assert parse_target(target.name) == target


@given(
    name=st.sampled_from(CPU_TARGETS),
    options=st.fixed_dictionaries(
        {}, optional={"mcpu": cpus, "mattr": features, "threads": st.integers(1, 99).map(str)}
    ),
)
def test_spec_round_trips(name: str, options: dict[str, str]):
    inner = ",".join(f"{key}={value}" for key, value in options.items())
    target = parse_target(f"{name}{{{inner}}}" if inner else name)
    assert parse_target(target.spec) == target
    assert target.spec == parse_target(target.spec).spec


@given(name=st.sampled_from(GPU_TARGETS), gpu=st.sampled_from(sorted(GPUS)))
def test_the_gpu_is_part_of_the_spec(name: str, gpu: str):
    target = parse_target(f"{name}{{gpu={gpu}}}")
    assert target.spec == f"{name}{{gpu={gpu}}}"
    assert parse_target(target.spec) == target
    assert gpu_of(target) == known_gpu(gpu, target.kind)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("android-cpu{mcpu=cortex-a55}", "android-cpu"),
        ("android-cpu{mcpu=cortex-a76}", "android-cpu{mcpu=cortex-a76}"),
        ("android-cpu{mattr=+neon:+dotprod}", "android-cpu"),
        (" android-cpu{ mattr = -sve , mcpu = a } ", "android-cpu{mcpu=a,mattr=-sve}"),
        ("host-cpu{mcpu=x86-64-v3}", "host-cpu{mcpu=x86-64-v3}"),
        ("android-cpu{mcpu=cortex-a76+cortex-a55}", "android-cpu{mcpu=cortex-a76+cortex-a55}"),
        ("android-cpu{mcpu=a+b,mattr=-sve}", "android-cpu{mcpu=a+b,mattr=-sve}"),
        ("android-cpu{threads=8}", "android-cpu"),
        ("android-cpu{threads=4}", "android-cpu{threads=4}"),
        ("host-cpu{threads=12}", "host-cpu{threads=12}"),
    ],
)
def test_spec_names_what_differs(text: str, spec: str):
    assert parse_target(text).spec == spec


@pytest.mark.parametrize(
    ("name", "nearest"), [("andriod-cpu", "did you mean android-cpu? "), ("llvm", "")]
)
def test_unknown_target(name: str, nearest: str):
    with pytest.raises(UsageError) as error:
        parse_target(name)
    assert str(error.value) == (f"unknown target {name!r}\n  hint: {nearest}known targets: {KNOWN}")


@pytest.mark.parametrize(
    "text",
    ["", "host-cpu{}", "host-cpu{mcpu=a", "host-cpu{mcpu}", "host-cpu{mcpu=}", "host-cpu{mcpu=a,}"],
)
def test_malformed_text(text: str):
    with pytest.raises(UsageError) as error:
        parse_target(text)
    assert str(error.value).startswith(f"cannot read the target {text!r}: ")
    assert str(error.value).endswith(f"\n  hint: {WRITE}")
    assert "of the form" in str(error.value)


def test_option_given_twice():
    with pytest.raises(UsageError) as error:
        parse_target("host-cpu{mcpu=a,mcpu=b}")
    assert str(error.value) == (
        "cannot read the target 'host-cpu{mcpu=a,mcpu=b}': the option 'mcpu' is given twice\n"
        f"  hint: {WRITE}"
    )


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        (
            "host-cpu{mpcu=x}",
            "a target has no option 'mpcu'",
            "did you mean mcpu? known options: mcpu, mattr, threads, storage_write, storage_read, "
            "gpu",
        ),
        (
            "host-cpu{mcpu=a b}",
            "the option 'mcpu' cannot be 'a b'",
            "give a CPU name of LLVM, such as cortex-a76, or several, as in cortex-a55+cortex-a53",
        ),
        (
            "android-cpu{mcpu=cortex-a76+}",
            "the option 'mcpu' cannot be 'cortex-a76+'",
            "give a CPU name of LLVM, such as cortex-a76, or several, as in cortex-a55+cortex-a53",
        ),
        (
            "android-cpu{mcpu=cortex-a76+cortex-a76}",
            "the option 'mcpu' cannot be 'cortex-a76+cortex-a76'",
            "give up to 8 CPU names, each once",
        ),
        (
            "android-opencl{mcpu=cortex-a76+cortex-a55}",
            "android-opencl computes on a GPU, whose kernels one CPU launches",
            "give mcpu=cortex-a76; several are for host-cpu, linux-arm64-cpu, android-cpu, ios-cpu",
        ),
        (
            "host-cpu{threads=100}",
            "the option 'threads' cannot be '100'",
            "give a number of threads from 1 to 99",
        ),
        (
            "host-cpu{mattr=avx}",
            "the option 'mattr' cannot be 'avx'",
            "give LLVM features joined by colons, such as +neon:-sve",
        ),
        (
            "android-vulkan{gpu=mali-g77ae}",
            "the option 'gpu' cannot be 'mali-g77ae'",
            "give mali-g77, mali-g78, mali-g76, or one that `odtc targets` lists",
        ),
        (
            "host-opencl{gpu=powervr}",
            "the option 'gpu' cannot be 'powervr'",
            "give one that `odtc targets` lists",
        ),
        (
            "android-cpu{gpu=mali-g76}",
            "android-cpu computes on a CPU, and takes no GPU",
            f"leave gpu out, or give it to one of {', '.join(GPU_TARGETS)}",
        ),
        (
            "host-vulkan{threads=2}",
            "host-vulkan computes on a GPU, and takes no threads",
            f"leave threads out, or give it to one of {', '.join(CPU_TARGETS)}",
        ),
        (
            "android-opencl{storage_read=5e8}",
            "android-opencl computes on a GPU, and takes no storage",
            f"leave storage_read out, or give it to one of {', '.join(CPU_TARGETS)}",
        ),
    ],
)
def test_wrong_option(text: str, what: str, hint: str):
    with pytest.raises(UsageError) as error:
        parse_target(text)
    assert str(error.value) == f"{what}\n  where: {text}\n  hint: {hint}"


def test_targets_that_cannot_be_compiled_for_are_refused_when_resolved():
    with pytest.raises(UnsupportedError) as error:
        module._host("Darwin", "arm64").to_tvm()
    assert str(error.value) == (
        "odtc cannot compile for host-cpu: this machine is Darwin arm64, not Linux x86_64 or Linux "
        f"aarch64\n  hint: choose one of {KNOWN}"
    )


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        (
            "mcpu=haswel",
            "LLVM has no CPU 'haswel' for x86_64-linux-gnu",
            "did you mean haswell? usual CPUs: generic, x86-64, x86-64-v2, x86-64-v3, x86-64-v4",
        ),
        (
            "mcpu=x86-64-v3+haswel",
            "LLVM has no CPU 'haswel' for x86_64-linux-gnu",
            "did you mean haswell? usual CPUs: generic, x86-64, x86-64-v2, x86-64-v3, x86-64-v4",
        ),
        (
            "mcpu=i386",
            "the CPU 'i386' is a 32-bit one",
            "choose a 64-bit CPU, such as x86-64-v3",
        ),
        (
            "mcpu=x86-64-v3,mattr=+dotprod:+avx",
            "LLVM has no feature dotprod for x86_64-linux-gnu",
            "take it out of mattr, or spell it as LLVM does",
        ),
    ],
)
@pytest.mark.usefixtures("x86_host")
def test_wrong_cpu(options: str, what: str, hint: str):
    with pytest.raises(UsageError) as error:
        parse_target(f"host-cpu{{{options}}}").to_tvm()
    assert str(error.value) == f"{what}\n  where: host-cpu{{{options}}}\n  hint: {hint}"


def test_each_of_several_cpus_has_its_own_features():
    target = parse_target("android-cpu{mcpu=cortex-a76+cortex-a53+cortex-a510}")
    assert target.cpus == tuple(
        Cpu(target.triple, core, CORES[core])
        for core in ("cortex-a76", "cortex-a53", "cortex-a510")
    )
    chosen = parse_target("android-cpu{mcpu=cortex-a76+cortex-a53,mattr=+neon:+crc}")
    assert {cpu.mattr for cpu in chosen.cpus} == {("+neon", "+crc")}


@pytest.mark.parametrize("core", ["a75", "a76", "a77", "a78", "x1"])
def test_code_for_phones_needs_nothing_that_a_large_core_lacks(core: str):
    large = parse_target(f"android-cpu{{mcpu=cortex-{core}}}").cpu
    assert set(told_features(parse_target("android-cpu").cpu)) <= set(told_features(large))


def test_caches_are_those_that_all_cpus_have():
    both = parse_target("android-cpu{mcpu=cortex-x1+cortex-a55}")
    assert both.caches == caches_of(["cortex-a55"]) == Caches(32 << 10, 128 << 10, loaded=8)
    assert parse_target("android-cpu{mcpu=cortex-a76}").caches == Caches(64 << 10, 512 << 10)
    assert parse_target("host-cpu{mcpu=haswell}").caches is None


def test_kernels_are_fitted_to_the_caches_of_their_core():
    targets = (f"android-cpu{{mcpu=cortex-{core}}}" for core in ("a55", "a76", "x1"))
    machines = [family_of(parse_target(each).resolved()).products.machine for each in targets]
    known = [(m.first_bytes, m.cache_bytes, m.blocked) for m in machines if isinstance(m, Machine)]
    assert known == [(1 << 14, 1 << 16, 2), (1 << 15, 1 << 18, 0), (1 << 15, 1 << 19, 0)]


def test_an_x86_cpu_is_not_one_of_a_phone():
    with pytest.raises(UsageError, match="LLVM has no CPU 'haswell' for aarch64-linux-android"):
        parse_target("android-cpu{mcpu=haswell}").to_tvm()


@pytest.mark.parametrize("core", sorted(CORES))
def test_core_table_agrees_with_llvm(core: str):
    from tvm.target import Target as TvmTarget
    from tvm.target.codegen import llvm_get_cpu_features

    bare = {"kind": "llvm", "mtriple": "aarch64-linux-android", "mcpu": core}
    has = llvm_get_cpu_features(TvmTarget(bare))
    told = CORES[core]
    assert ("+dotprod" in told) == ("dotprod" in has)
    assert ("-sve" in told) == ("sve" in has)
    assert "sme" not in has


@pytest.mark.parametrize("text", ["android-cpu", "android-cpu{mcpu=cortex-x4}", "linux-arm64-cpu"])
def test_arm_targets_in_tvm(text: str):
    target = parse_target(text)
    in_tvm = target.to_tvm()
    assert str(in_tvm.attrs["mtriple"]) == target.triple
    assert str(in_tvm.attrs["mcpu"]) == target.mcpu
    assert tuple(map(str, in_tvm.attrs["mattr"])) == target.mattr
    assert not in_tvm.attrs["feature.has_sve"]
    assert target.vector_bits == 128


@pytest.mark.parametrize(
    ("mcpu", "bits"),
    [("x86-64", 128), ("x86-64-v3", 256), ("x86-64-v4", 512), ("sapphirerapids", 512)],
)
@pytest.mark.usefixtures("x86_host")
def test_vector_bits_of_x86(mcpu: str, bits: int):
    assert parse_target(f"host-cpu{{mcpu={mcpu}}}").vector_bits == bits


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("linux-arm64-cpu", False),
        ("linux-arm64-cpu{mcpu=neoverse-n1}", True),
        *((f"android-cpu{{mcpu=cortex-{core}}}", False) for core in ("a53", "a57", "a72", "a73")),
        *((f"android-cpu{{mcpu=cortex-{core}}}", True) for core in ("a55", "a75", "a76", "x1")),
        ("android-cpu{mcpu=cortex-a73,mattr=+neon:+fullfp16}", True),
        ("android-cpu{mcpu=cortex-a76+cortex-a55}", True),
        ("android-cpu{mcpu=cortex-a76+cortex-a55+cortex-a53}", False),
        ("android-cpu{mcpu=cortex-a76,mattr=+neon:-fullfp16}", False),
    ],
)
def test_which_arm_cores_compute_in_float16(text: str, has: bool):
    assert parse_target(text).has_half_arithmetic == has


@pytest.mark.parametrize(
    ("mcpu", "has"), [("x86-64-v4", False), ("znver5", False), ("sapphirerapids", True)]
)
@pytest.mark.usefixtures("x86_host")
def test_which_x86_cpus_compute_in_float16(mcpu: str, has: bool):
    assert parse_target(f"host-cpu{{mcpu={mcpu}}}").has_half_arithmetic == has


def test_host_is_resolved_to_the_cpu_of_this_machine():
    from tvm.target.codegen import llvm_get_system_cpu

    host = parse_target("host-cpu").resolved()
    assert host.mcpu == llvm_get_system_cpu()
    assert host.resolved() == host == parse_target(host.spec)
    assert host.vector_bits in (128, 256, 512)
    assert host.threads == min(8, len(os.sched_getaffinity(0)))


def test_features_that_the_machine_hides_are_withheld(monkeypatch: pytest.MonkeyPatch):
    import tvm_ffi
    from tvm.target import codegen

    monkeypatch.setattr(codegen, "llvm_get_system_cpu", lambda: "x86-64-v4")
    monkeypatch.setattr(tvm_ffi, "get_global_func", lambda _: lambda: {"avx512f": False})
    host = on_this_machine(module._host("Linux", "x86_64").cpu)
    assert host.mattr == ("-avx512f",)
    assert not any(f.startswith("avx512") for f in llvm_features(host))


@pytest.mark.parametrize(
    ("machine", "triple", "emulation"),
    [
        ("x86_64", "x86_64-linux-gnu", "elf_x86_64"),
        ("aarch64", "aarch64-linux-gnu", "aarch64linux"),
    ],
)
def test_host_by_machine(machine: str, triple: str, emulation: str):
    host = module._host("Linux", machine)
    assert (host.triple, host.emulation, host.available_from) == (triple, emulation, None)


def test_host_that_is_not_linux_is_refused():
    with pytest.raises(UnsupportedError) as error:
        module._host("Darwin", "arm64").to_tvm()
    assert str(error.value).splitlines()[0] == (
        "odtc cannot compile for host-cpu: "
        "this machine is Darwin arm64, not Linux x86_64 or Linux aarch64"
    )
