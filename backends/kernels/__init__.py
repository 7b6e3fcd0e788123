"""Kernels of our own, as TIR that carries its schedule, and the rules that use them."""
