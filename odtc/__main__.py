"""`python -m odtc` is the `odtc` command."""

import sys

from odtc.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
