"""`python -m tests.sharing.chaos`: run it, print the figures, and end with 1 if anything is wrong."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from tests.sharing.chaos.run import Chosen, run
from tests.sharing.chaos.trouble import KINDS, kinds_of


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.sharing.chaos", description=__doc__, epilog=f"Kinds of faults, for --only: {', '.join(KINDS)}."
    )
    for name, value in vars(Chosen()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--keep", type=Path, help="where data and logs of the members are kept")
    parser.add_argument("--verbose", action="store_true")
    arguments = vars(parser.parse_args())
    try:
        kinds_of(arguments["only"])
    except ValueError as error:
        parser.error(str(error))
    keep, verbose = arguments.pop("keep"), arguments.pop("verbose")
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(message)s")
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(run(keep or Path(folder), Chosen(**arguments)))
    sys.stdout.write(f"{result}\n")
    return bool(result.wrong)


if __name__ == "__main__":
    sys.exit(main())
