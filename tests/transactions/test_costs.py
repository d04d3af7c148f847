"""The cost of a transaction, counted: syncs of the journal, calls of the queue manager, statements (D4.9)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiosqlite
import pytest

from broker import Deliveries, Message
from broker.client.port import RemotePort
from broker.databases.calls import AdapterCalls
from broker.engine.conversation import Conversation
from broker.mqi import MQMF, Settlement
from broker.transactions import Decision, PreparedDelivery
from broker.transactions.decisions import DecisionSender
from tests.databases.ways import ORDERS, Aiosqlite, DatabaseWay
from tests.transactions.shops import OrderShop
from triggers.transactions import handler_database
from triggers.transactions.handler_database import HandlerDatabase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from broker import Delivered
    from broker.client.calls import RemoteDeliveryConnect

CALLS = ("prepare", "prepare_deliveries", "decide", "settle_deliveries", "commit", "backout")


class Counted:
    """Counts what is done from when it is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        for name in CALLS:
            self._count(monkeypatch, Conversation, name, self.calls)
        self.database: Counter[str] = Counter()
        for name in ("begin", "execute", "commit", "rollback"):
            self._count(monkeypatch, AdapterCalls, name, self.database)

    def _count(self, monkeypatch: pytest.MonkeyPatch, of: type, name: str, into: Counter[str]) -> None:
        made = getattr(of, name)

        def counted(*arguments: Any) -> Any:
            into[name] += 1
            return made(*arguments)

        monkeypatch.setattr(of, name, counted)


def syncs(shop: OrderShop) -> int:
    """The transactions of the journal so far, each of which is one sync."""
    return int(shop.manager.journal.figures()["transactions"])


async def at_rest(shop: OrderShop, orders: list[int]) -> None:
    await shop.come_true(orders)

    async def nothing_waits() -> bool:
        return not shop.manager.journal.figures()["waiting"] and await shop.depth("ORDERS") == 0

    await shop.until(nothing_waits)


