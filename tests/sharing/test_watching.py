"""Puts outside syncpoint tell whoever watches the queue, behind their commit (queue-sharing 10.2.2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQRC, MessageDescriptor, MQError
from broker.mqi.structures import GetMessageOptions
from broker.sharing.gets.waits import Waits
from tests.conformance.expect import ALL, drained, fails

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import asyncpg

    from broker import Queue
    from broker.core.queues.shared_queue import SharedQueue
    from tests.sharing.members import Members

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("unpolled")]

DEFINITIONS = "DEFINE QLOCAL(Q) QSGDISP(SHARED)"
WAIT = GetMessageOptions(options=MQGMO.WAIT | MQGMO.NO_SYNCPOINT, wait_interval=60_000)
PERSISTENT = MessageDescriptor(persistence=1)


class Told:
    """A session that hears the notifications of the database, as members do."""

    def __init__(self, session: asyncpg.Connection) -> None:
        self._session = session
        self._heard: list[str] = []

    async def listen(self, schema: str) -> None:
        await self._session.add_listener(schema, lambda *told: self._heard.append(str(told[3])))

    async def of(self, q_name: str) -> list[str]:
        """Return what was told of a queue since the last time: how many arrived, were there before, start."""
        await self._session.execute("SELECT 1")  # what was told before comes before the answer
        heard, self._heard = self._heard, []
        return [told.removeprefix(f"{q_name} ") for told in heard if told.startswith(f"{q_name} ")]


@pytest.fixture
async def told(members: Members) -> AsyncIterator[Told]:
    session = await members.group.session()
    told = Told(session)
    await told.listen(members.group.schema)
    yield told
    session.terminate()


async def test_nobody_is_told_of_a_put_before_somebody_waits(here: Queue, there: Queue, told: Told) -> None:
    await here.put_many([b"1", b"2"], PERSISTENT)
    await there.put(b"3")
    assert await told.of("Q") == []
    assert await drained(here) == [b"1", b"2", b"3"]
    assert await told.of("Q") == []


@pytest.mark.parametrize("md", [PERSISTENT, None], ids=["persistent", "nonpersistent"])
async def test_who_waits_at_another_member_is_told_each_time(
    members: Members, here: Queue, there: Queue, told: Told, md: MessageDescriptor | None
) -> None:
    for number in range(3):
        getting = asyncio.ensure_future(there.get(options=WAIT))
        await members.clock.rest()
        await here.put(b"%d" % number, md)
        assert (await getting).data == b"%d" % number
        assert await told.of("Q") == ["1 0 1"]


async def test_a_queue_that_triggers_tells_always(members: Members, here: Queue, told: Told) -> None:
    await members.mqsc("ALTER QLOCAL(Q) TRIGGER TRIGTYPE(FIRST)")
    await here.put_many([b"1", b"2"])
    await here.put(b"3")
    assert await told.of("Q") == ["2 0 2", "1 2 1"]
    await members.mqsc("ALTER QLOCAL(Q) NOTRIGGER")
    await here.put(b"4")
    assert await told.of("Q") == []


COMMITS_LATE = (
    "CREATE FUNCTION commit_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "PERFORM pg_advisory_xact_lock_shared(0); RETURN NULL; END $$",
    "CREATE CONSTRAINT TRIGGER commit_late AFTER INSERT ON message DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
    "EXECUTE FUNCTION commit_late()",
)


async def test_a_put_that_began_before_somebody_waits_and_is_committed_after_that_tells_him(
    members: Members, here: Queue, there: Queue, rival: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks whether anybody watches when it is committed, or keeps who begins to watch waiting until then."""
    for statement in COMMITS_LATE:
        await members.group.rows(statement)
    await rival.execute("SELECT pg_advisory_lock(0)")
    putting = asyncio.ensure_future(here.put(b"late"))
    await members.group.until_blocked(putting)
    serve, looked = Waits._serve_all, asyncio.Event()

    async def looks(waits: Waits, queue: SharedQueue) -> bool:
        busy = await serve(waits, queue)
        looked.set()
        return busy

    monkeypatch.setattr(Waits, "_serve_all", looks)
    getting = asyncio.ensure_future(there.get(options=WAIT))
    await looked.wait()
    await rival.execute("SELECT pg_advisory_unlock(0)")
    await putting
    assert (await getting).data == b"late"


