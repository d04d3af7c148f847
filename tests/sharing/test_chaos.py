"""Chaos in a group, and that its judge sees what must not be."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import AsyncMock

import asyncpg
import pytest

from tests.sharing.chaos import tables, trouble
from tests.sharing.chaos.ledger import Key, Ledger, Outcome, Put
from tests.sharing.chaos.processes import Member, StartError
from tests.sharing.chaos.run import Chosen, run
from tests.sharing.chaos.scene import Scene
from tests.sharing.chaos.statements import Losses, Statements, name_of
from tests.sharing.chaos.trouble import KINDS, Trouble, kinds_of
from tests.sharing.database import LEAKS
from tests.sharing.postgres import OWNER, Postgres, Standby
from tests.sharing.proxy import Proxy

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


def message(kind: bytes, *parts: bytes) -> bytes:
    """Return a message of the protocol of PostgreSQL, of parts that end with a zero byte."""
    body = b"".join(part + b"\0" for part in parts)
    return kind + (len(body) + 4).to_bytes(4) + body


SPOKEN = (
    message(b"", b"the start-up packet")
    + message(b"P", b"a", b"SELECT * FROM get_messages($1)")
    + message(b"P", b"b", b"UPDATE member SET x = 1")
    + message(b"B", b"", b"b")
    + message(b"B", b"", b"a")
    + message(b"Q", b"COMMIT;")
    + message(b"B", b"", b"b")
)


@pytest.mark.parametrize("size", [1, 7, len(SPOKEN)])
def test_statements_are_read_off_the_line_in_whatever_pieces_they_pass(size: int) -> None:
    statements = Statements()
    pieces = [SPOKEN[first : first + size] for first in range(0, len(SPOKEN), size)]
    assert [name for piece in pieces for name in statements.feed(piece)] == [
        "UPDATE",
        "get_messages",
        "COMMIT",
        "UPDATE",
    ]


@pytest.mark.postgres
async def test_a_member_does_not_outlive_who_has_started_it(group: GroupDatabase, tmp_path: Path) -> None:
    group.forgive("sessions", "locks", "handles", "connection tags")
    member = Member("QM1", tmp_path / "QM1", group.name, group.dsn)
    await member.start()
    assert member.process is not None
    assert member.process.stdin is not None
    member.process.stdin.close()  # as the system does
    assert await member.process.wait() == -signal.SIGKILL


@pytest.mark.postgres
@pytest.mark.parametrize(("before", "made"), [(True, 0), (False, 1)])
async def test_a_statement_is_lost_or_its_answer_and_nobody_can_tell_which(
    group: GroupDatabase, before: bool, made: int
) -> None:
    losses = Losses()
    async with Proxy(group.server) as line:
        line.judge_of_line = losses.judge
        session = await asyncpg.connect(line.dsn, server_settings={"search_path": group.schema})
        insert = "INSERT INTO queue (name) VALUES ($1)"
        await session.execute(insert, "Q")  # which prepares it
        losses.lose("INSERT", before=before)
        with pytest.raises(asyncpg.PostgresConnectionError):
            await session.execute(insert, "R")
        assert losses.lost == {f"{'statement' if before else 'answer'} INSERT": 1}
        again = await asyncpg.connect(line.dsn, server_settings={"search_path": group.schema})
        assert await again.fetchval("SELECT count(*) FROM queue") == 1 + made
        await again.close()


@pytest.mark.postgres
async def test_what_passes_on_a_line_is_held_up(group: GroupDatabase) -> None:
    delays = count()
    async with Proxy(group.server) as line:
        session = await asyncpg.connect(line.dsn)
        line.delay = lambda: 0.001 * min(1, next(delays))
        assert await session.fetchval("SELECT 1") == 1
        assert next(delays) >= 4  # the statement, what it is, its call, its row
        await session.close()


@pytest.mark.postgres
def test_a_standby_that_takes_over_has_all_that_was_acknowledged() -> None:
    with Postgres(in_memory=False) as server:
        server.sql("CREATE TABLE t (x int)", database=OWNER)
        with Standby(server) as standby:
            server.sql("INSERT INTO t VALUES (1)", database=OWNER)
            server.stop("immediate")
            standby.promote()
            standby.sql("INSERT INTO t VALUES (2)", database=OWNER)  # it waits for no other
            assert standby.sql("SELECT x FROM t ORDER BY x", database=OWNER) == [["1"], ["2"]]


@pytest.mark.postgres
@pytest.mark.parametrize("kind", list(tables.BREACHES))
async def test_each_breach_is_seen_where_there_is_one(group: GroupDatabase, kind: str) -> None:
    group.forgive(*LEAKS)
    assert tables.found(group, tables.AT_REST) == {}
    session = await group.session()
    await session.execute(tables.BROKEN[kind])
    await session.close()
    assert kind in tables.found(group, tables.BREACHES)


def test_kinds_of_faults_are_switched_on_by_name_and_another_name_is_refused() -> None:
    assert list(kinds_of("kill, fail_over")) == ["kill", "fail_over"]
    assert kinds_of("") == KINDS
    with pytest.raises(ValueError, match="no kind of fault named killl: there are kill, "):
        kinds_of("kill,killl")


async def test_the_judge_sees_a_member_that_stays_out_of_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Member, "start", AsyncMock(side_effect=StartError("it does not start")))
    monkeypatch.setattr(trouble, "_GIVE_UP_SECONDS", 0.05)
    monkeypatch.setattr(trouble, "OUT_SECONDS_MAX", 0.0)
    monkeypatch.setattr(Member, "log", lambda _: "its log")
    member = Member("QM1", tmp_path / "QM1", "G", "dsn")
    monkeypatch.setattr(tables, "now", lambda _: "now")
    scene = Scene(AsyncMock(), [member], [], Ledger(), Random(1), AsyncExitStack())
    healing = Trouble(scene)
    assert not await healing.heal()
    assert [complaint[:24] for complaint in scene.wrong] == ["QM1 does not come back: ", "QM1 was out of its group"]


@pytest.mark.postgres
@pytest.mark.timeout(900)
async def test_nothing_is_lost_doubled_or_torn_while_everything_fails(tmp_path: Path) -> None:
    chosen = Chosen(pause=0.05, seed=111624, patience=3)  # beside other tests
    result = await run(tmp_path, chosen)
    assert result.wrong == [], str(result)
    assert result.consumed
    assert result.happened


OFTEN_ALONE = (
    "two_members_at_once", "lose_a_statement", "slow_lines", "crash_database", "freeze_database", "exhaust_sessions",
    "fail_over",
)  # fmt: skip
"""What seldom comes in a minute in which everything fails."""


@pytest.mark.postgres
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kind", [*OFTEN_ALONE, *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind not in OFTEN_ALONE)]
)
async def test_nothing_is_lost_doubled_or_torn_by_one_kind_of_fault_alone(tmp_path: Path, kind: str) -> None:
    result = await run(tmp_path, Chosen(pause=0.05, seconds=6, only=kind, patience=3))
    assert result.wrong == [], str(result)
    assert result.happened[kind]


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_nothing_is_lost_doubled_or_torn_in_twenty_minutes(tmp_path: Path, seed: int) -> None:
    result = await run(tmp_path, Chosen(seconds=1200, seed=seed))
    assert result.wrong == [], str(result)
