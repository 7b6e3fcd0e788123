"""Runtimes of GPUs that the wheel of TVM lacks: small C++ libraries, built when they are needed."""