async def test_a_put_between_the_first_look_and_the_watch_is_found(
    members: Members, here: Queue, there: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    notifications = members.member("QM2").notifications
    watch = notifications.watch

    async def puts_first(q_name: str) -> None:
        await here.put(b"between")
        monkeypatch.undo()
        await watch(q_name)

    monkeypatch.setattr(notifications, "watch", puts_first)
    assert (await there.get(options=WAIT)).data == b"between"


async def test_who_waits_is_told_after_the_session_that_hears_was_lost_again_and_again(
    members: Members, here: Queue, there: Queue, told: Told
) -> None:
    for number in range(2):
        getting = asyncio.ensure_future(there.get(options=WAIT))
        await members.clock.rest()
        await members.group.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%/QM2/%/listen'"
        )
        await members.clock.advance(1)
        await members.clock.rest()
        await here.put(b"%d" % number)
        assert (await getting).data == b"%d" % number


async def test_who_waits_on_a_queue_that_was_deleted_and_defined_again_is_told(members: Members, told: Told) -> None:
    for _ in range(2):
        here = await (await members.connect("QM1")).open("Q", ALL)
        there = await (await members.connect("QM2")).open("Q", ALL)
        getting = asyncio.ensure_future(there.get(options=WAIT))
        await members.clock.rest()
        await here.put(b"again")
        assert (await getting).data == b"again"
        await here.close()
        await there.close()
        await members.mqsc("DELETE QLOCAL(Q)")
        await members.mqsc(DEFINITIONS)


FAILURES = ("CREATE SEQUENCE failures", "GRANT ALL ON failures TO public")
ANNOUNCES_SECOND = (
    *FAILURES,
    "CREATE OR REPLACE FUNCTION announce_to_watchers(q_name text, arrived bigint, before bigint) RETURNS void "
    "LANGUAGE plpgsql AS $$ BEGIN "
    "IF nextval('failures') = 1 THEN RAISE EXCEPTION 'no' USING ERRCODE = '57014'; END IF; "
    "PERFORM announce(q_name, arrived, before); END $$",
)


@pytest.mark.parametrize("many", [False, True])
async def test_a_put_that_fails_behind_its_commit_is_made_once_and_told(
    members: Members, here: Queue, there: Queue, told: Told, many: bool
) -> None:
    """The notification takes too long, say: to answer that the put has failed would have it made twice."""
    for statement in ANNOUNCES_SECOND:
        await members.group.rows(statement)
    getting = asyncio.ensure_future(there.get(options=WAIT))
    await members.clock.rest()
    if many:
        await here.put_many([b"1", b"2"], PERSISTENT)
    else:
        await here.put(b"1", PERSISTENT)
    assert (await getting).data == b"1"
    assert await told.of("Q") == (["2 0 2"] if many else ["1 0 1"])
    assert await drained(here) == ([b"2"] if many else [])
    assert members.member("QM1").database.figures.unknown == 1


PUTS_SECOND = (
    *FAILURES,
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF nextval('failures') = 1 THEN RAISE EXCEPTION 'no room on the disk' USING ERRCODE = '53100'; END IF; "
    "RETURN NEW; END $$",
    "CREATE TRIGGER refuse BEFORE INSERT ON message FOR EACH ROW EXECUTE FUNCTION refuse()",
)


async def test_a_put_that_fails_before_its_commit_is_not_made(members: Members, here: Queue) -> None:
    for statement in PUTS_SECOND:
        await members.group.rows(statement)
    with fails(MQRC.STORAGE_MEDIUM_FULL):
        await here.put(b"1", PERSISTENT)
    await here.put(b"2", PERSISTENT)
    assert await drained(here) == [b"2"]


async def test_who_waits_is_served_while_his_member_cannot_watch(
    members: Members, here: Queue, there: Queue, rival: asyncpg.Connection
) -> None:
    """Somebody is stuck who asks whether anybody watches."""
    await rival.execute("SELECT pg_advisory_lock(watch_space(), watch_number('Q'))")
    for number in range(2):
        getting = asyncio.ensure_future(there.get(options=WAIT))
        await here.put(b"%d" % number)
        assert (await getting).data == b"%d" % number
    getting = asyncio.ensure_future(there.get(options=WAIT))
    await members.group.until_blocked(getting)
    await members.stop("QM2")  # in the middle of it
    with pytest.raises(MQError):
        await getting
