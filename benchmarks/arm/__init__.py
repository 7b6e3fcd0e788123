"""Counts of a training step on 64-bit ARM, by an emulator: none of them is a time.

side ─prepared→ files ─guest in QEMU, count.c→ Block of each piece of code ─┐
memory map, libraries ───────────────────────→ Places ──────────────────────┤
Core ─llvm-mca→ cycles of a block ──────────────────────────────────────────┴→ Profile of a step

`docs/arm.md` says what is counted, what is modelled and what is assumed.
"""
