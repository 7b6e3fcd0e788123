"""Engines of a trainer's steps: the runtime in C on this machine's CPU, else TVM.

engine.py            what a trainer asks of either
choose.py            which one it is
native.py            the runtime in C; it imports no TVM
virtual_machine.py   TVM's virtual machine, here or behind RPC
"""
