"""Runs attacks and prints a table of what was seen, without judging: `python -m tests.hostile [NAME ...]`.

A name is a part of that of an attack. `--larger` runs the larger versions.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from broker.benchmarks.child import MeasurementError
from tests.hostile.families import FAMILIES, LARGER
from tests.hostile.verdict import judged

if TYPE_CHECKING:
    from tests.hostile.scene import Attack


async def _row(attack: Attack) -> list[str]:
    title = attack.title.format(count=f"{attack.count:,}")
    with tempfile.TemporaryDirectory(prefix="evermq-hostile-") as folder:
        try:
            verdict = await judged(attack, Path(folder))
        except (MeasurementError, AssertionError) as error:
            return [title, "", "", f"no: {_line(str(error))}"]
    seen = verdict.seen
    passes = f"no: {_line('; '.join(verdict.faults))}" if verdict.faults else "yes"
    return [title, f"{seen.worst_ms:,.0f}", f"{seen.peak_mib:.0f}", passes]


def _line(text: str) -> str:
    return " ".join(text.split())[:300].replace("|", "/")


async def _main() -> None:
    parser = argparse.ArgumentParser(description="Run attacks and print what was seen.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--larger", action="store_true")
    given = parser.parse_args()
    families = {"larger": LARGER} if given.larger else FAMILIES
    sys.stdout.write("| | worst ms | peak MiB | passes |\n| --- | ---: | ---: | --- |\n")
    for attack in (each for family in families.values() for each in family):
        if not given.names or any(name in attack.name for name in given.names):
            sys.stdout.write(f"| {' | '.join(await _row(attack))} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main())
