"""Programs in C whose steps the emulator counts."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arm.cores import Core
from benchmarks.arm.emulator import Counted, count
from benchmarks.arm.ours import COMPILER

# COUNT(n, what) is step n. The memory map is left as each guest does.
_PROLOGUE = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>
#define COUNT(n, what) syscall(7777, 1, 0), what, syscall(7777, 2, n)
static int copy_map(void) {
  char bytes[65536];
  int from = open("/proc/self/maps", O_RDONLY), to = open("maps", O_CREAT | O_WRONLY, 0600);
  for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;) if (write(to, bytes, n) < n) return 2;
  return 0;
}
"""


def counted_program(
    source: str, flags: list[str], cores: Sequence[Core], folder: Path
) -> list[Counted]:
    """Compiles a program and counts its steps, with the caches of each core."""
    (folder / "loop.c").write_text(_PROLOGUE + source)
    subprocess.run([COMPILER, *flags, "loop.c", "-o", "loop"], check=True, cwd=folder)
    return count([str(folder / "loop")], cores, folder)
