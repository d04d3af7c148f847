"""`python -m tests.security.attack`: run it, print the report, and end with 1 if anything is wrong.

`--only half-open,spray` leaves the other attacks out; times are reported and do not count as wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.security.attack.run import Chosen, run


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.security.attack", description=__doc__)
    for name, value in vars(Chosen()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--keep", type=Path, help="where the log and the times of all calls are kept")
    arguments = vars(parser.parse_args())
    keep = arguments.pop("keep")
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(run(keep or Path(folder), Chosen(**arguments)))
    sys.stdout.write(f"{report}\n")
    return bool(report.wrong)


if __name__ == "__main__":
    sys.exit(main())
