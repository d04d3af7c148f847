"""The cost of a transaction, counted: syncs of the journal, calls of the queue manager, statements (D4.9)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from broker.databases.calls import AdapterCalls
from broker.engine.conversation import Conversation
from broker.mqi import Settlement
from broker.transactions import Decision, PreparedDelivery
from broker.transactions.decisions import DecisionSender
from tests.databases.ways import DatabaseWay
from tests.transactions.shops import OrderShop
from triggers.transactions.handler_database import HandlerDatabase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
            await shop.mqsc("ALTER QLOCAL(ORDERS) NOHARDENBO")  # else the take writes a mark, as for any handler
            await shop.app.put("ORDERS", "1")
            await at_rest(shop, [1])
            await shop.no_markers()
            counted = Counted(monkeypatch)
            before = syncs(shop)
            await shop.app.put("ORDERS", "2")
            await at_rest(shop, [1, 2])
            assert syncs(shop) - before == 3  # the put itself; PREPARE; DECIDE
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
    calls: list[tuple[str, int]] = []

    class QueueManagerSide:
        async def prepare(self, database: bytes, prepared: Sequence[PreparedDelivery], name: str = "") -> list[int]:
            calls.append(("prepare", len(prepared)))
            return [0] * len(prepared)

        async def decide(self, database: bytes, decisions: Sequence[Decision]) -> list[int]:
            calls.append(("decide", len(decisions)))
            return [0] * len(decisions)

    side, decided = QueueManagerSide(), list[bytes]()
    units = [bytes([each]) * 16 for each in range(7)]
    sender = DecisionSender(bytes(16), "orders", lambda unit, _: decided.append(unit))
    coordinator: Any = SimpleNamespace(opened=SimpleNamespace(id=bytes(16)), name="orders")
    connection: Any = side
    absence: Any = None
    database = HandlerDatabase(coordinator, absence, connection, side)
    await asyncio.gather(*(database.prepare(PreparedDelivery(each, Settlement(1, 0))) for each in units))
    await asyncio.gather(*(sender.send(connection, Decision(each, commit=True)) for each in units))
    assert calls == [("prepare", 7), ("decide", 7)]
    assert decided == units


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
