"""What the process that trackers are forked from imports, once; see `own_tracker`."""

from importlib import import_module

from odtc.core.process.without_torch import leave_out_torch

leave_out_torch()
import_module("odtc.runtime_rpc.tracker.guarded_tracker")
