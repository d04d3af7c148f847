"""MQOPEN and MQCLOSE: options, sharing, what is counted (semantics 9)."""

from __future__ import annotations

import pytest

from broker.mqi import MQGMO, MQOO, MQOT, MQRC, MessageDescriptor, ObjectDescriptor
from tests.core.world import ALL, World, fails, name_of

SHARED = MQOO.INPUT_SHARED
EXCLUSIVE = MQOO.INPUT_EXCLUSIVE
AS_DEFINED = MQOO.INPUT_AS_Q_DEF
OTHERS = MQOO.BROWSE | MQOO.OUTPUT | MQOO.INQUIRE | MQOO.SET


@pytest.mark.parametrize(
    ("attributes", "held", "asked", "admitted"),
    [
        ({}, OTHERS, SHARED, True),
        ({}, OTHERS, EXCLUSIVE, True),
        ({}, SHARED, SHARED, True),
        ({}, SHARED, EXCLUSIVE, False),
        ({}, SHARED, OTHERS, True),
        ({}, EXCLUSIVE, SHARED, False),
        ({}, EXCLUSIVE, EXCLUSIVE, False),
        ({}, EXCLUSIVE, OTHERS, True),
        ({}, EXCLUSIVE, MQOO.BROWSE, True),  # T8.9
        ({"SHARE": 0}, SHARED, SHARED, False),
        ({"SHARE": 0}, OTHERS, SHARED, True),
        ({"DEFSOPT": 4}, AS_DEFINED, AS_DEFINED, False),  # T13.6
        ({"DEFSOPT": 4}, AS_DEFINED, SHARED, False),
        ({"DEFSOPT": 2}, AS_DEFINED, AS_DEFINED, True),
        ({"DEFSOPT": 2}, AS_DEFINED, EXCLUSIVE, False),
        ({"DEFSOPT": 4}, SHARED, SHARED, True),
    ],
)
def test_t9_1_who_may_open_a_queue_beside_whom(
    world: World, attributes: dict[str, int], held: MQOO, asked: MQOO, *, admitted: bool
) -> None:
    world.define(**attributes)
    first = world.open("Q", held)
    if admitted:
        world.open("Q", asked)
        return
    with fails(MQRC.OBJECT_IN_USE):
        world.open("Q", asked)
    with fails(MQRC.OBJECT_IN_USE):
        first.program.open("Q", asked)
    first.close()
    world.open("Q", asked)


def test_a_refused_open_leaves_no_handle_and_no_count(world: World) -> None:
    queue = world.define()
    world.open("Q", EXCLUSIVE)
    other = world.connect()
    with fails(MQRC.OBJECT_IN_USE):
        other.open("Q", SHARED | MQOO.OUTPUT)
    assert (queue.input_count, queue.output_count, len(queue.handles)) == (1, 0, 1)
    assert not other.hconn.handles


@pytest.mark.parametrize(
    "options",
    [
        0,
        SHARED | EXCLUSIVE,
        SHARED | AS_DEFINED,
        MQOO.SAVE_ALL_CONTEXT | MQOO.OUTPUT,
        MQOO.CO_OP | MQOO.OUTPUT,
        MQOO.OUTPUT | MQOO.BIND_ON_OPEN | MQOO.BIND_NOT_FIXED,
        MQOO.OUTPUT | MQOO.READ_AHEAD | MQOO.NO_READ_AHEAD,
        MQOO.FAIL_IF_QUIESCING,
        0x4000_0000 | MQOO.OUTPUT,
    ],
)
def test_t9_2_options_that_contradict_or_ask_for_nothing_are_refused(world: World, options: MQOO) -> None:
    world.define()
    with fails(MQRC.OPTIONS_ERROR):
        world.open("Q", options)


def test_t9_3_a_call_needs_the_option_that_it_was_not_opened_with(world: World) -> None:
    world.define()
    world.open().put(b"A")
    with fails(MQRC.NOT_OPEN_FOR_INPUT):
        world.open("Q", MQOO.OUTPUT).get()
    with fails(MQRC.NOT_OPEN_FOR_INPUT):
        world.open("Q", MQOO.BROWSE).get()
    with fails(MQRC.NOT_OPEN_FOR_BROWSE):
        world.open("Q", SHARED).get(MQGMO.BROWSE_FIRST)


