"""A daemon in a process of its own with a thousand units in doubt, killed by `kill -9` (D2.2), and what
`evermq transactions` says of it over TCP.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from broker import Connection, connect
from broker.databases.database import Database
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, Outcome
from broker.mqi.delivery_fields import ServiceOptions, Settlement
from broker.mqi.external_units import Decided, Decision, PreparedDelivery
from tests.databases.ways import SqlitePath
from tests.durability.daemon import Daemon
from tests.engine.bench import reason_of
from tests.handlers.processes import evermq

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from broker import Deliveries

HALF = 500
PROGRAMS = 7
DATABASE = b"d" * 16
OTHER = "00000000-0000-4000-8000-000000000001"  # the instance of another queue manager
OPTIONS = ServiceOptions(handler="shop:ship", order_by="customer", backoff=(5.0, 5.0), jitter=False)
DEFINITIONS = f"""
DEFINE PROCESS(P) REPLACE
DEFINE QLOCAL(Q) REPLACE DEFPSIST(YES)
DEFINE QLOCAL(W) REPLACE TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES) MAXDEPTH({4 * HALF})
"""


def name_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


async def prepare_some(url: str, numbers: Iterable[int]) -> None:
    async with connect(url, appl_name="program") as connection:
        for number in numbers:
            await connection.put1("Q", str(number), options=MQPMO.SYNCPOINT, key=name_of(number))
            await connection.prepare(name_of(number), DATABASE, "orders")


async def doubt_a_thousand(url: str, connection: Connection) -> None:
    """Prepare HALF units of a keyed put each, and HALF deliveries, behind each of which one of its customer waits."""
    async with connection.open("W", MQOO.OUTPUT) as queue:
        for turn in ("first", "second"):
            for number in range(HALF):
                await queue.put(turn, options=MQPMO.SYNCPOINT, properties={"customer": str(number)})
    await connection.commit()
    await asyncio.gather(*(prepare_some(url, range(start, HALF, PROGRAMS)) for start in range(PROGRAMS)))
    deliveries = await connection.deliveries("W", options=OPTIONS).__aenter__()  # and never ended: it is killed
    taken = await deliveries.take(HALF)
    while len(taken) < HALF:
        taken += await deliveries.take(HALF - len(taken))
    items = [
        PreparedDelivery(name_of(number), Settlement(each.id, Outcome.DONE)) for number, each in enumerate(taken, HALF)
    ]
    assert await deliveries.prepare(DATABASE, items, "orders") == [0] * HALF


async def test_d2_2_a_thousand_in_doubt_are_there_behind_a_kill_with_their_messages_keys_and_order(
    tmp_path: Path,
) -> None:
    async with asyncio.TaskGroup() as tasks:
        daemon = Daemon(tmp_path, DEFINITIONS, tasks)
        await daemon.start()
        try:
            connecting = connect(daemon.url, appl_name="program")
            connection = await connecting.__aenter__()
            await doubt_a_thousand(daemon.url, connection)
            await daemon.kill()
            connection.port.break_()
            await daemon.start()
            await asyncio.wait_for(look_at_what_is_left(daemon.url), 120)
        finally:
            await daemon.end()


async def look_at_what_is_left(url: str) -> None:
    async with connect(url, appl_name="resolver") as resolver:
        threads = await resolver.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT)", check=True)
        assert sum(len(reply.attributes) for reply in threads) == 2 * HALF
        found: list[bytes] = []
        while len(found) < 2 * HALF:  # leased, so nobody owns them
            found += [each.unit for each in await resolver.doubts(DATABASE, wait=False)]
        assert sorted(found) == [name_of(number) for number in range(2 * HALF)]
        for number in (0, HALF - 1):
            assert await reason_of(resolver.put1("Q", "again", key=name_of(number))) == MQRC.OBJECT_IN_USE
        async with connect(url, appl_name="worker") as worker, worker.deliveries("W", options=OPTIONS) as deliveries:
            taking = asyncio.ensure_future(deliveries.take(HALF))
            assert len(await worker.in_doubt(DATABASE, found)) == 2 * HALF
            assert not taking.done()  # their customers are held
            decisions = [Decision(name_of(number), commit=number % 10 != 0) for number in range(2 * HALF)]
            for start in range(0, 2 * HALF, HALF):
                assert await resolver.decide(DATABASE, decisions[start : start + HALF]) == [Decided.DONE] * HALF
            handled = await handle(deliveries, taking, HALF + HALF // 10)
        assert sum(bodies == [b"second"] for bodies in handled.values()) == HALF - HALF // 10
        assert sum(bodies == [b"first", b"second"] for bodies in handled.values()) == HALF // 10
        assert (await resolver.put1("Q", "again", key=name_of(1))).duplicate  # of what was committed
        assert not (await resolver.put1("Q", str(HALF), key=name_of(0))).duplicate  # of what was backed out
        wanted = [*(number for number in range(HALF) if number % 10), HALF]
        async with resolver.open("Q", MQOO.INPUT_SHARED) as queue:
            left = [int((await queue.get(options=MQGMO.NO_SYNCPOINT)).data) for _ in wanted]
        assert sorted(left) == wanted
        for start in range(PROGRAMS):  # those of one program are in their order
            own = [number for number in left[:-1] if number % PROGRAMS == start]
            assert own == sorted(own)


async def handle(deliveries: Deliveries, taking: asyncio.Future[Any], count: int) -> dict[str, list[bytes]]:
    """Take so many messages and settle them: what was backed out comes alone. Their bodies, by customer, in order."""
    handled = defaultdict[str, list[bytes]](list)
    while True:
        taken = await taking
        for each in taken:
            (message,) = each.messages
            handled[str(message.properties["customer"])].append(message.data)
        await deliveries.settle([Settlement(each.id, Outcome.DONE) for each in taken])
        if sum(map(len, handled.values())) == count:
            return handled
        taking = asyncio.ensure_future(deliveries.take(HALF))


async def test_status_and_clean_ask_a_daemon_over_tcp(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    way.look("CREATE TABLE orders (id INTEGER)")
    async with asyncio.TaskGroup() as tasks:
        daemon = Daemon(tmp_path, DEFINITIONS, tasks)
        await daemon.start()
        try:
            units, mine = await mark_some(way, daemon.url)
            shown = await said(daemon.url, "status", str(way.file))
            assert f"in doubt at {mine}: 1\n  {uuid.UUID(bytes=units['in doubt'])} IN_DOUBT for " in shown
            assert f"of units of {OTHER} only that queue manager knows: give its --url\n" in shown
            assert [line.split()[1:3] for line in shown.splitlines() if line.startswith(mine)] == [["committed", "3"]]
            assert await said(daemon.url, "clean", str(way.file)) == "1 markers deleted from evermq_unit\n"
            assert await said(daemon.url, "clean", str(way.file)) == "0 markers deleted from evermq_unit\n"
            assert await left(way) == {units["in doubt"], units["young"], units["of another"]}
            async with connect(daemon.url, appl_name="test") as connection:
                opened = await way.database().open()
                assert await connection.decide(opened.id, [Decision(units["in doubt"], commit=True)]) == [Decided.DONE]
                await opened.close()
            shown = await said(daemon.url, "status", str(way.file))
            assert f"in doubt at {mine}: 0\n" in shown
            assert await said(daemon.url, "clean", str(way.file)) == "1 markers deleted from evermq_unit\n"
            assert await left(way) == {units["young"], units["of another"]}
        finally:
            await daemon.end()


async def mark_some(way: SqlitePath, url: str) -> tuple[dict[str, bytes], str]:
    """Markers of each kind, one of them of a unit that is in doubt; and the instance of the queue manager."""
    units = {name: os.urandom(16) for name in ("in doubt", "decided", "young", "of another")}
    opened = await way.database().open()
    async with connect(url, appl_name="test") as connection:
        mine = connection.q_mgr_instance
        await connection.put1("Q", b"1", options=MQPMO.SYNCPOINT)
        await connection.prepare(units["in doubt"], opened.id, "orders")
        for name, unit in units.items():
            at = opened.clock.time() if name == "young" else 1
            q_mgr = OTHER if name == "of another" else mine
            await opened.rows(opened.markers.insert("committed", at), unit, q_mgr)
    await opened.close()
    return units, mine


async def left(way: SqlitePath) -> set[bytes]:
    opened = await Database(way.file, create=False).open()
    found = {bytes(row[0]) for row in await opened.rows("SELECT unit FROM evermq_unit")} - {bytes(1)}
    await opened.close()
    return found


async def said(url: str, *words: str) -> str:
    """What the command says, in a process of its own."""
    return await asyncio.to_thread(evermq, url, "transactions", *words)
