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

from tests.durability import clocks, damage, full, injection, suspension, torn, writeback
from tests.durability.cuts import cut_under_load, without_syncs
from tests.durability.faults import fail_once
from tests.durability.kills import Kills, kill_under_load
from tests.durability.outcome import Outcome, UnavailableError
from tests.durability.report import Results, page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_KILLS_A_SEED: Final = 25
_CUTS_A_SEED: Final = 25
_FAULTS_A_SEED: Final = 15
_TEARS: Final = 100
_CONTROLS: Final = 10
_MOMENTS: Final = range(1, 7)

_SCENARIOS: Final[dict[str, Callable[[Path], Awaitable[Outcome]]]] = {
    "database full": full.database_full,
    "disk full": full.disk_full,
    "disk filled by another program": full.disk_filled_by_another,
    "got one by one on a full disk": partial(full.got_one_by_one, messages=100_000),
    **{str(each): partial(injection.failing, injection=each, seed=1) for each in injection.FATAL},
    str(injection.NO_ROOM): partial(injection.refusing, seed=1),
    "error while quiescing": injection.failing_while_quiescing,
    "syncs counted": injection.synced,
    "error at the first start": partial(injection.failing_start, injection=injection.FATAL[1]),
    "log torn": partial(torn.torn, seed=1, cuts=_TEARS),
    "carry-over that fails, power cut": partial(writeback.carry_over_failing, seeds=_MOMENTS, orderly=False),
    "carry-over that fails, orderly stop": partial(writeback.carry_over_failing, seeds=_MOMENTS, orderly=True),
    "log that fails": partial(writeback.log_failing, seeds=_MOMENTS, direct=True),
    "log that fails, through the page cache": partial(writeback.log_failing, seeds=_MOMENTS, direct=False),
    "no syncs": partial(without_syncs, seed=1, cuts=_CONTROLS),
    "daemon suspended for a moment": partial(suspension.short, seed=1),
    "daemon suspended for long": partial(suspension.long, seed=1),
    "client suspended": suspension.client,
    "clock set": clocks.stepped,
}


def main() -> None:
    """Run everything, the simulation first."""
    parser = argparse.ArgumentParser("python -m tests.durability", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how often a daemon is killed under load")
    parser.add_argument("--cuts", type=int, default=100, help="how often its power is cut")
    parser.add_argument("--faults", type=int, default=60, help="how often its device fails, once each time")
    parser.add_argument("--places", type=int, default=1000, help="of each file that are changed, and cut off")
    parser.add_argument(
        "--first-seed",
        type=int,
        default=1,
        help=f"of the kills, {_KILLS_A_SEED} a seed, the cuts, {_CUTS_A_SEED}, and the faults, {_FAULTS_A_SEED}",
    )
    parser.add_argument("--seeds", type=int, default=1000, help="of the simulation; 0 leaves it out")
    parser.add_argument("--schedules", type=int, default=10_000, help="of the simulated disk; 0 leaves it out")
    parser.add_argument("--out", type=Path, help="the page to write; without it, the standard output")
    chosen = parser.parse_args()
    began = monotonic()
    results = Results(shlex.join(["python", "-m", "tests.durability", *sys.argv[1:]]), Kills())
    if chosen.seeds:
        from tests import simulation

        _say(f"simulation of {chosen.seeds} seeds")
        results.simulation = simulation.run(chosen.seeds)
    if chosen.schedules:
        _say(f"simulated disk: {chosen.schedules} schedules")
        results.schedules = _scheduled(chosen.schedules)
    asyncio.run(_break_everything(results, chosen))
    text = page(results, datetime.now(UTC), monotonic() - began)
    if chosen.out is None:
        print(text)  # noqa: T201  # whoever started it reads this
    else:
        chosen.out.write_text(text, "utf-8")


def _scheduled(schedules: int) -> dict[str, int]:
    """The figures of so many schedules on the simulated disk."""
    from tests.disk.runs import run_seeds

    ran = run_seeds(range(schedules))
    assert not ran.found, f"python -m tests.disk: {ran.found[:5]}"
    return {"schedules": ran.schedules, **ran.figures}


async def _break_everything(results: Results, chosen: argparse.Namespace) -> None:
    scenarios = dict(_SCENARIOS)
    if chosen.places:
        scenarios |= {
            f"bytes changed, {state}": partial(damage.damaged, state=state, seed=1, places=chosen.places)
            for state in damage.STATES
        }
    for name, scenario in scenarios.items():
        _say(name)
        with tempfile.TemporaryDirectory() as folder:
            try:
                results.outcomes.append(await scenario(Path(folder)))
            except UnavailableError as why:
                results.not_run.append(Outcome(name, str(why)))
    await _again_and_again(results, "power cuts", chosen.cuts, _CUTS_A_SEED, partial(_cut, results, chosen.first_seed))
    await _again_and_again(results, "faults", chosen.faults, _FAULTS_A_SEED, partial(_fail, results, chosen.first_seed))
    await _again_and_again(results, "kills", chosen.kills, _KILLS_A_SEED, partial(_kill, results, chosen.first_seed))


async def _again_and_again(
    results: Results, what: str, times: int, times_a_seed: int, some: Callable[[Path, int, int], Awaitable[None]]
) -> None:
    """Have `some` done in a folder, so many times a seed."""
    for number, done in enumerate(range(0, times, times_a_seed)):
        _say(f"{what} {done + 1} to {min(done + times_a_seed, times)} of {times}")
        with tempfile.TemporaryDirectory() as folder:
            try:
                await some(Path(folder), number, min(times_a_seed, times - done))
            except UnavailableError as why:
                results.not_run.append(Outcome(what, str(why)))
                return


async def _cut(results: Results, first: int, folder: Path, number: int, times: int) -> None:
    results.cuts += await cut_under_load(folder, first + number, times)


async def _fail(results: Results, first: int, folder: Path, number: int, times: int) -> None:
    results.faults += await fail_once(folder, first + number, times)


async def _kill(results: Results, first: int, folder: Path, number: int, times: int) -> None:
    seed = first + number
    results.kills += await kill_under_load(folder, seed, times, clock_steps=seed % 2 == 0)


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)  # noqa: T201  # whoever started it reads this


if __name__ == "__main__":
    main()
