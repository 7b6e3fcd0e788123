"""One `odtc plan`, in a process of its own.

Called with the path of a model, a batch, a loss, whether the inner loops are Python's, and when it
was started, in seconds of the clock. Prints the seconds of each stage, of the clock and of the
processor, and how many budgets were found, as JSON.
"""

import json
import os
import sys
from dataclasses import asdict

from benchmarks.compile_time.worker import Stages

# Lines of the table that `odtc plan` prints.
_LINES = 16


def main() -> None:
    """Plans."""
    model, batch, loss, in_python, started = sys.argv[1:]
    stages = Stages(float(started))
    from odtc.core.process.without_torch import leave_out_torch

    # As the command does.
    leave_out_torch()
    if in_python == "True":
        from odtc.passes.native import library

        library.library = lambda: None
    from odtc.driver.entry_points import plan_model

    found = plan_model(model, batch=int(batch), loss=loss, count=_LINES, progress=stages.begin)
    stages.begin("")
    said = {name: value for name, value in asdict(stages).items() if name[0] != "_"}
    print(json.dumps(said | {"budgets": len(found.points)}))
    sys.stdout.flush()
    # Nothing that comes after it is part of planning.
    os._exit(0)


if __name__ == "__main__":
    main()
