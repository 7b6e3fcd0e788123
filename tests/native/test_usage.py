"""Calls of the native runtime that nobody should make: of a trainer that is not open, or with NULL."""

import ctypes as c

from odtc.runtime_rpc.native.interface import Code, Options, Tensor, loaded_runtime


def test_a_trainer_that_was_not_opened_does_nothing() -> None:
    library, handle, number, tensor = loaded_runtime(), c.c_void_p(), c.c_double(), Tensor()
    options = Options(b"nowhere", b"nowhere", b"nowhere", None, 0)
    assert library.odtc_open(c.byref(options), c.byref(handle)) == Code.NO_FILE
    assert library.odtc_message(handle).startswith(b"nowhere cannot be read")
    refusals = [
        library.odtc_step(handle, 0.1, c.byref(number)),
        library.odtc_evaluate(handle, None, 0, c.byref(tensor)),
        library.odtc_set_budget(handle, 1),
        library.odtc_set_threads(handle, 1),
        library.odtc_save(handle, b"nowhere"),
        library.odtc_load(handle, b"nowhere"),
    ]
    assert refusals == [Code.USAGE] * len(refusals)
    assert library.odtc_message(handle) == b"the trainer was not opened"
    assert not library.odtc_tensor_at(handle, 0)
    assert (library.odtc_steps(handle), library.odtc_arena_bytes(handle)) == (0, 0)
    assert library.odtc_fact(handle, b"odtc") is None
    library.odtc_cancel(handle, 0)
    library.odtc_close(handle)
    library.odtc_close(None)
