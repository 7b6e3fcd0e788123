"""The table of all files in docs/results: what writes each, and about how long that takes."""

import enum
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.pages.picture import README_ROWS
from odtc.comparison.measures.measure import core_count


class Kind(enum.Enum):
    """What a file of docs/results is, and how its commands are told where to write."""

    FIGURES = "--figures"
    """Figures of a table: JSON."""
    SUITE = "-o"
    """Rows of `odtc bench`, whose runs are told in comparison/suites.json."""


@dataclass(frozen=True)
class Row:
    """A file of docs/results.

    Attributes:
        name: of the file in docs/results, without its suffix.
        commands: that write it, as the pages tell them, without the option that names the file.
            Those of a suite add to one file; of figures each has its own, and they become one.
        minutes: about how long they take in all, on two idle cores.
        by_hand: why no command here writes it; empty where `commands` do.
        is_timed: whether the machine must do nothing else.
        kind: of the file.
    """

    name: str
    commands: Sequence[str] = ()
    minutes: float = 0
    by_hand: str = ""
    is_timed: bool = True
    kind: Kind = Kind.FIGURES

    @property
    def file(self) -> str:
        """Its path in docs/results."""
        return f"{self.name}.{'jsonl' if self.kind is Kind.SUITE else 'json'}"

    @property
    def is_of_readme(self) -> bool:
        """Whether README.md shows it."""
        return self.name == README_ROWS


# Threads of a comparison, as far as a machine has cores for them.
_THREADS = (1, 2, 4, 8)


def threads(cores: int) -> list[int]:
    """Those that a comparison is measured with on a machine of that many cores."""
    return [each for each in _THREADS if each <= cores]


def words_of(command: str, python: str, cores: int | None = None) -> list[str]:
    """A command of the table as a process is started with.

    Args:
        command: its words; `THREADS` is what a comparison is measured with, joined by commas,
            `EACH_THREADS` the same as words of their own, and `MOST_THREADS` the last of them.
        python: the program that runs it.
        cores: of the machine (default: those that this process may use).
    """
    numbers = [*map(str, threads(cores or core_count()))]
    words = shlex.split(spelled(command, numbers))
    return [python, *(words[1:] if words[0] == "python" else ["-m", *words])]


def spelled(command: str, numbers: Sequence[str] | None = None) -> str:
    """A command with the threads of this machine."""
    numbers = numbers or [*map(str, threads(core_count()))]
    command = command.replace("MOST_THREADS", numbers[-1])
    command = command.replace("EACH_THREADS", " ".join(numbers))
    return command.replace("THREADS", ",".join(numbers))


def _suite(name: str, minutes: float, *options: str, threads: str = "THREADS") -> Row:
    commands = [f"odtc bench --suite {each} --threads {threads} --rounds 3" for each in options]
    return Row(name, commands, minutes, kind=Kind.SUITE)


def _budgets(name: str, minutes: float, rest: str, *chosen: str) -> Row:
    commands = [f"python -m benchmarks.budget --networks {each} {rest}" for each in chosen]
    return Row(name, commands, minutes)


def _bench(name: str, minutes: float, words: str, *, is_timed: bool = True) -> Row:
    return Row(name, [f"python -m {words}"], minutes, is_timed=is_timed)


def _by_hand(why: str, *names: str) -> list[Row]:
    return [Row(name, by_hand=why) for name in names]


_PEERS = "--with onnxruntime-training,pytorch,mnn"
_SPLIT = "--batch 64 --shares none --allow-split-batchnorm --runs 1"

