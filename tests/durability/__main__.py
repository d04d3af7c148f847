"""`python -m tests.durability`: break everything, check every promise, and write the page that reports it."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from tests.durability import clocks, full, injection, suspension, torn
from tests.durability.kills import Kills, kill_under_load
from tests.durability.outcome import Outcome, UnavailableError
from tests.durability.report import Results, page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_KILLS_A_SEED: Final = 25
_TEARS: Final = 100

_SCENARIOS: Final[dict[str, Callable[[Path], Awaitable[Outcome]]]] = {
    "database full": full.database_full,
    "disk full": full.disk_full,
    "disk filled by another program": full.disk_filled_by_another,
    **{str(each): partial(injection.failing, injection=each, seed=1) for each in injection.FATAL},
    str(injection.NO_ROOM): partial(injection.refusing, seed=1),
    "error while quiescing": injection.failing_while_quiescing,
    "syncs counted": injection.synced,
    "error at the first start": partial(injection.failing_start, injection=injection.FATAL[1]),
    "log torn": partial(torn.torn, seed=1, cuts=_TEARS),
    "daemon suspended for a moment": partial(suspension.short, seed=1),
    "daemon suspended for long": partial(suspension.long, seed=1),
    "client suspended": suspension.client,
    "clock set": clocks.stepped,
}


def main() -> None:
    """Run everything, the simulation first."""
    parser = argparse.ArgumentParser("python -m tests.durability", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how often a daemon is killed under load")
    parser.add_argument("--first-seed", type=int, default=1, help=f"of the kills, {_KILLS_A_SEED} a seed")
    parser.add_argument("--seeds", type=int, default=1000, help="of the simulation; 0 leaves it out")
    parser.add_argument("--out", type=Path, help="the page to write; without it, the standard output")
    chosen = parser.parse_args()
    began = monotonic()
    results = Results(shlex.join(["python", "-m", "tests.durability", *sys.argv[1:]]), Kills())
    if chosen.seeds:
        from tests import simulation

        _say(f"simulation of {chosen.seeds} seeds")
        results.simulation = simulation.run(chosen.seeds)
    asyncio.run(_break_everything(results, chosen.kills, chosen.first_seed))
    text = page(results, datetime.now(UTC), monotonic() - began)
    if chosen.out is None:
        print(text)  # noqa: T201  # whoever started it reads this
    else:
        chosen.out.write_text(text, "utf-8")


async def _break_everything(results: Results, kills: int, seed: int) -> None:
    for name, scenario in _SCENARIOS.items():
        _say(name)
        with tempfile.TemporaryDirectory() as folder:
            try:
                results.outcomes.append(await scenario(Path(folder)))
            except UnavailableError as why:
                results.not_run.append(Outcome(name, str(why)))
    while kills > 0:
        _say(f"seed {seed}: {min(kills, _KILLS_A_SEED)} of {kills} kills")
        with tempfile.TemporaryDirectory() as folder:
            results.kills += await kill_under_load(
                Path(folder), seed, min(kills, _KILLS_A_SEED), clock_steps=seed % 2 == 0
            )
        kills -= _KILLS_A_SEED
        seed += 1


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)  # noqa: T201  # whoever started it reads this


if __name__ == "__main__":
    main()
