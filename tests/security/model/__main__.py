"""`python -m tests.security.model`: explore all systems, with their guards and without each; end with 1 if anything is
other than it must be.
"""

from __future__ import annotations

import sys

from tests.security.model import groups, logins
from tests.security.model.explorer import explore


def main() -> int:
    failed = False
    for name, system in {**groups.SYSTEMS, **logins.SYSTEMS}.items():
        found = explore(system)
        failed = failed or bool(found.wrong)
        sys.stdout.write(f"{name}: {found.states:,} states, {found.wrong or 'nothing wrong'}\n")
        for guard, rule in system.guards.items():
            missed = explore(system, without=guard)
            failed = failed or not missed.wrong
            sys.stdout.write(f"    without {rule}, {guard}: {missed.wrong or 'NOTHING WRONG'}\n")
            sys.stdout.write("".join(f"        {step}\n" for step in missed.way))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
