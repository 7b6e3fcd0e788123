"""Calls of the native runtime that nobody should make: of no open trainer, or with NULL."""

import ctypes as c
from pathlib import Path

import odtc
from odtc.runtime_rpc.native.interface import Code, Options, Tensor, TimedCall, loaded_runtime
from tests.native.parity import TARGET, native_trainer
from tests.numeric.mlp import mlp_artifact


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


def test_what_is_needed_and_null(tmp_path: Path) -> None:
    library, number, place = loaded_runtime(), c.c_size_t(), c.c_void_p()
    timed = c.POINTER(TimedCall)()
    with native_trainer(mlp_artifact(tmp_path, odtc.SGD(), target=TARGET), tmp_path / "a") as it:
        handle = it.handle
        calls = {
            "a path": [
                lambda: library.odtc_save(handle, None),
                lambda: library.odtc_load(handle, None),
            ],
            "a tensor for the result": [
                lambda: library.odtc_evaluate(handle, None, 0, None),
                lambda: library.odtc_evaluate_samples(handle, None, 0, 1, None),
                lambda: library.odtc_evaluate_part(handle, None, 0, None),
            ],
            "a checkpoint": [lambda: library.odtc_load_bytes(handle, None, 4)],
            "a place for the bytes": [lambda: library.odtc_save_bytes(handle, None, number)],
            "a place for the calls": [lambda: library.odtc_stop_clock(handle, None, number)],
            "a place for their number": [
                lambda: library.odtc_save_bytes(handle, place, None),
                lambda: library.odtc_stop_clock(handle, c.byref(timed), None),
            ],
        }
        for what, each in calls.items():
            for call in each:
                assert call() == Code.USAGE
                assert library.odtc_message(handle).decode() == f"{what} is needed, and was NULL"
        assert library.odtc_load_bytes(handle, None, 0) == Code.DAMAGED
        assert library.odtc_fact(handle, None) is None
        # The interface in Python looks tensors up by their numbers.
        find = library.odtc_find
        find.argtypes, find.restype = [c.c_void_p, c.c_char_p], c.POINTER(Tensor)
        assert find(handle, b"x")
        assert not find(handle, None)


def test_opening_with_nothing() -> None:
    library, handle = loaded_runtime(), c.c_void_p()
    assert library.odtc_open(None, c.byref(handle)) == Code.USAGE
    assert library.odtc_message(handle) == b"paths of program and weights are needed"
    library.odtc_close(handle)
    assert library.odtc_open(c.byref(Options()), None) == Code.USAGE
