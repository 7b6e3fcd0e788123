"""The processor that tests compile single kernels for, and run them on: this machine's."""

import tvm

from tests.fast import ALL

# What a kernel computes does not hang on how much LLVM makes of it, which is half of the time that
# the fast tests of kernels would take. What odtc builds is optimised in all tests.
HOST = tvm.target.Target({"kind": "llvm"} if ALL else {"kind": "llvm", "opt-level": 0})
