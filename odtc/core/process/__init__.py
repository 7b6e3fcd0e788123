"""This process and machine: its cores, compilers, native libraries, and what TVM may load."""
