"""Run schedules with all guards, then with each taken out."""

from __future__ import annotations

import sys

from tests.tools.transactions_model.guards import NAMES, Guards
from tests.tools.transactions_model.world import explore

SEARCHED = 100_000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print(f"all guards, {count} schedules: {explore(Guards(), 0, count) or 'nothing wrong'}", flush=True)  # noqa: T201
    for name in NAMES:
        print(f"without {name:16} {explore(Guards().without(name), 0, SEARCHED) or 'NOT FOUND'}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
