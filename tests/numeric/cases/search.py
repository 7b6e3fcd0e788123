"""The largest and smallest elements, and where they are."""

from tests.numeric.conftest import ints, text_model

TOP = "v, i = TopK <{}> (h, k) f = Cast <to = 1> (i) g = Mul (v, f) y = Add (g, v)"
PLACE = "i = {} <axis = 1, select_last_index = {}> (h) f = Cast <to = 1> (i) y = Mul (f, h)"

CASES = {
    "ArgMax": text_model(PLACE.format("ArgMax", 0), (3, 4, 5)),
    "ArgMax-last": text_model(PLACE.format("ArgMax", 1), (3, 4, 5)),
    "ArgMin": text_model(PLACE.format("ArgMin", 0), (3, 4, 5)),
    "TopK": text_model(TOP.format("axis = -1"), (3, 4, 7), constants={"k": ints(3)}),
    "TopK-smallest": text_model(
        TOP.format("axis = 1, largest = 0"), (3, 6, 5), constants={"k": ints(2)}
    ),
    "TopK-all": text_model(TOP.format("axis = 1"), (3, 6), constants={"k": ints(6)}),
}
