"""Runs on devices: those that outlive them, and those that go on on another one."""
