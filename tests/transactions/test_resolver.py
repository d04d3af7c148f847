"""A resolver whose question comes late: somebody else has decided the unit, and its marker is gone (D1.4)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from broker.mqi.external_units import Decision, Doubt
from broker.testing import VirtualClock, settle
from broker.transactions.decisions import DecisionSender
from broker.transactions.resolver import AGAIN_MIN, Resolver

if TYPE_CHECKING:
    from collections.abc import Sequence

UNIT = bytes(range(16))


class UndecidedDatabase:
    """A database whose transaction has not ended when it is asked first; its marker is gone when it is asked again."""

    id = bytes(16)
    label = "orders"
    asked = 0

    async def probe(self, unit: bytes, q_mgr: str) -> bool | None:
        self.asked += 1
        return None if self.asked == 1 else False


class ResolverConnection:
    """A connection of a resolver: the unit is left once, and decided by somebody else meanwhile or not."""

    q_mgr_instance = "q_mgr"

    def __init__(self, *, still_in_doubt: bool) -> None:
        self.decided: list[Decision] = []
        self._still = still_in_doubt
        self._left = [Doubt(UNIT, 0.0)]

    async def doubts(self, database: bytes, wait: bool = True) -> list[Doubt]:
        if self._left:
            return [self._left.pop()]
        await asyncio.get_running_loop().create_future()
        return []

    async def in_doubt(self, database: bytes, units: Sequence[bytes]) -> list[bytes]:
        return list(units) if self._still else []

    async def decide(self, database: bytes, decisions: Sequence[Decision]) -> list[int]:
        self.decided += decisions
        return [0] * len(decisions)


async def asked_again(*, still_in_doubt: bool) -> tuple[int, list[Decision]]:
    """How often the database is asked, and what is decided, when the time has come to ask again."""
    clock, database = VirtualClock(), UndecidedDatabase()
    connection: Any = ResolverConnection(still_in_doubt=still_in_doubt)
    opened: Any = database
    resolver = Resolver(opened, clock, DecisionSender(database.id, "orders", lambda *_: None), connection)
    running = asyncio.get_running_loop().create_task(resolver.run())
    await settle(20)
    await clock.advance(AGAIN_MIN)
    await settle(20)
    running.cancel()
    await asyncio.wait((running,))
    return database.asked, connection.decided


async def test_d1_4_a_unit_that_was_decided_meanwhile_is_not_asked_for_again() -> None:
    assert await asked_again(still_in_doubt=False) == (1, [])


async def test_d1_4_a_unit_that_is_in_doubt_still_is_asked_for_until_the_database_tells() -> None:
    assert await asked_again(still_in_doubt=True) == (2, [Decision(UNIT, commit=False)])
