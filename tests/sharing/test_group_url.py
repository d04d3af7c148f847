"""Connecting by the name of a group reaches any member that answers (queue-sharing 1)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pytest
from anyio import from_thread, to_thread

from broker import QueueManager, QueueSharingGroup
from broker.client import connect, connect_sync
from broker.client.address import Address, parse
from broker.client.reaching import in_turn
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQCA, MQOO, MQOT, MQRC, MQError, ObjectDescriptor
from broker.server import Server
from tests.conformance.expect import ALL, reason_of
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.sharing.database import GroupDatabase

    Starts: TypeAlias = Callable[[int], None]


class Listening:
    """A queue manager and its listener, which can go on at the same place in another one."""

    def __init__(self, name: str, group: QueueSharingGroup | None = None, port: int = 0) -> None:
        self._manager = QueueManager.open(name=name, group=group)
        self._stack = AsyncExitStack()
        self._port = port

    async def __aenter__(self) -> str:
        manager = await self._stack.enter_async_context(self._manager)
        listener = ListenerConfig(port=self._port)
        server = await self._stack.enter_async_context(Server(manager, listener, LimitsConfig()))
        return server.addresses[0]

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def listening(manager: QueueManager) -> AsyncIterator[str]:
    """Give the address at which a queue manager that runs can be reached."""
    async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
        yield server.addresses[0]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    """Says from which host on lists are tried."""
    return lambda number: monkeypatch.setattr("broker.client.reaching.random.randrange", lambda count: number)


async def nowhere() -> str:
    """Return an address where nobody listens."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"127.0.0.1:{port}"


def test_a_url_may_name_several_hosts() -> None:
    address = parse("mq://h1:1415,[::1],h3/GRP1")
    assert address.all == (
        Address(host="h1", port=1415, q_mgr_name="GRP1"),
        Address(host="::1", q_mgr_name="GRP1"),
        Address(host="h3", q_mgr_name="GRP1"),
    )
    assert str(address) == "h1:1415, [::1]:1414, h3:1414"


@pytest.mark.parametrize(
    "url", ["mq://h1,/GRP1", "mq://,h1", "mq://h1,user@h2/GRP1", "mq://h1,h2:x/GRP1", "mq://h1,h2?a"]
)
def test_what_is_no_list_of_hosts_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="mq://"):
        parse(url)


@pytest.mark.postgres
async def test_s1_1_a_program_that_names_the_group_is_connected_to_a_member_that_runs(group: GroupDatabase) -> None:
    joined = QueueSharingGroup(group.name, group.dsn)
    async with Listening("QM2", joined) as address:
        async with connect(f"mq://{await nowhere()},{address}/{group.name}") as connection:
            assert connection.q_mgr_name == "QM2"
            manager = ObjectDescriptor(object_type=MQOT.Q_MGR)
            async with connection.open(manager, MQOO.INQUIRE) as opened:
                found = await opened.inquire(MQCA.Q_MGR_NAME, MQCA.QSG_NAME)
            assert found == {MQCA.Q_MGR_NAME: "QM2", MQCA.QSG_NAME: group.name}
        async with connect(f"mq://{address}/QM2") as connection:
            assert connection.q_mgr_name == "QM2"
        with pytest.raises(MQError, match="GRP9 is not here") as refused:
            await connect(f"mq://{address}/GRP9").__aenter__()
        assert refused.value.reason == MQRC.Q_MGR_NAME_ERROR


async def test_where_nobody_answers_all_that_were_tried_are_named() -> None:
    first, second = await nowhere(), await nowhere()
    async with Listening("QM1") as address:
        with pytest.raises(MQError) as failed:
            await connect(f"mq://{first},{second},{address}/GRP1").__aenter__()
    assert failed.value.reason == MQRC.HOST_NOT_AVAILABLE
    assert all(place in str(failed.value) for place in (first, second, address, "GRP1 is not here; this is QM1"))


async def test_hosts_are_tried_in_the_order_given_from_a_random_one_on(starts: Starts) -> None:
    async with Listening("QM1") as first, Listening("QM2") as second:
        for start, name in enumerate(["QM1", "QM1", "QM2"]):
            starts(start)
            async with connect(f"mq://{await nowhere()},{first},{second}") as connection:
                assert connection.q_mgr_name == name
        starts(2)
        async with connect(f"mq://{first},{second},{await nowhere()}") as connection:
            assert connection.q_mgr_name == "QM1"


