"""Which library of a system has which symbol, as far as libraries of ours may leave them to it.

    object files ─link─→ library ─gate─→ an artifact, an app
         stubs ──┘ DT_NEEDED   └── nothing undefined that none of these has

Android's loader looks for a symbol in the libraries that the one which is loaded names itself, and
nowhere else. Of Android these are the symbols that it has had since version 6 (API 23), by the maps
of bionic. On Linux the names are glibc's, which musl takes for its own.
"""

from collections.abc import Mapping
from pathlib import Path

from odtc.backends.objects.stub_library import stub_library
from odtc.backends.targets import Target

# LLVM makes these of loops that copy or fill.
_MEMORY = frozenset({"memcpy", "memmove", "memset"})
# What TVM calls for Relax operators, what LLVM calls where a CPU has no such instruction (rounding,
# fused multiply-add), and their neighbours. In single precision, with an `f`, and in double.
_NAMES = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 "
    "expm1 fabs floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 nearbyint "
    "nextafter pow rint round sin sinh sqrt tan tanh tgamma trunc"
)
_MATHS = frozenset(f"{name}{suffix}" for name in _NAMES.split() for suffix in ("", "f"))
# What the native runtime calls.
_RUNTIME = frozenset(
    (
        "__errno __sched_cpucount calloc clock_gettime close flock free fstat fsync ftruncate "
        "getauxval getpid madvise malloc memcmp mkstemp mmap mremap munmap open posix_fallocate "
        "posix_memalign pthread_cond_broadcast pthread_cond_destroy pthread_cond_init "
        "pthread_cond_wait pthread_create pthread_getspecific pthread_join pthread_key_create "
        "pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock "
        "pthread_once pthread_setspecific qsort read readlink realloc realpath rename "
        "sched_getaffinity sched_getcpu sched_setaffinity sched_yield snprintf strchr strcmp "
        "strcspn strerror strlen strncmp strrchr stat strtoul syscall sysconf unlink vsnprintf "
        "write"
    ).split()
)
# What odtc-device calls beside that.
_DEVICE = frozenset(
    (
        "__libc_init _exit accept4 access bind chdir closedir connect exit fclose fcntl "
        "fdopendir fflush fgets fopen fork fprintf fputc fputs fscanf getcwd getpeername "
        "getppid getrlimit getsockname getsockopt getuid kill listen lstat memchr memmem mkdir "
        "mkdtemp nanosleep openat opendir poll prctl pread printf pthread_cond_signal "
        "pthread_cond_timedwait pthread_condattr_init pthread_condattr_setclock readdir "
        "recv rmdir scandir send setpgid setrlimit setsockopt shutdown sigaddset "
        "sigemptyset signal signalfd sigprocmask socket stderr stdout stpcpy strcat strcpy "
        "strdup strpbrk strstr strtod strtok_r strtol strtoll time uname unlinkat "
        "utimensat vfprintf waitpid"
    ).split()
)
_LOADER = frozenset({"dl_iterate_phdr", "dlclose", "dlerror", "dlopen", "dlsym"})

# The loader of Android's programs.
INTERPRETER = "/system/bin/linker64"

# Bionic has ldexp beside memcpy.
_BIONIC = {
    "libc.so": _MEMORY | _RUNTIME | _DEVICE | {"ldexp"},
    "libm.so": _MATHS - {"ldexp"},
    "libdl.so": _LOADER,
}
# Of iOS, what LLVM calls there in addition; kernels are linked with it, and nothing is looked for.
_DARWIN = {
    "libSystem": _MEMORY
    | _MATHS
    | {"bzero", "memset_pattern4", "memset_pattern8", "memset_pattern16"}
    | {"__sincos_stret", "__sincosf_stret"}
}
_GLIBC = {"libc.so.6": _MEMORY, "libm.so.6": _MATHS}
# What code of TVM calls where it checks arguments or returns objects, as kernels of steps do not;
# an app has neither of these.
TVM = {
    "libtvm_ffi.so": frozenset(
        "TVMFFIEnvModLookupFromImports TVMFFIErrorSetRaisedFromCStr "
        "TVMFFIErrorSetRaisedFromCStrParts TVMFFIFunctionCall".split()
    ),
    "libtvm_runtime.so": frozenset(
        "TVMBackendAllocWorkspace TVMBackendAnyListMoveFromPackedReturn TVMBackendAnyListResetItem "
        "TVMBackendAnyListSetPackedArg TVMBackendFreeWorkspace TVMBackendParallelBarrier "
        "TVMBackendParallelLaunch".split()
    ),
}
_SYSTEMS = {"android": _BIONIC, "gnu": _GLIBC, "ios": _DARWIN}
_MACHINES = {"elf_x86_64": "x86_64", "aarch64linux": "aarch64"}


def system_libraries(target: Target, *, tvm: bool = True) -> Mapping[str, frozenset[str]]:
    """The symbols of each library that a library for a target may need, by its soname.

    Args:
        target: of the library.
        tvm: whether TVM is there, too.
    """
    system = target.triple.rpartition("-")[2].rstrip(".0123456789")
    return _SYSTEMS[system] | (TVM if tvm else {})


def write_stubs(target: Target, folder: Path) -> list[Path]:
    """Writes for a linker what it has to know of the system's libraries; returns the files."""
    machine = _MACHINES[target.emulation]
    paths = []
    for name, symbols in system_libraries(target).items():
        paths.append(folder / name)
        paths[-1].write_bytes(stub_library(name, machine, symbols))
    return paths


def bionic_names(machine: str) -> dict[str, bytes]:
    """Libraries by which a process of glibc has its own ones under Android's names.

    A step for Android asks for `libm.so`; a loader of glibc knows it by `libm.so.6`, and looks
    nowhere else for a name that is already loaded.

    Args:
        machine: `x86_64` or `aarch64`.
    """
    return {
        name: stub_library(name, machine, (), (f"{name}.6",)) for name in ("libc.so", "libm.so")
    }
