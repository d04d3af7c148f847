"""Units of work that a database of a program's own decides, over restarts and crashes (transactions rules 1 to 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from broker.mqi import MQGMO, MQPMO, MQRC
from broker.mqi.delivery_fields import Outcome, Settlement
from broker.mqi.external_units import Decided, Decision, PreparedDelivery
from tests.conformance.expect import ALL, drained, fails

if TYPE_CHECKING:
    from tests.conformance.crashes import DurableSystem
    from tests.conformance.system import System

UNIT, OTHER, DATABASE = b"u" * 16, b"o" * 16, b"d" * 16
SERVED = """
DEFINE PROCESS(P)
DEFINE QLOCAL(W) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)
DEFINE QLOCAL(OUT) DEFPSIST(YES)
"""


async def in_doubt(system: System) -> None:
    """UNIT has put "new" to OUT and got "got" from it, OTHER is a delivery of W that has put "done" to OUT."""
    await system.mqsc(SERVED)
    program = await system.connect()
    async with program.open("OUT", ALL) as out:
        await out.put("got")
        await out.get(options=MQGMO.SYNCPOINT)
        await out.put("new", options=MQPMO.SYNCPOINT)
        await program.prepare(UNIT, DATABASE, "orders")
        with fails(MQRC.NO_MSG_AVAILABLE):
            await out.get()
    await program.put1("W", "work")
    async with program.deliveries("W") as deliveries:
        (taken,) = await deliveries.take()
        own = await deliveries.connect(taken)
        await own.put1("OUT", "done")
        prepared = PreparedDelivery(OTHER, Settlement(taken.id, Outcome.DONE))
        assert await deliveries.prepare(DATABASE, [prepared], "orders") == [0]
    assert await program.in_doubt(DATABASE, [UNIT, OTHER, DATABASE]) == [UNIT, OTHER]
    await program.disconnect()


async def decided(system: System, *, commit: bool) -> list[bytes]:
    """A resolver decides; what is on OUT then, and on W."""
    resolver = await system.connect("resolver")
    doubts = await resolver.doubts(DATABASE)
    assert sorted(each.unit for each in doubts) == [OTHER, UNIT]
    decisions = [Decision(each.unit, commit=commit) for each in doubts]
    assert await resolver.decide(DATABASE, decisions) == [Decided.DONE] * 2
    assert await resolver.decide(DATABASE, decisions) == [Decided.UNKNOWN] * 2
    assert await resolver.in_doubt(DATABASE, [UNIT, OTHER]) == []
    assert system.depth("W") == (0 if commit else 1)
    async with resolver.open("OUT", ALL) as out, resolver.open("W", ALL) as work:
        left = await drained(out)
        await drained(work)
    await resolver.disconnect()
    return left


@pytest.mark.parametrize("commit", [True, False])
async def test_what_is_in_doubt_is_decided_by_who_sees_the_database(system: System, commit: bool) -> None:
    await in_doubt(system)
    assert await decided(system, commit=commit) == ([b"new", b"done"] if commit else [b"got"])


@pytest.mark.parametrize("commit", [True, False])
async def test_what_is_in_doubt_is_there_after_a_restart(system: System, commit: bool) -> None:
    """Its got message was nonpersistent, where the queue does not say otherwise (transactions rule 2.1)."""
    await in_doubt(system)
    await system.restart()
    assert await decided(system, commit=commit) == ([b"new", b"done"] if commit else [b"got"])
    await system.restart()
    assert (system.depth("W"), system.depth("OUT")) == (0, 0)


@pytest.mark.parametrize("commit", [True, False])
async def test_what_is_in_doubt_is_there_after_a_crash(durable: DurableSystem, commit: bool) -> None:
    await in_doubt(durable)
    await durable.crash()
    assert await decided(durable, commit=commit) == ([b"new", b"done"] if commit else [b"got"])
    await durable.crash()
    resolver = await durable.connect("resolver")
    assert await resolver.doubts(DATABASE, wait=False) == []
    assert (durable.depth("W"), durable.depth("OUT")) == (0, 0)


@pytest.mark.parametrize("action", ["COMMIT", "BACKOUT"])
async def test_d2_6_what_an_administrator_has_decided_is_known_after_a_crash(
    durable: DurableSystem, action: str
) -> None:
    """Behind the answer to RESOLVE, and after an orderly restart (transactions rule 2.4)."""
    otherwise = action == "BACKOUT"
    reason = MQRC.UOW_CANCELED if otherwise else MQRC.UOW_COMMITTED
    await in_doubt(durable)
    units = [UUID(bytes=unit) for unit in (UNIT, OTHER)]
    replies = [await durable.mqsc(f"RESOLVE INDOUBT('{unit}') ACTION({action})") for unit in units]
    assert [reply.code for each in replies for reply in each] == ["EMQ0005I"] * 2
    for again in (durable.crash, durable.restart, durable.crash):
        await again()
        resolver = await durable.connect("resolver")
        assert await resolver.doubts(DATABASE, wait=False) == []
        decisions = [Decision(unit, commit=otherwise) for unit in (UNIT, OTHER)]
        assert await resolver.decide(DATABASE, decisions) == [reason] * 2
        agreed = [Decision(unit, commit=not otherwise) for unit in (UNIT, OTHER)]
        assert await resolver.decide(DATABASE, agreed) == [Decided.UNKNOWN] * 2
        assert await resolver.decide(OTHER, decisions) == [Decided.UNKNOWN] * 2  # of another database
    assert durable.depth("W") == (1 if otherwise else 0)
