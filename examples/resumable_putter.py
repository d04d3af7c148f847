"""Puts the lines of a file as one message group, three to a unit of work. Killed at any moment, it goes on when it is
run again: no line is missing from the group, none is in it twice.

Start the daemon with `evermq run`, then run `python examples/resumable_putter.py FILE [URL]`, kill it, and run it
again. `examples/resumable_getter.py` gets the group, at the same time or later. Without a URL it takes that of the
variable EVERMQ_URL, and without that the daemon's default.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import broker
from broker.groups import GroupPutter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DEFAULT_URL = "mq://127.0.0.1:1414"


def with_last(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is the last one."""
    ahead = iter(lines)
    line = next(ahead, None)
    while line is not None:
        following = next(ahead, None)
        yield line, following is None
        line = following


async def main(lines: Iterable[str], url: str) -> None:
    """Put the lines that are not on the queue yet."""
    async with broker.connect(url, appl_name="resumable putter") as connection:
        await connection.mqsc("DEFINE QLOCAL(LINES)\nDEFINE QLOCAL(LINES.PUT)")  # fails harmlessly when they are there

        # LINES.PUT holds how far the group has come: each unit of work replaces that together with its lines.
        async with GroupPutter(connection, "LINES", "LINES.PUT", messages_per_unit=3) as putter:
            print(f"goes on behind line {putter.resumed_at}")
            for number, (line, last) in enumerate(with_last(lines), 1):
                if number > putter.resumed_at:
                    await putter.put(line.rstrip("\n"), last=last)
                    print(f"put line {number}")

    # Killed after the last unit of work, it would put another group: a file does not remember that it was read. What
    # comes from a queue does: got under syncpoint on the same connection, it is gone with the unit that it went into.


if __name__ == "__main__":
    with Path(sys.argv[1]).open(encoding="utf-8") as file:
        asyncio.run(main(file, sys.argv[2] if len(sys.argv) > 2 else os.environ.get("EVERMQ_URL", DEFAULT_URL)))