ROWS: Sequence[Row] = (
    _suite(README_ROWS, 30, "readme --steps 3 --with onnxruntime-training,pytorch", threads="1"),
    _suite("tx2", 170, "tx2 --batch 1,4 --steps 3"),
    _suite("zoo", 110, f"zoo --steps 3 --roofline {_PEERS}"),
    _bench("performance/demo", 2, "benchmarks.demo"),
    _bench(
        "performance/step_time",
        40,
        "benchmarks.step_time --engines PyTorch,onnxruntime-training --threads THREADS --steps 9",
    ),
    _bench("performance/compile_time", 20, "benchmarks.compile_time"),
    _bench("performance/plan_time", 15, "benchmarks.plan_time --batches 8"),
    _bench("memory/networks", 40, "benchmarks.memory", is_timed=False),
    _bench("memory/speed", 20, "benchmarks.memory.speed"),
    _bench("native_runtime/steps", 5, "benchmarks.native_runtime --threads EACH_THREADS"),
    _bench("native_runtime/same_bits", 40, "tests.native.same_bits", is_timed=False),
    _suite("tx2_64", 110, "tx2 --batch 64 --steps 1 --budget 4GB", threads="MOST_THREADS"),
    _suite(
        "emdl21",
        50,
        "emdl21 --models alexnet,mobilenet_v2,googlenet --batch 1,4,16 --steps 5 --roofline "
        f"{_PEERS}",
        f"emdl21 --models lenet,squeezenet --batch 16 --steps 5 --roofline {_PEERS}",
    ),
    _suite(
        "emdl21_tvm",
        10,
        f"emdl21 --models lenet,squeezenet --batch 1,4 --steps 5 --roofline {_PEERS},tvm",
    ),
    _suite("emdl21_lenet", 10, f"emdl21 --models lenet --batch 1,4,16 --steps 40 {_PEERS},tvm"),
    _budgets(
        "budgets/batch_8",
        60,
        "--batch 8 --peers PyTorch --steps 4 --runs 1",
        "mobilenet_v2 --shares 0.6",
        "mobilenet_v2_frozen_norms --shares 0.8,0.4",
        "unet --shares 0.6,0.4",
        "resnet50 --shares 0.65,0.58,0.25",
        "densenet121 --shares 0.75",
        "vgg16 --shares 0.69",
        "bert_base --shares 0.5,0.17",
    ),
    _budgets(
        "budgets/batch_64",
        40,
        f"{_SPLIT} --peers onnxruntime-training --steps 1",
        "squeezenet --totals 80MB",
        "mobilenet_v2 --totals 250MB",
        "densenet40_12 --totals 40MB",
    ),
    _budgets(
        "budgets/two_gib",
        40,
        f"{_SPLIT} --totals 2GiB --only-budgets",
        "vgg19,densenet100_12,seq2seq,bert_base,resnet101,resnet152",
    ),
    _bench("budgets/least", 3, "benchmarks.budget.least", is_timed=False),
    _bench("budgets/recomputation", 60, "benchmarks.recomputation", is_timed=False),
    _bench("budgets/switching", 10, "benchmarks.budget.switching"),
    _bench("budgets/clearing", 1, "benchmarks.budget.clearing"),
    Row(
        "language_models/steps",
        [
            "python -m benchmarks.language_models --turns 3 --tokens 256",
            "python -m benchmarks.language_models --turns 3 --models smollm2_135m --tokens 128,512",
        ],
        140,
    ),
    _bench("language_models/learning", 30, "benchmarks.language_models.learning", is_timed=False),
    _bench("howto/app_size", 2, "benchmarks.app_size", is_timed=False),
    _bench("howto/check_cost", 5, "benchmarks.check_cost"),
    _bench("howto/features", 15, "benchmarks.features"),
    _bench("howto/training_data", 15, "benchmarks.training_data"),
    _bench("metrics/sampling", 5, "benchmarks.sampling_cost"),
    *_by_hand(
        "needs a Zen 4: `python -m benchmarks.language_models` there, and its figures",
        "language_models/zen4",
    ),
    *_by_hand(
        "needs a Zen 4: `python -m benchmarks.step_time` there, and its figures",
        "performance/zen4",
    ),
    Row(
        "readme_zen4",
        by_hand="needs a Zen 4: `odtc bench --suite readme` there, as for README",
        kind=Kind.SUITE,
    ),
    *_by_hand(
        "needs eight cores: `python -m benchmarks.cores.run FOLDER` there, and its figures",
        "performance/cores",
    ),
    *_by_hand(
        "needs a GPU: `python -m benchmarks.gpu.run steps` there, then `benchmarks.gpu.figures`",
        "performance/gpu_steps",
        "performance/gpu_mixed",
        "performance/gpu_families",
    ),
    *_by_hand(
        "needs a GPU: `python -m benchmarks.gpu.tuning.run kernels` there, and its figures",
        "performance/gpu_tuning",
    ),
    *_by_hand(
        "needs a GPU: `python -m benchmarks.gpu.language_models.run steps` there, and its figures",
        "language_models/gpu",
    ),
    *_by_hand(
        "needs a GPU: `python -m benchmarks.gpu.layouts run FOLDER` there",
        "gpu_layouts_opencl",
        "gpu_layouts_vulkan",
    ),
    *_by_hand(
        "counted under emulation for hours: `python -m benchmarks.arm --json FILE`",
        "arm/networks",
    ),
    *_by_hand("typed: of two commits, side by side", "arm/changes"),
    _bench("arm/codes", 20, "benchmarks.arm.codes", is_timed=False),
    Row(
        "emdl21_values",
        by_hand="values under emulation, no times: `python -m benchmarks.suites.values --device "
        "URL`, of the stand-in",
        kind=Kind.SUITE,
    ),
    *_by_hand(
        "typed: sentences of `python -m benchmarks.layouts`, not a table that it writes",
        "performance/layouts",
    ),
    *_by_hand("typed: an older program beside a newer", "performance/plan_loops"),
    *_by_hand("typed: `odtc tune` for hours, also on a GPU", "performance/tuning"),
    *_by_hand("typed: computed from profiles", "budgets/measured_times"),
    *_by_hand("typed: two systems side by side", "budgets/huge_pages"),
    *_by_hand("typed: `python -m tests.kills --kills 240`", "reliability/kills"),
    *_by_hand(
        "typed: `python -m pytest -m slow tests/runtime_rpc/test_hostile_peers.py`",
        "reliability/attack",
    ),
    *_by_hand("hashes, no figures: `python -m benchmarks.same_steps`", "steps"),
    *_by_hand("outcomes, with its page: `make published`", "published"),
    *_by_hand("outcomes, with its page: `python -m tests.ways_in`", "ways_in"),
)
