"""A phone's stand-in: odtc-device in an emulated aarch64 process, registered at a tracker.

What runs on it is what a phone runs: the same program for Android, the same kernels, and the same
protocol. Only the speed is not a phone's: times measured here are not results.
"""
