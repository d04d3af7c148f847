"""Chaos in a group, and that its judge sees what must not be."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sharing.chaos.ledger import Key, Ledger, Outcome, Put
from tests.sharing.chaos.run import Chosen, run
from tests.sharing.chaos.statements import name_of

if TYPE_CHECKING:
    from tests.sharing.database import GroupDatabase

FIRST, SECOND, THIRD = (Key("C1", 1, number, 5) for number in range(3))
MARK = ("C1", 1)


def ledger(outcome: Outcome = Outcome.COMMITTED, *, mixed: bool = False) -> Ledger:
    """A producer has put three messages in one unit of work, of whose end it was told so."""
    ledger = Ledger()
    ledger.put(Put([FIRST, SECOND, THIRD], "QM1", mixed, outcome))
    return ledger


def wrong(ledger: Ledger, *there: Key, out: tuple[Key, ...] = (), marks: int = 0) -> list[str]:
    """The first word of each complaint about what is there."""
    complaints = ledger.judge({"IN": list(there), "OUT": list(out)}, {"QM1": [MARK] * marks})
    return sorted(complaint.split()[0].rstrip(":") for complaint in complaints)


def test_the_judge_is_content_with_what_may_be() -> None:
    assert wrong(ledger(), FIRST, SECOND, THIRD) == []
    assert wrong(ledger(), SECOND, THIRD, out=(FIRST,)) == []
    assert wrong(ledger(Outcome.UNKNOWN), FIRST, SECOND, THIRD) == []
    assert wrong(ledger(Outcome.UNKNOWN)) == []
    assert wrong(ledger(Outcome.BACKED_OUT)) == []
    assert wrong(ledger(mixed=True), FIRST, SECOND, THIRD, marks=1) == []
    consumed = ledger()
    consumed.consume(FIRST, Outcome.COMMITTED)
    consumed.consume(SECOND, Outcome.UNKNOWN)
    assert wrong(consumed, THIRD) == []


def test_the_judge_misses_what_was_acknowledged() -> None:
    assert wrong(ledger()) == ["lost"]
    assert wrong(ledger(), FIRST, THIRD) == ["lost", "torn"]


def test_the_judge_sees_half_a_unit_of_work() -> None:
    assert wrong(ledger(Outcome.UNKNOWN), FIRST, SECOND) == ["torn"]
    assert wrong(ledger(Outcome.UNKNOWN, mixed=True), FIRST, SECOND, THIRD) == ["torn"]
    assert wrong(ledger(Outcome.UNKNOWN, mixed=True), marks=1) == ["torn"]


def test_the_judge_sees_what_was_backed_out() -> None:
    assert wrong(ledger(Outcome.BACKED_OUT), FIRST, SECOND, THIRD) == ["there"]


def test_the_judge_sees_what_is_there_twice() -> None:
    assert wrong(ledger(), FIRST, SECOND, THIRD, out=(FIRST,)) == [str(FIRST).split()[0]]
    assert wrong(ledger(mixed=True), FIRST, SECOND, THIRD, marks=2) == ["the"]
    twice = ledger()
    for _ in range(2):
        twice.consume(FIRST, Outcome.COMMITTED)
    assert wrong(twice, SECOND, THIRD) == [str(FIRST).split()[0]]
    consumed = ledger()
    consumed.consume(FIRST, Outcome.COMMITTED)
    assert wrong(consumed, FIRST, SECOND, THIRD) == [str(FIRST).split()[0]]


def test_the_judge_sees_who_gets_again_what_was_consumed_before_they_asked() -> None:
    consumed = ledger()
    before = consumed.now
    consumed.consume(FIRST, Outcome.COMMITTED)
    consumed.got(FIRST, before)  # its program hears late that this came to nothing
    consumed.consume(FIRST, Outcome.UNKNOWN)
    assert wrong(consumed, SECOND, THIRD) == []
    consumed.got(FIRST, consumed.now)
    assert wrong(consumed, SECOND, THIRD) == [str(FIRST).split()[0]]


def test_the_judge_sees_disorder_where_messages_are_put_and_not_where_several_move_them() -> None:
    assert wrong(ledger(), SECOND, FIRST, THIRD) == ["IN"]
    assert wrong(ledger(), out=(SECOND, FIRST, THIRD)) == []


def test_the_judge_forgives_a_crash_of_the_database_what_was_not_persistent() -> None:
    fleeting = Key("C1", 1, 0, 5, persistence=0)
    nonpersistent = Ledger()
    nonpersistent.put(Put([fleeting, SECOND], "QM1", outcome=Outcome.COMMITTED))
    assert wrong(nonpersistent, SECOND) == ["lost", "torn"]
    nonpersistent.database_crashed()
    assert wrong(nonpersistent, SECOND) == []
    assert wrong(nonpersistent, fleeting) == ["lost", "torn"]


def test_the_judge_sees_who_comes_too_early_with_a_connection_tag() -> None:
    in_turn = ledger()
    for turn, key in ((2, THIRD), (1, FIRST)):
        in_turn.consume(key, Outcome.COMMITTED)
        in_turn.in_turn.append((turn, [key]))
    complaints = in_turn.judge({"LINE": [SECOND]}, {})
    assert complaints == [f"in turn: {SECOND} stands behind {THIRD}"]
    assert ledger().judge({"LINE": [FIRST, SECOND, THIRD]}, {}) == []


def test_the_judge_forgives_a_message_outside_syncpoint_to_each_who_never_heard_what_they_got() -> None:
    alone = Ledger()
    for key in (FIRST, Key("C1", 2, 0, 5)):
        alone.put(Put([key], "QM1", outcome=Outcome.COMMITTED, alone=True))
    alone.unheard["2009"] = 1
    alone.given = {Key("C1", 2, 0, 5)}
    assert wrong(alone, FIRST) == []
    alone.given.add(FIRST)
    assert wrong(alone) == ["lost"]


def test_the_judge_misses_a_message_outside_syncpoint_that_was_given_to_nobody() -> None:
    alone = Ledger()
    alone.put(Put([FIRST], "QM1", outcome=Outcome.COMMITTED, alone=True))
    alone.unheard["2009"] = 1
    assert wrong(alone) == ["lost"]


def test_the_judge_sees_a_group_that_was_not_whole() -> None:
    grouped = ledger()
    grouped.got_group([FIRST, SECOND, THIRD], 0)
    grouped.got_group([], 0)
    assert wrong(grouped, FIRST, SECOND, THIRD) == []
    grouped.got_group([FIRST, SECOND], 0)
    assert wrong(grouped, FIRST, SECOND, THIRD) == [str([FIRST]).split()[0]]


def test_the_judge_forgives_a_crash_of_the_database_the_end_of_a_group() -> None:
    fleeting = [key._replace(persistence=0) for key in (FIRST, SECOND, THIRD)]
    grouped = Ledger()
    grouped.put(Put(fleeting, "QM1", outcome=Outcome.COMMITTED))
    before = grouped.crashes
    grouped.database_crashed()
    grouped.got_group(fleeting[:2], before)
    assert wrong(grouped) == []
    grouped.got_group(fleeting[1:], before)
    grouped.got_group(fleeting[:2], grouped.crashes)
    assert wrong(grouped) == [str(fleeting).split()[0]] * 2
    persistent = ledger()
    persistent.database_crashed()
    persistent.got_group([FIRST, SECOND], 0)
    assert wrong(persistent, FIRST, SECOND, THIRD) == [str([FIRST]).split()[0]]


def test_steps_are_named_by_what_they_call() -> None:
    statements = ["SELECT * FROM put_messages($1, $2)", "SELECT fence($1, $2)", "COMMIT;", " UPDATE member SET x = 1"]
    assert [name_of(statement) for statement in statements] == ["put_messages", "fence", "COMMIT", "UPDATE"]


@pytest.mark.postgres
@pytest.mark.parametrize("step", ["before pg_advisory_xact_lock 1", "after pg_advisory_xact_lock 1", "after write 1"])
async def test_a_member_dies_at_the_step_that_is_named(group: GroupDatabase, tmp_path: Path, step: str) -> None:
    group.forgive("sessions", "locks")  # they end when the server sees that the line is cut
    command = ["tests.sharing.chaos.member", "QM1", str(tmp_path / "QM1"), group.name, group.dsn, "--step", step]
    died = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", *command],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()


@pytest.mark.postgres
@pytest.mark.timeout(900)
async def test_nothing_is_lost_doubled_or_torn_while_everything_fails(tmp_path: Path) -> None:
    chosen = Chosen(pause=0.05, seed=111624)  # beside other tests; with this seed, each kind of trouble comes early
    result = await run(tmp_path, chosen)
    assert result.wrong == [], str(result)
    assert result.consumed
    assert result.happened


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("seed", [2])
async def test_nothing_is_lost_doubled_or_torn_in_twenty_minutes(tmp_path: Path, seed: int) -> None:
    result = await run(tmp_path, Chosen(seconds=1200, seed=seed))
    assert result.wrong == [], str(result)
