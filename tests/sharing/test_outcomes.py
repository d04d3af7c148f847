"""What has become of a unit of work is what its row in the database says: nothing is guessed (queue-sharing 10.3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from broker.core.queues.unit import IN_DOUBT
from broker.mqi import MQGMO, MQMF, MQPMO, MQRC, MessageDescriptor
from broker.sharing.database.database import ATTEMPTS
from tests.conformance.expect import ALL, fails
from tests.sharing.members import Members
from tests.sharing.test_mixed_units import BACKED_OUT, COMMITTED, found, open_unit, outcomes_of
from tests.sharing.test_recovery import session_of
from tests.sharing.test_units import drain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.sharing.database import GroupDatabase
    from tests.sharing.proxy import Proxy

pytestmark = pytest.mark.postgres

_COMMIT = "SELECT decided FROM commit_units('QM1', current_setting('evermq.epoch')::bigint, $1)"
PERSISTENT = MessageDescriptor(persistence=1)
ASKS = MessageDescriptor(persistence=1, msg_type=1, report=2048, reply_to_q="REPLIES")  # MQRO_COD


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc(
            "DEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN)\nDEFINE QLOCAL(REPLIES) QSGDISP(SHARED)"
        )
        yield members


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    with patch("broker.sharing.database.database.SETTLE_SECONDS", 0.0):
        yield


class Commit:
    """The treatment by a line of the statement that commits a unit: it is `lost` on its way, or its answer is; then the
    line is cut. `held`: nothing goes through any more from then on.
    """

    def __init__(self, line: Proxy, *, lost: bool, held: bool = False) -> None:
        self.seen = asyncio.Event()
        self._line = line
        self._lost = lost
        self._held = held
        self._named = self._made = False
        line.to_server, line.to_client = self._to_server, self._to_client

    def _to_server(self, piece: bytes) -> bytes | None:
        if self._named and self._lost:  # it has been prepared, now it is made
            return self._cut()
        self._made = self._named
        self._named = self._named or b"commit_units" in piece
        return piece

    def _to_client(self, piece: bytes) -> bytes | None:
        return self._cut() if self._made else piece

    def _cut(self) -> bytes | None:
        self._line.to_server = self._line.to_client = None
        if self._held:
            self._line.hold()
        self.seen.set()
        return None


async def waits(members: Members, count: int = 1) -> None:
    """Return when so many sessions wait for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND starts_with(application_name, $1)"
    )
    while await members.group.value(waiting, members.group.name) < count:  # noqa: ASYNC110  # the server tells nobody
        await asyncio.sleep(0)


async def test_trap_2_who_asks_for_an_outcome_waits_for_the_server_that_is_still_committing(members: Members) -> None:
    program = await members.connect("QM1")
    await (await program.open("Q", ALL)).put(b"shared", PERSISTENT, MQPMO.SYNCPOINT)
    (row,) = await members.group.rows("SELECT id FROM unit_of_work")
    old = await session_of(members, "QM1")
    late = old.transaction()
    await late.start()
    assert await old.fetchval(_COMMIT, [row["id"]])
    learning = asyncio.ensure_future(outcomes_of(members["QM1"]).learn(row["id"]))
    await waits(members)
    assert not learning.done()
    await late.commit()
    await old.close()
    assert await learning
    assert await drain(await members.connect("QM1"), "Q") == [(b"shared", 0)]
    await program.commit()  # it is


async def test_trap_2_a_unit_that_was_found_active_and_backed_out_cannot_be_committed_by_who_comes_late(
    members: Members,
) -> None:
    program = await members.connect("QM1")
    await (await program.open("Q", ALL)).put(b"shared", PERSISTENT, MQPMO.SYNCPOINT)
    (row,) = await members.group.rows("SELECT id FROM unit_of_work")
    assert not await outcomes_of(members["QM1"]).learn(row["id"])
    late = await session_of(members, "QM1")
    assert not await late.fetchval(_COMMIT, [row["id"]])
    await late.close()
    with fails(MQRC.BACKED_OUT):
        await program.commit()
    assert await drain(program, "Q") == []


@pytest.mark.parametrize("lost", [True, False], ids=["on its way", "its answer"])
async def test_s10_2_a_commit_whose_line_is_cut_is_made_once_and_answered(members: Members, lost: bool) -> None:
    program = await members.connect("QM1")
    await open_unit(program)
    cut = Commit(members.lines["QM1"], lost=lost)
    await program.commit()
    assert cut.seen.is_set()
    assert await found(program) == COMMITTED


@pytest.mark.parametrize("lost", [True, False], ids=["on its way", "its answer"])
async def test_s10_2_a_commit_that_nobody_can_ask_for_leaves_the_unit_in_doubt_until_the_database_is_back(
    members: Members, lost: bool
) -> None:
    program = await members.connect("QM1")
    await open_unit(program)
    line = members.lines["QM1"]
    cut = Commit(line, lost=lost, held=True)
    committing = asyncio.ensure_future(program.commit())
    await cut.seen.wait()
    await line.cut()
    with fails(MQRC.OUTCOME_PENDING):
        await committing
    (half,) = members["QM1"].core.branches.by_id.values()
    assert half.unit.state == IN_DOUBT
    own = await program.open("OWN", ALL)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await own.get()
    await own.put(b"private goes on", PERSISTENT)
    await line.mend()
    await outcomes_of(members["QM1"]).learn_all()
    await members.clock.rest()
    outcome = BACKED_OUT if lost else COMMITTED
    assert await drain(program, "Q") == outcome["Q"]
    assert await drain(program, "OWN") == [*outcome["OWN"], (b"private goes on", 0)]


