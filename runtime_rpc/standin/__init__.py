"""A phone's stand-in: TVM's RPC server in an emulated aarch64 process, registered at a tracker.

What runs on it is what a phone runs: the same machine code, TVM's own runtime for aarch64, and the
same protocol. Only the speed is not a phone's: times measured here are not results.
"""
