"""`evermq` in an altered world: `python -m tests.durability.altered CLOCK PAGES run ...`.

CLOCK is how far its wall clock is off, in seconds. PAGES is how many pages its database may have, 0 for any number;
what needs more finds the disk full (SQLITE_FULL).
"""

from __future__ import annotations

import sqlite3
import sys
from typing import Any
from unittest.mock import patch

from broker import Clock
from broker.cli import main

_time, _connect = Clock.time, sqlite3.connect


def _alter(clock: float, pages: int) -> None:
    def limited(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = _connect(*arguments, **options)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    patch.object(Clock, "time", staticmethod(lambda: _time() + clock)).start()
    if pages:
        patch.object(sqlite3, "connect", limited).start()


if __name__ == "__main__":
    _alter(float(sys.argv[1]), int(sys.argv[2]))
    main(sys.argv[3:])
