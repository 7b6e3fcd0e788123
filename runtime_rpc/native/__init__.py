"""The native runtime: training steps without Python and TVM, and how Python builds and calls it.

    runtime/     the runtime in C11; its public header is odtc.h
    java/        the same for the JVM, through JNI
    build.py     compiles it with this machine's compiler, once
    interface.py its header in ctypes
    binding.py   a trainer of it

It is here because it does what this folder's trainer does, for a process that has neither: it makes
no code, it only runs what `backends` wrote.
"""
