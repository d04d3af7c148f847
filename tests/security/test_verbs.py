"""The right that each call needs (security 7)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from broker.core.security.rights import Q, Right
from broker.interface.claims.claims import BrowseSelection, Winner
from broker.interface.port import answer
from broker.mqi import MQOO, MQRC, MQError, ObjectDescriptor
from broker.mqi.delivery_fields import ServiceOptions
from broker.wire import verbs
from broker.wire.frames import Verb
from tests.engine.writer import Writer, rows_of
from tests.exposition import samples
from tests.security.world import MANAGER, Rights, World, world

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.engine.conversation import Conversation

UNIT = "prepared"


class Case(NamedTuple):
    """A call, and the rights that it needs beside CONNECT. It is prepared by the owner."""

    call: Callable[[Conversation, World, Any], Awaitable[object]]
    needs: Rights
    prepare: Callable[[World], Awaitable[Any]] | None = None


async def served(it: World) -> None:
    for reply in await it.owner.mqsc(
        "ALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(WORK)\nDEFINE QLOCAL(DEAD) DEFPSIST(NO)"
    ):
        assert reply.ok


async def pending(it: World) -> None:
    await served(it)
    await it.owner.put1("Q", b"x")


async def consumer(it: World) -> Any:
    """A consumer of Q that has claimed a message."""
    await it.owner.put1("Q", b"x")
    claims = it.owner.claims
    made = await claims.consumer("C", ("Q",))
    registered = await claims.register(made.uuid)
    last = await claims.claim(made.uuid, registered.generation, 0, 10, 1000)
    await claims.pin(made.uuid, registered.generation, registered.lineage, 0, last)
    return made.uuid, registered


async def staged(it: World) -> Any:
    """A unit with a message for Q."""
    writer = Writer(it.owner.port)
    unit = writer.unit(0)
    await writer.piece(unit, rows_of("A"), last=True)
    return writer, unit


def of_q(right: Right) -> Rights:
    return {(Q, "Q"): right}


async def _staging(port: Conversation, it: World, _: Any) -> None:
    writer = Writer(port)
    await writer.piece(writer.unit(0), rows_of("A"), last=True)


CASES: dict[Verb, Case] = {
    Verb.OPEN: Case(lambda p, *_: answer(p.open(ObjectDescriptor(object_name="Q"), MQOO.OUTPUT)), of_q(Right.PUT)),
    Verb.MQSC: Case(lambda p, *_: answer(p.mqsc("DISPLAY QMGR")), {MANAGER: Right.DSP}),
    Verb.STATUS: Case(lambda p, *_: answer(p.status()), {MANAGER: Right.DSP}),
    Verb.FIGURES: Case(lambda p, *_: answer(p.figures("*", "queue", "evermq", 9)), {MANAGER: Right.DSP}),
    Verb.TRIGGER_TAKE: Case(lambda p, *_: answer(p.trigger_take("Q", 1)), of_q(Right.GET), pending),
    Verb.TRIGGER_SWEEP: Case(lambda p, *_: answer(p.trigger_sweep()), {MANAGER: Right.CTRL}),
    Verb.EXPLAIN: Case(lambda p, *_: answer(p.explain("Q", None, None, None)), of_q(Right.DSP)),
    Verb.CONSUMER: Case(lambda p, *_: answer(p.consumer("NEW", ["Q"])), of_q(Right.GET)),
    Verb.REGISTER: Case(lambda p, _, c: answer(p.register(c[0], c[1].lineage, 0, 1)), of_q(Right.GET), consumer),
    Verb.CLAIM: Case(
        lambda p, _, c: answer(p.claim(c[0], c[1].generation, 1, 1, 1, before=None, whole=False)),
        of_q(Right.GET),
        consumer,
    ),
    Verb.PIN: Case(lambda p, _, c: answer(p.pin(c[0], c[1].generation, c[1].lineage, 0, 1)), of_q(Right.GET), consumer),
    Verb.READ_CLAIMED: Case(
        lambda p, _, c: answer(p.read_claimed(c[0], c[1].generation, 0, 1)), of_q(Right.GET), consumer
    ),
    Verb.ACKNOWLEDGE: Case(lambda p, _, c: answer(p.acknowledge(c[0], c[1].generation, 1)), of_q(Right.GET), consumer),
    Verb.RELEASE: Case(lambda p, _, c: answer(p.release(c[0], c[1].generation)), of_q(Right.GET), consumer),
    Verb.QUEUE_RANGES: Case(lambda p, *_: answer(p.queue_ranges(["Q"])), of_q(Right.BROWSE)),
    Verb.BROWSE_RANGE: Case(
        lambda p, *_: answer(p.browse_range("Q", 0, 9, BrowseSelection(None, None, None))), of_q(Right.BROWSE)
    ),
    Verb.BROWSE_CUTS: Case(lambda p, *_: answer(p.browse_cuts("Q", 0, 9, 1, 1)), of_q(Right.BROWSE)),
    Verb.SINK: Case(lambda p, _, s: answer(p.sink(s[0].sink)), of_q(Right.PUT), staged),
    Verb.STAGE: Case(_staging, of_q(Right.PUT)),
    Verb.PUBLISH: Case(
        lambda p, _, s: answer(p.publish(s[0].sink, 0, s[0].query, [Winner(s[1], 1)])), of_q(Right.PUT), staged
    ),
    Verb.DISCARD: Case(lambda p, _, s: answer(p.discard([s[1]])), of_q(Right.PUT), staged),
    Verb.RELEASE_WAITING: Case(lambda p, *_: answer(p.release_delayed("Q", None)), of_q(Right.GET)),
    Verb.SERVE: Case(
        lambda p, *_: answer(p.serve("Q", ServiceOptions(dead_letter="DEAD"))),
        {(Q, "Q"): Right.GET, (Q, "DEAD"): Right.PUT | Right.PASSALL},
        served,
    ),
}

OF_THE_HANDLE = {
    Verb.PUT, Verb.PUT_MANY, Verb.GET, Verb.GET_MANY, Verb.INQUIRE, Verb.SET, Verb.CLOSE, Verb.BEGIN, Verb.COMMIT,
    Verb.BACKOUT, Verb.DISCONNECT, Verb.PREPARE,
}  # fmt: skip
"""Verbs that an open handle, or the connection itself, allows; a close that deletes is in `test_opens`."""

OF_THE_CONNECTION = {
    Verb.TAKE,
    Verb.SETTLE,
    Verb.STOP_SERVING,
    Verb.DELIVERY_CONNECT,
    Verb.STEP,
    Verb.SERIALIZE,
    Verb.TRIGGER_WAIT,
    Verb.AUTHENTICATE,
    Verb.PREPARE_DELIVERIES,
    Verb.DECIDE,
    Verb.DOUBTS,
    Verb.IN_DOUBT,
}
"""Verbs about things that are numbered for each connection, or that need CONNECT alone."""

ELSEWHERE = {
    Verb.CONNECT, Verb.PUT1, Verb.TRIGGER_PENDING, Verb.BACKUP, Verb.AUTHENTICATE, Verb.EXPLAIN_OPEN,
    Verb.EXPLAIN_CONNECT, Verb.OWN_USER, Verb.RECENT_LOG,
}  # fmt: skip
"""Verbs with tests of their own."""


def test_x7_1_each_verb_has_a_right() -> None:
    assert {*CASES, *OF_THE_HANDLE, *OF_THE_CONNECTION, *ELSEWHERE} == {row.verb for row in verbs.ROWS}
    for row in verbs.ROWS:
        needs = CASES[row.verb].needs if row.verb in CASES else {}
        words = {right.name.lower() for rights in needs.values() for right in rights if right.name is not None}
        assert words <= set(re.findall(r"[a-z]+", row.right)) or row.right.startswith("those of"), row
        assert row.right, row


@pytest.mark.parametrize("verb", CASES, ids=[verb.name for verb in CASES])
async def test_x7_1_each_call_needs_its_right(verb: Verb) -> None:
    case = CASES[verb]
    async with world() as it:
        prepared = None if case.prepare is None else await case.prepare(it)
        for where, rights in case.needs.items():
            for right in rights:
                _give(it, {**case.needs, where: rights & ~right})
                async with it.connect("alice") as connection:
                    with pytest.raises(MQError) as refused:
                        await case.call(connection.port, it, prepared)  # type: ignore[arg-type]
                    assert (refused.value.reason, refused.value.detail) == (MQRC.NOT_AUTHORIZED, "not authorized")
        _give(it, case.needs)
        async with it.connect("alice") as connection:
            await case.call(connection.port, it, prepared)  # type: ignore[arg-type]


def _give(it: World, rights: Rights) -> None:
    it.give("alice", {**rights, MANAGER: rights.get(MANAGER, Right.NONE) | Right.CONNECT})


async def test_x7_1_a_backup_is_for_administrators(tmp_path: Path) -> None:
    async with world() as it:
        it.let_connect("alice", on_manager=Right.CHG | Right.DSP | Right.CTRL | Right.SYSTEM)
        async with it.connect("alice") as connection:
            with pytest.raises(MQError) as refused:
                await connection.backup(tmp_path / "copy")
            assert refused.value.reason == MQRC.NOT_AUTHORIZED
        assert not (tmp_path / "copy").exists()


async def test_x7_1_the_log_is_for_administrators() -> None:
    async with world() as it:
        it.manager.recent_log = lambda after, size: (1, 1, ["a line"][after:])
        it.let_connect("alice", on_manager=Right.CHG | Right.DSP | Right.CTRL | Right.SYSTEM)
        async with it.connect("alice") as connection:
            with pytest.raises(MQError) as refused:
                await connection.recent_log()
            assert refused.value.reason == MQRC.NOT_AUTHORIZED
        assert await it.owner.recent_log() == ["a line"]


async def test_x7_1_starts_are_shown_to_whom_may_take_them() -> None:
    async with world() as it:
        await pending(it)
        it.let_connect("alice")
        async with it.connect("alice") as connection:
            assert (await answer(connection.port.trigger_pending())).queues == []
            it.let_connect("alice", {"Q": Right.GET})
            assert [each.q_name for each in (await answer(connection.port.trigger_pending())).queues] == ["Q"]


async def test_x7_2_a_generic_consumer_claims_from_queues_that_may_be_got_from() -> None:
    async with world() as it:
        for q_name in ("OTHER", "Q"):
            await it.owner.put1(q_name, q_name.encode())
        it.let_connect("alice", {"Q": Right.GET})
        async with it.connect("alice") as connection, connection.consumer("ALL", "*") as all_of_them:
            batch = await all_of_them.claim(10)
            assert [message.data async for message in batch] == [b"Q"]


async def test_x7_2_claims_of_another_with_more_rights_stay_his() -> None:
    async with world() as it:
        await it.owner.put1("OTHER", b"secret")
        claims = it.owner.claims
        made = await claims.consumer("ALL", ("*",))
        registered = await claims.register(made.uuid)
        last = await claims.claim(made.uuid, registered.generation, 0, 10, 1000)
        await claims.pin(made.uuid, registered.generation, registered.lineage, 0, last)
        it.let_connect("alice", {"Q": Right.GET})
        async with it.connect("alice") as connection:
            for call in (
                connection.claims.read(made.uuid, registered.generation, 0, last),
                connection.claims.acknowledge(made.uuid, registered.generation, last),
                connection.claims.release(made.uuid, registered.generation),
                connection.claims.register(made.uuid),
            ):
                with pytest.raises(MQError) as refused:
                    await call
                assert refused.value.reason == MQRC.NOT_AUTHORIZED


async def test_x7_1_figures_are_of_queues_that_may_be_displayed() -> None:
    async with world() as it:
        await consumer(it)
        it.let_connect("alice", {"OTHER": Right.DSP}, Right.DSP)
        async with it.connect("alice") as connection:
            status = await connection.status()
        assert [queue["name"] for queue in status["queues"]] == ["OTHER"]
        assert status["consumers"] == []


async def test_x7_1_a_scrape_is_of_queues_that_may_be_displayed() -> None:
    async with world() as it:
        await consumer(it)
        it.let_connect("alice", {"OTHER": Right.DSP}, Right.DSP)
        async with it.connect("alice") as connection:
            found = samples(await connection.figures())
        shown = {name for name in found if name.startswith("evermq_queue_depth{")}
        assert shown == {'evermq_queue_depth{queue="OTHER"}'}
        assert not any(name.startswith("evermq_consumer") for name in found)
        assert 'evermq_consumer_claimed{consumer="C"}' in samples(await it.owner.figures())


async def test_x7_1_who_else_uses_a_queue_is_told_to_whom_may_display_the_queue_manager() -> None:
    async with world() as it:
        await consumer(it)
        for on_manager, named in ((Right.NONE, False), (Right.DSP, True)):
            it.let_connect("alice", {"Q": Right.DSP}, on_manager)
            async with it.connect("alice") as connection:
                findings = (await connection.explain("Q")).findings
            claimed = next(each for each in findings if each.code == "CLAIMED")
            assert claimed.figures["messages"] == 1
            assert ("consumer" in claimed.figures) is named
            assert ("C," in claimed.text) is named