async def test_d4_9_a_handled_message_costs_two_syncs_and_two_calls_of_the_queue_manager(
    way: DatabaseWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OrderShop(way, "tcp") as shop:
        shop.handle(concurrency=1)
        async with shop.running():
            await shop.app.put("ORDERS", "1")
            await at_rest(shop, [1])
            await shop.no_markers()
            counted = Counted(monkeypatch)
            before = syncs(shop)
            await shop.app.put("ORDERS", "2")
            await at_rest(shop, [1, 2])
            assert syncs(shop) - before == 3  # the put itself; PREPARE, with the mark of the take; DECIDE
            assert counted.calls == {"prepare_deliveries": 1, "decide": 1}
            assert counted.database["begin"] == 1  # markers are deleted once a second, not now
            assert counted.database["commit"] == 1
            assert counted.database["execute"] == 2  # SAVEPOINT, and RELEASE with the marker


async def test_d4_9_a_producer_costs_two_syncs(way: DatabaseWay, monkeypatch: pytest.MonkeyPatch) -> None:
    async with OrderShop(way) as shop, shop.running():
        await shop.produce(1)
        await shop.no_markers()
        counted, before = Counted(monkeypatch), syncs(shop)
        await shop.produce(2)
        assert syncs(shop) - before == 2  # PREPARE; DECIDE
        assert counted.calls == {"prepare": 1, "decide": 1}


async def test_d4_9_those_of_one_turn_are_prepared_in_one_call_and_decided_in_one() -> None:
    side, decided = QueueManagerSide(), list[bytes]()
    units = [bytes([each]) * 16 for each in range(7)]
    sender = DecisionSender(bytes(16), "orders", lambda unit, _: decided.append(unit))
    database = database_on(side, sender)
    connection: Any = side
    await asyncio.gather(*(database.prepare(PreparedDelivery(each, Settlement(1, 0))) for each in units))
    await asyncio.gather(*(sender.send(connection, Decision(each, commit=True)) for each in units))
    assert side.calls == [("prepare", 7), ("decide", 7)]
    assert decided == units


@pytest.mark.parametrize(
    ("others", "order_by", "flags", "commit", "waits"),
    [
        (1, "", 0, True, True),
        (1, "group_id", 0, True, True),
        (0, "", 0, True, False),  # nobody would come whom it could go with
        (1, "*", 0, True, False),  # the next of its order waits for it
        (1, "group_id", MQMF.MSG_IN_GROUP, True, False),
        (1, "group_id", MQMF.LAST_MSG_IN_GROUP | MQMF.MSG_IN_GROUP, True, False),
        (1, "group_id", MQMF.SEGMENT, True, False),
        (1, "", 0, False, False),
    ],
)
async def test_d4_9_a_commit_that_nobody_waits_for_goes_with_what_is_prepared_a_little_later(
    others: int, order_by: str, flags: int, commit: bool, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_database, "DECIDE_WITHIN", 1e6)
    side = QueueManagerSide()
    database = database_on(side, DecisionSender(bytes(16), "orders", lambda *_: None))
    handler = SimpleNamespace(options=SimpleNamespace(order_by=order_by))
    server = SimpleNamespace(runs=set(range(1 + others)), handler=handler)
    answer: Any = SimpleNamespace(msg_flags=int(flags))  # its descriptor is not looked at
    run: Any = SimpleNamespace(server=server, messages=[Message(answer)])
    decided = database.decide(Decision(b"u" * 16, commit), run)
    if not waits:
        await decided
    else:
        assert await database.prepare(PreparedDelivery(b"v" * 16, Settlement(1, 0))) == 0
        another = database.decide(Decision(b"w" * 16, commit), run)
        assert side.calls == [("prepare", 1)]
        monkeypatch.setattr(handler_database, "DECIDE_BEHIND", 0.0)  # they have waited long enough
        assert await database.prepare(PreparedDelivery(b"x" * 16, Settlement(1, 0))) == 0
        assert decided.done()
        assert another.done()
        assert side.calls == [("prepare", 1), ("decide", 2), ("prepare", 1)]


async def test_d4_9_deliveries_are_taken_together_while_the_database_keeps_most_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    take = Deliveries.take

    async def noted(of: Deliveries, count: int = 1) -> list[Delivered]:
        asked.append(count)
        return await take(of, count)

    way = Aiosqlite(tmp_path)
    way.look(ORDERS)
    async with OrderShop(way) as shop:
        shop.handle(concurrency=32)
        async with shop.running():
            monkeypatch.setattr(Deliveries, "take", noted)
            await asyncio.gather(*(shop.app.put("ORDERS", str(number)) for number in range(64)))
            await at_rest(shop, list(range(64)))
    assert len(asked) < 20  # one for each that ended would be over 32
    assert min(asked[1:10]) >= 4


@pytest.mark.parametrize(
    ("places", "beginning", "least"), [(50, 49, 6), (50, 26, 6), (50, 25, 1), (4, 3, 1), (1, 1, 1)]
)
def test_d4_9_a_free_place_waits_for_others_only_while_most_transactions_wait_to_begin(
    places: int, beginning: int, least: int
) -> None:
    database = database_on(QueueManagerSide(), DecisionSender(bytes(16), "orders", lambda *_: None))
    database.beginning = beginning
    assert database.least_free(places) == least


async def test_d4_9_a_connection_is_made_while_the_transaction_begins_where_the_delivery_before_has_used_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connected: list[int] = []
    connect = RemotePort.delivery_connection

    def noted(of: RemotePort, delivery: int, appl_name: str) -> RemoteDeliveryConnect:
        connected.append(delivery)
        return connect(of, delivery, appl_name)

    monkeypatch.setattr(RemotePort, "delivery_connection", noted)
    made_before: list[bool] = []
    async with OrderShop(Aiosqlite(tmp_path), "tcp") as shop:
        app = shop.app

        async def handle(order: str, connection: aiosqlite.Connection) -> None:
            made_before.append(bool(connected))
            if order != "3":
                await app.put("INVOICES", order)

        handle.__annotations__ |= {"order": str, "connection": aiosqlite.Connection, "return": None}
        app.handler("ORDERS", database=shop.database, concurrency=1)(handle)
        async with shop.running():
            for number in range(1, 6):
                connected.clear()
                await app.put("ORDERS", str(number))
                await shop.until(partial(handled, shop, number, made_before))
            assert await shop.invoices() == ["1", "2", "4", "5"]
    assert made_before == [False, True, True, False, True]


async def handled(shop: OrderShop, count: int, seen: Sequence[bool]) -> bool:
    """True when so many orders were handled, all but the third with an invoice that is there."""
    invoices = count if count < 3 else count - 1
    return (len(seen), await shop.depth("ORDERS"), len(await shop.invoices())) == (count, 0, invoices)


class QueueManagerSide:
    """A queue manager that does all at once, and counts its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    async def prepare(self, database: bytes, prepared: Sequence[PreparedDelivery], name: str = "") -> list[int]:
        self.calls.append(("prepare", len(prepared)))
        return [0] * len(prepared)

    async def decide(self, database: bytes, decisions: Sequence[Decision]) -> list[int]:
        self.calls.append(("decide", len(decisions)))
        return [0] * len(decisions)


def database_on(side: QueueManagerSide, sender: DecisionSender) -> HandlerDatabase:
    """The database of a handler whose deliveries are that side's."""
    coordinator: Any = SimpleNamespace(
        opened=SimpleNamespace(id=bytes(16)), name="orders", decisions=sender, decide=sender.send
    )
    absence: Any = None
    connection: Any = side
    return HandlerDatabase(coordinator, absence, connection, side)


def test_an_app_without_a_database_loads_nothing_of_it(tmp_path: Path) -> None:
    """In a process of its own."""
    program = (
        "import asyncio, sys\n"
        "from triggers import App\n"
        "app = App(sys.argv[1], name='X')\n"
        "@app.handler('ORDERS')\n"
        "async def handle(order: str) -> None: ...\n"
        "async def main():\n"
        "    async with app.running():\n"
        "        await app.put('ORDERS', '1')\n"
        "asyncio.run(main())\n"
        "loaded = [each for each in sys.modules if each.startswith(('broker.databases', 'broker.transactions', "
        "'triggers.transactions', 'broker.engine.external.preparing'))]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "data")], check=True, timeout=60)