def test_handles_are_counted_by_what_they_are_open_for(world: World) -> None:
    queue = world.define()
    accesses = [world.open("Q", options) for options in (ALL, MQOO.BROWSE, MQOO.OUTPUT, SHARED, MQOO.INQUIRE)]
    assert (queue.input_count, queue.output_count) == (2, 2)
    for access in accesses:
        access.close()
        world.manager.check_invariants()
    assert (queue.input_count, queue.output_count) == (0, 0)


def test_a_closed_handle_is_no_handle_any_more(world: World) -> None:
    world.define()
    access = world.open()
    access.close()
    for call in (access.put, access.get, access.close):
        with fails(MQRC.HOBJ_ERROR):
            call()


def test_a_name_that_is_not_defined_cannot_be_opened(world: World) -> None:
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        world.open("MISSING")


@pytest.mark.parametrize(
    ("descriptor", "options", "reason"),
    [
        (ObjectDescriptor(object_name="Q", object_q_mgr_name="QM1"), MQOO.OUTPUT, None),
        (ObjectDescriptor(object_name="Q", object_q_mgr_name="QM2"), MQOO.OUTPUT, MQRC.UNKNOWN_REMOTE_Q_MGR),
        (ObjectDescriptor(object_name="P", object_type=MQOT.PROCESS), MQOO.INQUIRE, None),
        (ObjectDescriptor(object_name="X", object_type=MQOT.PROCESS), MQOO.INQUIRE, MQRC.UNKNOWN_OBJECT_NAME),
        (ObjectDescriptor(object_name="P", object_type=MQOT.PROCESS), MQOO.OUTPUT, MQRC.OPTION_NOT_VALID_FOR_TYPE),
        (ObjectDescriptor(object_type=MQOT.Q_MGR), MQOO.INQUIRE, None),
        (ObjectDescriptor(object_type=MQOT.Q_MGR), MQOO.SET, MQRC.OPTION_NOT_VALID_FOR_TYPE),
        (ObjectDescriptor(object_name="Q", object_type=999), MQOO.OUTPUT, MQRC.OBJECT_TYPE_ERROR),
    ],
    ids=str,
)
def test_what_can_be_opened(world: World, descriptor: ObjectDescriptor, options: MQOO, reason: MQRC | None) -> None:
    world.define("Q")
    world.define_process("P")
    program = world.connect()
    if reason is None:
        world.manager.open(program.hconn, descriptor, int(options))
    else:
        with fails(reason):
            world.manager.open(program.hconn, descriptor, int(options))
    assert len(program.hconn.handles) == (reason is None)


def test_a_process_takes_no_messages(world: World) -> None:
    world.define_process("P")
    hconn = world.connect().hconn
    handle = world.manager.open(hconn, ObjectDescriptor(object_name="P", object_type=MQOT.PROCESS), int(MQOO.INQUIRE))
    with fails(MQRC.HOBJ_ERROR):
        hconn.queue(handle.hobj)


def test_a_connection_has_at_most_maxhands_handles(world: World) -> None:
    world.alter_manager(MAXHANDS=2)
    world.define()
    program = world.connect()
    first, _ = program.open(), program.open()
    with fails(MQRC.HANDLE_NOT_AVAILABLE):
        program.open()
    world.open()
    first.close()
    program.open()


def test_an_open_that_asked_for_it_fails_while_the_queue_manager_quiesces(world: World) -> None:
    world.define()
    world.manager.quiesce()
    world.perform()
    with fails(MQRC.Q_MGR_QUIESCING):
        world.open("Q", MQOO.OUTPUT | MQOO.FAIL_IF_QUIESCING)
    world.open("Q", MQOO.OUTPUT)


def test_a_deleted_queue_fails_every_call_of_its_handles_but_close(world: World) -> None:
    world.define()
    access = world.open()
    access.put(b"A")
    wait = world.open().wait(0, MessageDescriptor(correl_id=name_of("X")))
    world.delete()
    assert wait.ended == MQRC.Q_DELETED
    for call in (access.put, access.get):
        with fails(MQRC.Q_DELETED):
            call()
    access.close()


def test_a_queue_of_the_same_name_is_another_queue(world: World) -> None:
    world.define()
    access = world.open()
    access.put(b"A")
    old = access.queue.number
    world.delete()
    queue = world.define()
    assert queue.number != old
    assert world.open().drain() == []
    with fails(MQRC.Q_DELETED):
        access.get()


def test_a_definition_replaced_keeps_the_messages_and_the_number(world: World) -> None:
    number = world.define().number
    access = world.open()
    access.put(b"A")
    assert world.define(MAXDEPTH=1).number == number
    with fails(MQRC.Q_FULL):
        access.put(b"B")
    assert access.drain() == [b"A"]
