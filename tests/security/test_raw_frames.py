"""Frames of a program that knows too much: numbers and names of others are no rights (security 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.interface.port import answer
from broker.mqi import MQOO, MQRC, ObjectDescriptor, PutMessageOptions
from broker.mqi.delivery_fields import NO_EXTRAS, Outcome, ServiceOptions, Settlement
from broker.wire import Verb
from broker.wire.delivery_wire import packed_settlements
from broker.wire.structures import object_fields, packed_put_options
from broker.wire.verbs import BY_VERB
from tests.engine.writer import Writer, rows_of
from tests.security.lines import listening, users

if TYPE_CHECKING:
    from tests.security.lines import Program

OTHERS = """
DEFINE QLOCAL(OTHER) TRIGGER TRIGTYPE(EVERY) PROCESS(WORK)
DEFINE PROCESS(WORK)
DEFINE QLOCAL(SERVED) TRIGGER TRIGTYPE(EVERY) PROCESS(WORK)
"""
OTHER_Q = ObjectDescriptor(object_name="OTHER")
OTHER = object_fields(OTHER_Q)
PUT = packed_put_options(PutMessageOptions())

FORBIDDEN: dict[Verb, tuple[Any, ...]] = {
    Verb.OPEN: (OTHER, int(MQOO.OUTPUT)),
    Verb.PUT1: tuple(BY_VERB[Verb.PUT1].items((OTHER_Q, None, PutMessageOptions(), NO_EXTRAS, b"x"))),
    Verb.MQSC: (False, "DISPLAY QMGR"),
    Verb.STATUS: (),
    Verb.BACKUP: ("/tmp/stolen",),
    Verb.TRIGGER_TAKE: ("OTHER", 1),
    Verb.TRIGGER_SWEEP: (),
    Verb.EXPLAIN: ("OTHER", None, None, None),
    Verb.CONSUMER: ("MINE", ["OTHER"]),
    Verb.QUEUE_RANGES: (["OTHER"],),
    Verb.BROWSE_RANGE: ("OTHER", 0, 9, None, None, None),
    Verb.BROWSE_CUTS: ("OTHER", 0, 9, 1, 1),
    Verb.RELEASE_WAITING: ("OTHER", None),
    Verb.SERVE: ("OTHER", list(ServiceOptions())),
}
"""Frames that a user who has CONNECT alone may not send."""


async def test_x7_2_no_verb_does_anything_for_a_user_without_the_right() -> None:
    async with listening(users() + OTHERS) as listener:
        program = await listener.bob()
        before = listener.manager.core.objects.changes
        for verb, values in FORBIDDEN.items():
            assert await refused(program, verb, *values) == MQRC.NOT_AUTHORIZED, verb.name
        assert listener.manager.core.objects.changes == before
        assert not listener.manager.core.objects.queues["OTHER"].shelf.entries
        program.close()


async def refused(program: Program, verb: Verb, *values: Any) -> int:
    """The reason with which a call is refused."""
    frame = await program.call(verb, *values)
    assert frame[0] == Verb.FAILED, frame
    reason: int = frame[3]
    return reason


async def test_x7_2_the_uuid_of_anothers_consumer_is_no_right() -> None:
    async with listening(users() + OTHERS) as listener, listener.manager.connect("owner") as owner:
        await owner.put1("OTHER", b"x")
        made = await owner.claims.consumer("C", ("OTHER",))
        mine = await owner.claims.register(made.uuid)
        last = await owner.claims.claim(made.uuid, mine.generation, 0, 10, 1000)
        await owner.claims.pin(made.uuid, mine.generation, mine.lineage, 0, last)
        program = await listener.bob()
        for verb, values in {
            Verb.CONSUMER: ("C", ["OTHER"]),
            Verb.REGISTER: (made.uuid, mine.lineage, 0, last, True),
            Verb.CLAIM: (made.uuid, mine.generation, 0, 1, 1, None, False),
            Verb.PIN: (made.uuid, mine.generation, mine.lineage, 0, last),
            Verb.READ_CLAIMED: (made.uuid, mine.generation, 0, last),
            Verb.ACKNOWLEDGE: (made.uuid, mine.generation, last),
            Verb.RELEASE: (made.uuid, mine.generation),
        }.items():
            assert await refused(program, verb, *values) == MQRC.NOT_AUTHORIZED, verb.name
        assert len(listener.manager.core.objects.queues["OTHER"].shelf.entries) == 1
        program.close()


async def test_x7_2_the_lease_the_service_the_delivery_and_the_handle_of_another_are_no_rights() -> None:
    async with listening(users() + OTHERS) as listener, listener.manager.connect("owner") as owner:
        port: Any = owner.port
        await owner.put1("OTHER", b"x")
        await owner.put1("SERVED", b"x")
        (lease,) = await answer(port.trigger_take("OTHER", 1))
        service = (await answer(port.serve("SERVED", ServiceOptions()))).service
        taken = await answer(port.take_deliveries(service, 1))
        delivery = taken.deliveries[0].id
        queue = await owner.open("OTHER", MQOO.OUTPUT)
        program = await listener.bob()
        program.line.say(Verb.TRIGGER_DONE, 1, 0, [lease.id])
        program.line.say(Verb.TRIGGER_RETURN, 1, 0, [lease.id])
        assert await refused(program, Verb.TRIGGER_TAKE, "OTHER", 1) == MQRC.NOT_AUTHORIZED
        for verb, values in {
            Verb.TAKE: (service, 1),
            Verb.STOP_SERVING: (service,),
            Verb.PUT: (queue.opened.hobj, None, PUT, b"x"),
        }.items():
            assert await refused(program, verb, *values) == MQRC.HOBJ_ERROR, verb.name
        settled = await program.call(Verb.SETTLE, *packed_settlements([Settlement(delivery, Outcome.DONE)]))
        assert settled[0] == Verb.FAILED or settled[3:] != [], settled
        stolen = await program.call(Verb.DELIVERY_CONNECT, 1, delivery, "thief", conversation=2)
        assert (stolen[0], stolen[3]) == (Verb.FAILED, MQRC.HOBJ_ERROR)
        assert listener.manager.core.triggers.leases.held_by(port.hconn)
        assert listener.manager.core.deliveries.any_of(port.hconn)
        assert len(listener.manager.core.objects.queues["SERVED"].shelf.entries) == 1
        await queue.close()
        program.close()


async def test_x7_2_a_unit_staged_for_the_queue_of_another_is_not_published_or_discarded() -> None:
    async with listening(users()) as listener, listener.manager.connect("owner") as owner:
        await listener.command("DELETE AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob')")
        writer = Writer(owner.port)
        unit = writer.unit(0)
        await writer.piece(unit, rows_of("A"), last=True)
        program = await listener.bob()
        assert await refused(program, Verb.SINK, writer.sink) == MQRC.NOT_AUTHORIZED
        assert listener.manager.core.sinks is not None
        program.close()


@pytest.mark.parametrize("number", [0, 2, 99])
async def test_x7_2_the_number_of_a_conversation_of_another_line_is_unknown(number: int) -> None:
    async with listening(users()) as listener:
        first, second = await listener.bob(), await listener.dial()
        assert (await second.call(Verb.COMMIT, conversation=number))[3] == MQRC.HCONN_ERROR
        assert (await second.call(Verb.COMMIT, conversation=1))[3] == MQRC.HCONN_ERROR
        for each in (first, second):
            each.close()
