"""Gradient rules that TVM lacks or has wrong, one table; `register_gradients` adds them to TVM."""
