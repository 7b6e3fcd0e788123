"""Relax operators that TVM lacks: each is one kernel, with a gradient that saves one tensor."""