async def test_a_report_for_which_there_was_no_room_is_sent_when_a_unit_in_doubt_turns_out_to_be_committed(
    members: Members,
) -> None:
    await members.mqsc("ALTER QLOCAL(REPLIES) QSGDISP(SHARED) MAXDEPTH(1)\nALTER QMGR DEADQ(OWN)")
    program = await members.connect("QM1")
    shared = await program.open("Q", ALL)
    await program.put1("REPLIES", b"there is no room")
    await shared.put(b"asks", ASKS)
    await shared.get(options=MQGMO.SYNCPOINT)
    line, seen = members.lines["QM1"], asyncio.Event()

    def judge(piece: bytes) -> bytes | None:
        if b"COMMIT" not in piece:
            return piece
        line.to_client = None
        line.hold()
        seen.set()
        return None

    line.to_client = judge
    committing = asyncio.ensure_future(program.commit())
    await seen.wait()
    await line.cut()
    with fails(MQRC.OUTCOME_PENDING):
        await committing
    await line.mend()
    await outcomes_of(members["QM1"]).learn_all()
    await members.clock.rest()
    assert [data[:4] for data, _ in await drain(program, "OWN")] == [b"DLH "]
    assert await drain(program, "Q") == []


async def test_a_backout_without_the_database_is_certain_and_is_made_up_for_later(members: Members) -> None:
    program = await members.connect("QM1")
    await open_unit(program)
    await members.lines["QM1"].cut()
    with fails(MQRC.OUTCOME_PENDING):
        await program.backout()
    own = await program.open("OWN", ALL)
    assert (await own.get()).data == b"old"
    await members.lines["QM1"].mend()
    await outcomes_of(members["QM1"]).learn_all()
    await members.clock.rest()
    assert await drain(program, "Q") == [(b"old", 1)]


async def test_trap_5_a_commit_that_is_made_again_puts_its_reports_once(members: Members) -> None:
    program = await members.connect("QM1")
    shared = await program.open("Q", ALL)
    await shared.put(b"asks", ASKS)
    await shared.get(options=MQGMO.SYNCPOINT)
    await give_up_once(members.group, "unit_of_work", "UPDATE")
    await program.commit()
    assert await members.group.value("SELECT last_value FROM attempts") == 2
    assert len(await drain(program, "REPLIES")) == 1
    assert await drain(program, "Q") == []


async def test_trap_5_a_commit_that_is_made_again_leaves_handles_where_they_were(members: Members) -> None:
    program = await members.connect("QM1")
    shared, own = await program.open("Q", ALL), await program.open("OWN", ALL)
    in_group = MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER
    group = MessageDescriptor(persistence=1, msg_flags=8)  # MQMF_MSG_IN_GROUP
    first = await shared.put(b"1", group, in_group)
    await own.put(b"private", PERSISTENT, MQPMO.SYNCPOINT)
    await give_up_once(members.group, "unit_of_work", "UPDATE")
    await program.commit()
    last = await shared.put(b"2", MessageDescriptor(persistence=1, msg_flags=24), in_group)  # MQMF_LAST_MSG_IN_GROUP
    await program.commit()
    assert (first.md.group_id, first.md.msg_seq_number) == (last.md.group_id, 1)
    assert last.md.msg_seq_number == 2
    assert await found(program) == {"Q": [(b"1", 0), (b"2", 0)], "OWN": [(b"private", 0)]}


@pytest.mark.parametrize("options", [MQGMO.SYNCPOINT | MQGMO.LOGICAL_ORDER, MQGMO.BROWSE_NEXT | MQGMO.LOCK])
async def test_trap_5_a_get_that_was_given_up_asks_for_the_same_item_again(members: Members, options: int) -> None:
    program = await members.connect("QM1")
    shared = await program.open("Q", ALL)
    for flags in (MQMF.MSG_IN_GROUP, MQMF.MSG_IN_GROUP, MQMF.LAST_MSG_IN_GROUP):
        md = MessageDescriptor(persistence=1, msg_flags=flags)
        await shared.put(b"%d" % flags, md, MQPMO.LOGICAL_ORDER)
    first = await shared.get(options=options)
    await give_up(members.group, "held", "INSERT", ATTEMPTS + 2)
    with fails(MQRC.CF_STRUC_IN_USE):
        await shared.get(options=options)
    found = [await shared.get(options=options) for _ in range(2)]
    assert [message.md.msg_seq_number for message in (first, *found)] == [1, 2, 3]
    await shared.close()
    await program.backout()


async def give_up_once(group: GroupDatabase, table: str, event: str) -> None:
    """The first statement of this kind is given up for others' sake."""
    await give_up(group, table, event, 1)


async def give_up(group: GroupDatabase, table: str, event: str, times: int) -> None:
    """So many statements of this kind are given up for others' sake, each when it comes to its first row."""
    for statement in (
        "CREATE SEQUENCE attempts",
        "GRANT ALL ON SEQUENCE attempts TO evermq",
        "CREATE FUNCTION give_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF nextval('attempts') <= {times:d} THEN RAISE EXCEPTION 'for others' USING ERRCODE = '40001'; END IF; "
        "RETURN NEW; END $$",
        f"CREATE TRIGGER give_up BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION give_up()",
    ):
        await group.rows(statement)
