"""A launch waits for those that it depends on, and for no other.

Lavapipe computes one launch after the other, so that no value shows a barrier that is missing.
"""

from tests.native.vulkan.other_device import on_shim, printed

# Name, what is recorded, and launches: which buffer each reads and writes, and which half of these.
CASES = (
    ("reads what was written", "bdbd", ("a0 b0", "b0 c0")),
    ("writes what was read", "bdbd", ("a0 b0", "c0 a0")),
    ("writes what was written", "bdbd", ("a0 c0", "b0 c0")),
    ("reads what is read", "bdd", ("a0 b0", "a0 c0")),
    ("other buffers", "bdd", ("a0 b0", "c0 d0")),
    ("the other half of a buffer", "bdd", ("a0 b0", "a0 b1")),
    ("both halves of one", "bdd", ("a0 a1", "b0 b1")),
    ("a half again", "bddbd", ("a0 b0", "a0 b1", "b1 c0")),
    ("what was waited for is done", "bdbdd", ("a0 b0", "b0 c0", "b0 d0")),
)
CODE = """
cases = [case.split(",") for case in sys.argv[1:]]
with Device() as gpu:
    gpu.load(SCALE)
    buffers = {name: gpu.buffer(np.zeros(2 * GROUP, "int32")) for name in "abcd"}
    for case in cases:
        launches = []
        for launch in case:
            names, halves = zip(*launch.split())
            places = [GROUP * int(half) for half in halves]
            ranges = tuple((4 * place, 4 * GROUP) for place in places)
            used = tuple(buffers[name] for name in names)
            launches.append(Launch(0, used, (1, *places), (1, 1, 1), ranges))
        gpu.prepare(launches)
        print(file=sys.stderr, flush=True)
"""


def test_launches_wait_for_what_they_depend_on_alone() -> None:
    given = (",".join(launches) for _, _, launches in CASES)
    output = printed(CODE, *given, RECORDED="1", **on_shim())
    found = dict(zip((name for name, _, _ in CASES), output.splitlines(), strict=True))
    assert found == {name: recorded for name, recorded, _ in CASES}
