"""Trackers of devices: TVM's, with bounds; and how to talk to one."""