def test_each_host_of_a_list_is_the_first_some_time() -> None:
    address = parse("mq://h1,h2,h3/GRP1")
    orders = {tuple(each.host for each in in_turn(address)) for _ in range(200)}
    assert orders == {("h1", "h2", "h3"), ("h2", "h3", "h1"), ("h3", "h1", "h2")}


@pytest.mark.postgres
async def test_s1_1_a_member_that_is_out_of_its_group_does_not_answer_to_the_name_of_the_group(
    group: GroupDatabase, starts: Starts
) -> None:
    starts(0)
    async with Members(group, 2) as members:
        await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)", "QM1")
        await members.stop("QM1")
        await members.lines["QM1"].cut()
        await members.start("QM1", reachable=False)
        async with listening(members["QM1"]) as out, listening(members["QM2"]) as there:
            with pytest.raises(MQError, match="QM1 is not in its queue-sharing group") as refused:
                await connect(f"mq://{out}/{group.name}").__aenter__()
            assert refused.value.reason == MQRC.Q_MGR_NOT_AVAILABLE
            for url in (f"mq://{out}/QM1", f"mq://{out}"):
                async with connect(url) as connection:
                    assert connection.q_mgr_name == "QM1"
            async with connect(f"mq://{out},{there}/{group.name}") as connection:
                assert connection.q_mgr_name == "QM2"


@pytest.mark.postgres
async def test_a_connection_that_outlives_its_line_goes_on_at_another_member(
    group: GroupDatabase, starts: Starts
) -> None:
    starts(0)
    joined = QueueSharingGroup(group.name, group.dsn)
    async with Listening("QM2", joined) as second:
        first = Listening("QM1", joined)
        address = await first.__aenter__()
        async with connect(f"mq://{address},{second}/{group.name}", reconnect=True) as connection:
            assert connection.q_mgr_name == "QM1"
            await connection.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)", check=True)
            queue = await connection.open("Q", ALL)
            await queue.put(b"1")
            await first.__aexit__()
            assert (await queue.get(wait=10)).data == b"1"
            assert connection.q_mgr_name == "QM2"


@pytest.mark.postgres
@pytest.mark.parametrize("door", ["async", "sync"])
async def test_a_connection_by_the_name_of_the_group_goes_to_another_member_when_its_own_is_out_of_it(
    group: GroupDatabase, starts: Starts, door: str
) -> None:
    """The member itself runs on, and whoever has named it stays."""
    starts(0)
    async with Members(group, 2) as members:
        await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)\nDEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN)")
        async with listening(members["QM1"]) as first, listening(members["QM2"]) as second:
            url = f"mq://{first},{second}/{group.name}"
            async with connect(f"mq://{first}/QM1") as named, connect(f"mq://{first}") as unnamed:
                if door == "async":
                    async with connect(url, reconnect=True) as connection, connection.open("Q", ALL) as queue:
                        assert connection.q_mgr_name == "QM1"
                        await queue.put(b"1")
                        await members.lapse("QM1")
                        assert (await queue.get(wait=10)).data == b"1"
                        assert connection.q_mgr_name == "QM2"
                else:
                    await to_thread.run_sync(put_and_get, url, partial(from_thread.run, members.lapse, "QM1"))
                for staying in (named, unnamed):
                    await staying.put1("OWN", b"private")
                    assert staying.q_mgr_name == "QM1"


def put_and_get(url: str, between: Callable[[], None]) -> None:
    """A program in a thread, whose connection goes to another member between its calls."""
    with connect_sync(url, reconnect=True) as connection, connection.open("Q", ALL) as queue:
        assert connection.q_mgr_name == "QM1"
        queue.put(b"1")
        between()
        assert queue.get(wait=10).data == b"1"
        assert connection.q_mgr_name == "QM2"


@pytest.mark.postgres
async def test_one_that_is_not_made_again_is_told_that_it_is_over(group: GroupDatabase) -> None:
    async with Members(group, 2) as members:
        await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)\nDEFINE QLOCAL(Q) QSGDISP(SHARED)")
        async with listening(members["QM1"]) as address:
            connection = await connect(f"mq://{address}/{group.name}").__aenter__()
            queue = await connection.open("Q", ALL)
            await members.lapse("QM1")
            assert await reason_of(queue.put(b"1")) in (MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR)
