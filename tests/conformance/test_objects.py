"""Opening, inquiring, setting; attributes that bound what a queue takes (semantics 9, 12.1 and 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import (
    MQCA,
    MQCO,
    MQGMO,
    MQIA,
    MQOO,
    MQOT,
    MQPMO,
    MQQT,
    MQRC,
    MessageDescriptor,
    ObjectDescriptor,
)
from tests.conformance.expect import ALL, browsed, drained, fails

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker import Connection, Queue
    from tests.conformance.system import System


# Opening and closing


@pytest.mark.parametrize(
    ("held", "wanted", "reason"),
    [
        (MQOO.INPUT_SHARED, MQOO.INPUT_SHARED, None),
        (MQOO.INPUT_SHARED, MQOO.INPUT_EXCLUSIVE, MQRC.OBJECT_IN_USE),
        (MQOO.INPUT_EXCLUSIVE, MQOO.INPUT_SHARED, MQRC.OBJECT_IN_USE),
        (MQOO.INPUT_EXCLUSIVE, MQOO.INPUT_EXCLUSIVE, MQRC.OBJECT_IN_USE),
        (MQOO.INPUT_EXCLUSIVE, MQOO.BROWSE | MQOO.OUTPUT | MQOO.INQUIRE | MQOO.SET, None),
        (MQOO.BROWSE | MQOO.OUTPUT, MQOO.INPUT_EXCLUSIVE, None),
    ],
)
async def test_t9_1_who_may_share_a_queue(
    connection: Connection, other: Connection, held: MQOO, wanted: MQOO, reason: MQRC | None
) -> None:
    first = await connection.open("Q", held)
    if reason is None:
        await other.open("Q", wanted)
        return
    with fails(reason):
        await other.open("Q", wanted)
    await first.close()
    await other.open("Q", wanted)


async def test_t9_1_a_queue_that_is_not_shareable_has_one_input_handle(
    system: System, connection: Connection, other: Connection
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) NOSHARE")
    await connection.open("Q", MQOO.INPUT_SHARED)
    with fails(MQRC.OBJECT_IN_USE):
        await other.open("Q", MQOO.INPUT_SHARED)


async def test_t13_6_the_default_input_option_may_be_exclusive(
    system: System, connection: Connection, other: Connection
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) DEFSOPT(EXCL)")
    await connection.open("Q", MQOO.INPUT_AS_Q_DEF)
    with fails(MQRC.OBJECT_IN_USE):
        await other.open("Q", MQOO.INPUT_AS_Q_DEF)


@pytest.mark.parametrize(
    "options",
    [0, MQOO.FAIL_IF_QUIESCING, MQOO.INPUT_SHARED | MQOO.INPUT_EXCLUSIVE, MQOO.OUTPUT | MQOO.SAVE_ALL_CONTEXT, 1 << 30],
    ids=hex,
)
async def test_t9_2_open_options_that_make_no_sense_are_refused(connection: Connection, options: int) -> None:
    with fails(MQRC.OPTIONS_ERROR):
        await connection.open("Q", options)


@pytest.mark.parametrize(
    ("opened", "call", "reason"),
    [
        (MQOO.OUTPUT, lambda queue: queue.get(), MQRC.NOT_OPEN_FOR_INPUT),
        (MQOO.INPUT_SHARED, lambda queue: queue.put(b"A"), MQRC.NOT_OPEN_FOR_OUTPUT),
        (MQOO.INPUT_SHARED, lambda queue: queue.get(options=MQGMO.BROWSE_FIRST), MQRC.NOT_OPEN_FOR_BROWSE),
    ],
)
async def test_t9_3_a_handle_is_only_for_what_it_was_opened_for(
    connection: Connection, queue: Queue, opened: MQOO, call: Callable[[Queue], Awaitable[object]], reason: MQRC
) -> None:
    await queue.put(b"there")
    async with connection.open("Q", opened) as handle:
        with fails(reason):
            await call(handle)
    assert await drained(queue) == [b"there"]


@pytest.mark.parametrize("name", ["NOSUCH", "", "q", " Q", "Q" * 48])
async def test_t9_4_an_unknown_queue_is_named(connection: Connection, name: str) -> None:
    with fails(MQRC.UNKNOWN_OBJECT_NAME) as caught:
        await connection.open(name, MQOO.OUTPUT)
    assert repr(name) in caught.value.detail


async def test_t9_8_a_predefined_queue_is_not_deleted_by_closing_it(queue: Queue) -> None:
    for options in (MQCO.DELETE, MQCO.DELETE_PURGE):
        with fails(MQRC.OPTION_NOT_VALID_FOR_TYPE):
            await queue.close(options)
    await queue.put(b"A")
    assert await drained(queue) == [b"A"]


async def test_a_queue_is_opened_by_name_or_by_descriptor(system: System, connection: Connection) -> None:
    for name in ("Q", ObjectDescriptor(object_name="Q"), ObjectDescriptor(object_name="Q", object_q_mgr_name="QM1")):
        async with connection.open(name, MQOO.OUTPUT) as queue:
            assert (queue.name, queue.resolved_q_name, queue.resolved_q_mgr_name) == ("Q", "Q", system.q_owner)
            assert queue.reason == MQRC.NONE
    with fails(MQRC.UNKNOWN_REMOTE_Q_MGR):
        await connection.open(ObjectDescriptor(object_name="Q", object_q_mgr_name="QM9"), MQOO.OUTPUT)
    with fails(MQRC.OBJECT_TYPE_ERROR):
        await connection.open(ObjectDescriptor(object_name="Q", object_type=99), MQOO.OUTPUT)


async def test_a_connection_has_so_many_handles(system: System, connection: Connection) -> None:
    await system.mqsc("ALTER QMGR MAXHANDS(2)")
    first = await connection.open("Q", ALL)
    await connection.open("Q", ALL)
    with fails(MQRC.HANDLE_NOT_AVAILABLE):
        await connection.open("Q", ALL)
    await first.close()
    await connection.open("Q", ALL)


async def test_put1_opens_puts_and_closes(system: System, connection: Connection, queue: Queue) -> None:
    placed = await connection.put1("Q", "text", MessageDescriptor(priority=3), persistence=1)
    message = await queue.get()
    assert (message.data, message.md) == (b"text", placed.md)
    assert system.manager.core.objects.queues["Q"].output_count == 1
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.put1("NOSUCH", b"")
    assert system.manager.core.objects.queues["Q"].output_count == 1


# Inquiring and setting


async def test_the_attributes_of_a_queue_are_inquired(system: System, queue: Queue, beside_queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) DESCR('for the tests') MAXDEPTH(7)")
    await queue.put(b"A")
    assert await queue.inquire(
        MQIA.CURRENT_Q_DEPTH, MQIA.MAX_Q_DEPTH, MQIA.OPEN_INPUT_COUNT, MQIA.Q_TYPE, MQCA.Q_NAME, MQCA.Q_DESC
    ) == {
        MQIA.CURRENT_Q_DEPTH: 1,
        MQIA.MAX_Q_DEPTH: 7,
        MQIA.OPEN_INPUT_COUNT: 2,
        MQIA.Q_TYPE: MQQT.LOCAL,
        MQCA.Q_NAME: "Q",
        MQCA.Q_DESC: "for the tests",
    }
    with fails(MQRC.SELECTOR_NOT_FOR_TYPE):
        await queue.inquire(MQIA.TRIGGER_INTERVAL)


async def test_processes_and_the_queue_manager_are_inquired(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE PROCESS(P) APPLICID('app') USERDATA('data')")
    process = await connection.open(ObjectDescriptor(object_name="P", object_type=MQOT.PROCESS), MQOO.INQUIRE)
    assert await process.inquire(MQCA.APPL_ID, MQCA.USER_DATA) == {MQCA.APPL_ID: "app", MQCA.USER_DATA: "data"}
    manager = await connection.open(ObjectDescriptor(object_type=MQOT.Q_MGR), MQOO.INQUIRE)
    assert await manager.inquire(MQCA.Q_MGR_NAME, MQIA.MAX_PRIORITY) == {MQCA.Q_MGR_NAME: "QM1", MQIA.MAX_PRIORITY: 9}
    with fails(MQRC.OPTION_NOT_VALID_FOR_TYPE):
        await connection.open(ObjectDescriptor(object_name="P", object_type=MQOT.PROCESS), MQOO.OUTPUT)
    with fails(MQRC.HOBJ_ERROR):
        await process.get()


async def test_what_is_no_queue_is_opened_without_a_warning(system: System, connection: Connection) -> None:
    """Only the open of a distribution list may have a warning as its reason."""
    await system.mqsc("DEFINE PROCESS(P)")
    process = await connection.open(ObjectDescriptor(object_name="P", object_type=MQOT.PROCESS), MQOO.INQUIRE)
    manager = await connection.open(ObjectDescriptor(object_type=MQOT.Q_MGR), MQOO.INQUIRE)
    assert (process.reason, manager.reason) == (MQRC.NONE, MQRC.NONE)


async def test_setting_attributes_takes_effect_at_once(system: System, queue: Queue, other_queue: Queue) -> None:
    await queue.put(b"A")
    await queue.set({MQIA.INHIBIT_PUT: 1, MQIA.INHIBIT_GET: 1, MQCA.TRIGGER_DATA: "new"})
    with fails(MQRC.PUT_INHIBITED):
        await other_queue.put(b"B")
    with fails(MQRC.GET_INHIBITED):
        await other_queue.get()
    assert await queue.inquire(MQCA.TRIGGER_DATA) == {MQCA.TRIGGER_DATA: "new"}
    await queue.set({MQIA.INHIBIT_PUT: 0, MQIA.INHIBIT_GET: 0})
    await system.rest()
    await other_queue.put(b"B")
    assert await drained(queue) == [b"A", b"B"]


@pytest.mark.parametrize(
    ("selector", "value", "reason"),
    [
        (MQIA.MAX_Q_DEPTH, 5, MQRC.SELECTOR_NOT_FOR_TYPE),
        (MQIA.INHIBIT_GET, 2, MQRC.INHIBIT_VALUE_ERROR),
        (MQIA.TRIGGER_CONTROL, 9, MQRC.TRIGGER_CONTROL_ERROR),
        (MQIA.TRIGGER_TYPE, 99, MQRC.TRIGGER_TYPE_ERROR),
        (MQIA.TRIGGER_DEPTH, 0, MQRC.TRIGGER_DEPTH_ERROR),
        (MQIA.TRIGGER_MSG_PRIORITY, 10, MQRC.TRIGGER_MSG_PRIORITY_ERR),
    ],
)
async def test_a_set_that_is_wrong_sets_nothing(queue: Queue, selector: int, value: int, reason: MQRC) -> None:
    with fails(reason):
        await queue.set({MQIA.INHIBIT_PUT: 1, selector: value})
    assert await queue.inquire(MQIA.INHIBIT_PUT) == {MQIA.INHIBIT_PUT: 0}


# What a queue takes


async def test_t13_1_a_full_queue_takes_no_message(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)")
    for data in (b"A", b"B"):
        await queue.put(data)
    for _ in range(2):
        with fails(MQRC.Q_FULL):
            await queue.put(b"C")
        await queue.get(options=MQGMO.BROWSE_FIRST)
    await queue.get()
    await queue.put(b"C")
    assert await drained(queue) == [b"B", b"C"]


async def test_t13_2_a_message_has_its_greatest_length(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(10)")
    for length in (10, 0):
        await queue.put(b"x" * length)
    with fails(MQRC.MSG_TOO_BIG_FOR_Q):
        await queue.put(b"x" * 11)
    assert await drained(queue) == [b"x" * 10, b""]


async def test_the_queue_manager_has_a_greatest_length_too(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QMGR MAXMSGL(32768)")
    with fails(MQRC.MSG_TOO_BIG_FOR_Q_MGR):
        await queue.put(bytes(32769))
    await queue.put(bytes(32768))


async def test_the_smaller_of_the_two_greatest_lengths_counts(system: System, connection: Connection) -> None:
    await system.mqsc(
        "DEFINE QLOCAL(BIG) MAXMSGL(104857600)\nDEFINE QMODEL(M) MAXMSGL(8388608)\nDEFINE QLOCAL(MORE) LIKE(BIG)"
    )
    async with connection.open("BIG", ALL) as big:
        with fails(MQRC.MSG_TOO_BIG_FOR_Q_MGR):
            await big.put(bytes(4194305))
        await big.put(bytes(4194304))
        await system.mqsc("ALTER QMGR MAXMSGL(4194305)")
        await big.put(bytes(4194305))
        await system.mqsc("ALTER QLOCAL(BIG) MAXMSGL(4194304)")
        with fails(MQRC.MSG_TOO_BIG_FOR_Q):
            await big.put(bytes(4194305))
        assert [len(data) for data in await drained(big)] == [4194304, 4194305]


async def test_t13_4_inhibiting_gets_leaves_units_of_work_alone(
    system: System, connection: Connection, queue: Queue
) -> None:
    await queue.put(b"A")
    await queue.get(options=MQGMO.SYNCPOINT)
    await system.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    await queue.put(b"B")
    await connection.commit()
    assert system.depth() == 1


@pytest.mark.parametrize(
    ("md", "reason"),
    [
        (MessageDescriptor(priority=-2), MQRC.PRIORITY_ERROR),
        (MessageDescriptor(persistence=3), MQRC.PERSISTENCE_ERROR),
        (MessageDescriptor(persistence=-1), MQRC.PERSISTENCE_ERROR),
        (MessageDescriptor(expiry=0), MQRC.EXPIRY_ERROR),
        (MessageDescriptor(expiry=-2), MQRC.EXPIRY_ERROR),
        (MessageDescriptor(msg_type=0), MQRC.MSG_TYPE_ERROR),
        (MessageDescriptor(feedback=-1), MQRC.FEEDBACK_ERROR),
        (MessageDescriptor(msg_type=1), MQRC.MISSING_REPLY_TO_Q),
        (MessageDescriptor(version=3), MQRC.MD_ERROR),
    ],
    ids=lambda value: value.name if isinstance(value, MQRC) else "",
)
async def test_a_descriptor_that_is_wrong_puts_nothing(
    system: System, queue: Queue, md: MessageDescriptor, reason: MQRC
) -> None:
    for options in (MQPMO.NONE, MQPMO.SYNCPOINT):
        with fails(reason):
            await queue.put(b"A", md, options)
    assert system.depth() == 0


async def test_defaults_of_the_queue_complete_the_descriptor(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) DEFPRTY(7) DEFPSIST(YES)")
    assert ((await queue.put(b"")).md.priority, (await queue.put(b"")).md.persistence) == (7, 1)
    await system.mqsc("ALTER QLOCAL(Q) DEFPRTY(0) DEFPSIST(NO)")
    assert ((await queue.put(b"")).md.priority, (await queue.put(b"")).md.persistence) == (0, 0)
    assert [(await queue.get()).md.persistence for _ in range(4)] == [1, 1, 0, 0]


# Expiry


async def test_t12_1_an_expired_message_goes_when_it_is_met(system: System, queue: Queue) -> None:
    await queue.put(b"A", MessageDescriptor(expiry=10))
    await system.pass_time(1.2)
    assert system.depth() == 1
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get()
    assert system.depth() == 0


async def test_t12_2_a_get_tells_how_long_a_message_would_have_lived(system: System, queue: Queue) -> None:
    await queue.put(b"A", MessageDescriptor(expiry=600))
    await system.pass_time(2)
    assert (await queue.get()).md.expiry == 580


async def test_a_message_without_expiry_lives_on(system: System, queue: Queue) -> None:
    await queue.put(b"A")
    await system.pass_time(1000)
    assert (await queue.get()).md.expiry == -1


async def test_expired_messages_are_found_without_anybody_asking(system: System, queue: Queue) -> None:
    for number in range(5):
        await queue.put(b"%d" % number, MessageDescriptor(expiry=10 * (number + 1)))
    await system.pass_time(65)
    assert system.depth() == 0


async def test_a_full_queue_makes_room_of_what_has_expired(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
    await queue.put(b"A", MessageDescriptor(expiry=10))
    await system.pass_time(2)
    await queue.put(b"B")
    assert await drained(queue) == [b"B"]


async def test_a_browse_passes_expired_messages_by(system: System, queue: Queue) -> None:
    await queue.put(b"A", MessageDescriptor(expiry=10))
    await queue.put(b"B")
    await system.pass_time(2)
    assert await browsed(queue) == [b"B"]
    assert system.depth() == 1
