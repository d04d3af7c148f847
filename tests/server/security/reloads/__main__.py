"""`python -m tests.server.security.reloads`: run it, print the figures, and end with 1 if anything is wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import anyio

from tests.server.security.reloads.run import Chosen, run


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.server.security.reloads", description=__doc__)
    for name, value in vars(Chosen()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    chosen = Chosen(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as folder:
        result = anyio.run(run, Path(folder), chosen, backend_options={"use_uvloop": True})
    sys.stdout.write(f"{result}\n")
    return bool(result.wrong)


if __name__ == "__main__":
    sys.exit(main())
