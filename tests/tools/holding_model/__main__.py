"""Run schedules with all guards, then with each taken out."""

from __future__ import annotations

import sys

from tests.tools.holding_model.guards import NAMES, SECOND_LINES, Guards
from tests.tools.holding_model.world import explore, explore_behind

SEARCHED = 20_000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print(f"all guards, {count} schedules: {explore(Guards(), 0, count) or 'nothing wrong'}", flush=True)  # noqa: T201
    for name in NAMES:
        print(f"without {name:24} {explore(Guards().without(name), 0, SEARCHED) or 'NOT FOUND'}", flush=True)  # noqa: T201
    for name, before in SECOND_LINES.items():
        found = explore_behind(name, before, 0, SEARCHED) or "NOT FOUND"
        print(f"without {f'{name}, behind {before}':24} {found}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
