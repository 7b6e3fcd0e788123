"""Marks on a kernel whose code may be kept: see `backends/objects/outlines.py`."""

# A hash of all that it is made from.
MADE_FROM = "odtc.made_from"
# Bytes of its workspace, by the most threads that run it.
WORKSPACES = "odtc.workspaces"
# Places of the operands that its result may lie over, and of the one that it does.
REPLACEABLE = "odtc.replaceable"
WRITTEN_OVER = "odtc.written_over"
# Of a kernel that is an outline: its code is kept, and nothing of it is in the module.
OUTLINE = "odtc.outline"
