"""What code for one core costs another, counted: none of it is a time.

A step is compiled for each of some CPUs, and each code is counted on every core. Of code for
several CPUs each core runs the kernels that the native runtime chooses there.
"""
