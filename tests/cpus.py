"""CPUs that a test's code is compiled for: this machine's own, and others that it can run.

The own one comes first, as it is what steps are compiled for unless somebody asks. LLVM vectorises
and unrolls by a CPU's name, and has made wrong code for one of them alone. Names are of x86-64.
"""

from dataclasses import replace

from odtc.backends.cpus import Cpu, lacking_features, on_this_machine

OWN = "own"
CPUS = (OWN, "znver4", "skylake-avx512", "haswell")
_TRIPLE = "x86_64-linux-gnu"


def runnable(name: str) -> Cpu:
    """The CPU of a name, without the features that this machine has not."""
    if name == OWN:
        return on_this_machine(Cpu(_TRIPLE, None))
    cpu = Cpu(_TRIPLE, name)
    return replace(cpu, mattr=tuple(f"-{feature}" for feature in lacking_features(cpu)))


def target_text(name: str) -> str:
    """The target of that CPU, as a user writes it."""
    if name == OWN:
        return "host-cpu"
    withheld = ":".join(runnable(name).mattr)
    return f"host-cpu{{mcpu={name}{',mattr=' if withheld else ''}{withheld}}}"
