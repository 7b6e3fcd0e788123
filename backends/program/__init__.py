"""A compiled step as data: what it calls, with what, in which order.

planned module ─straight_line→ Line of each function ─┐
manifest       ───────────────────────────────────────┴─program→ Program ─write→ program.bin

`docs/program.md` has its bytes. What runs it is `runtime_rpc/native/runtime/`, without TVM.
"""
