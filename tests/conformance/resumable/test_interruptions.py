"""What can come between a group and its end: refused and cancelled calls, restarts, two programs at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.groups import GroupGetter, GroupPutter
from broker.mqi import MQMF, MQMO, MQPER, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import drained, fails
from tests.conformance.resumable.crashes import (
    NINE,
    TEN,
    CrashError,
    Form,
    crash,
    die,
    fill,
    is_one_group,
    put_rest,
    rest_of,
    status_of,
    whole_group,
)

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


@pytest.mark.parametrize("dies_after", range(4))
async def test_a_program_may_die_at_any_call_of_the_end_of_a_unit(
    system: System,
    program: Connection,
    other_queue: Queue,
    form: Form,
    dies_after: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The calls that end the second unit: get and put of the status, or the put of a segment, and the commit."""
    calls = 0

    async with (
        crash(system, program),
        GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter,
    ):
        for number in range(1, 6):
            await putter.put(b"%d" % number)
        for name in ("get", "put", "commit"):
            method = getattr(program.port, name)

            def counted(*arguments: object, method: object = method) -> object:
                nonlocal calls
                if calls == dies_after + 1:
                    die(system, program)
                calls += 1
                return method(*arguments)  # type: ignore[operator]

            monkeypatch.setattr(program.port, name, counted)
        await putter.put(b"6")
        die(system, program)
    kept = system.depth()
    assert kept in (3, 6)
    assert [info.msg_seq_number for _, info in await status_of(system)][-1] == kept
    again = await system.connect("again")
    async with GroupPutter(again, "Q", "ST", messages_per_unit=3, status=form) as putter:
        assert putter.resumed_at == kept
        await put_rest(putter)
    is_one_group(await whole_group(other_queue), NINE)


async def test_a_put_that_is_refused_changes_nothing(
    system: System, program: Connection, other_queue: Queue, form: Form
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(4)")
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
        for number in range(1, 5):
            await putter.put(b"%d" % number)
        with fails(MQRC.Q_FULL):
            await putter.put(b"5")
        await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(100)")
        for number in range(5, 10):
            await putter.put(b"%d" % number, last=number == 9)
    is_one_group(await whole_group(other_queue), NINE)


async def test_a_status_that_cannot_be_written_backs_the_unit_out(
    system: System, program: Connection, other_queue: Queue, form: Form
) -> None:
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
        for number in range(1, 6):
            await putter.put(b"%d" % number)
        await system.mqsc("ALTER QLOCAL(ST) PUT(DISABLED)")
        with fails(MQRC.PUT_INHIBITED):
            await putter.put(b"6")
        await system.mqsc("ALTER QLOCAL(ST) PUT(ENABLED)")
        with fails(MQRC.BACKED_OUT):
            await putter.put(b"7")
        assert (putter.resumed_at, system.depth()) == (3, 3)
        await put_rest(putter)
    is_one_group(await whole_group(other_queue), NINE)


async def test_a_block_left_after_such_an_error_tells_that_its_last_unit_is_gone(
    system: System, program: Connection, form: Form
) -> None:
    with fails(MQRC.BACKED_OUT):
        async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
            await putter.put(b"1")
            await putter.put(b"2")
            await system.mqsc("ALTER QLOCAL(ST) PUT(DISABLED)")
            with fails(MQRC.PUT_INHIBITED):
                await putter.put(b"3")
    assert system.depth() == 0


async def test_a_get_that_is_cancelled_gives_the_messages_of_the_unit_again(
    system: System, program: Connection, other: Connection, form: Form
) -> None:
    await fill(other, range(1, 7), 10)
    async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form) as getter:
        for _ in range(6):
            await anext(getter)
        waiting = asyncio.create_task(getter.__anext__(), name="waiting")
        await system.waiting("Q", 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await fill(other, range(7, 11), 10)
        assert await rest_of(getter) == TEN[4:]
    assert (system.depth(), system.depth("ST")) == (0, 0)


async def test_a_put_that_is_cancelled_is_undone_with_its_unit(
    system: System, program: Connection, other_queue: Queue, form: Form
) -> None:
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
        for number in range(1, 5):
            await putter.put(b"%d" % number)
        put = asyncio.create_task(putter.put(b"5"), name="put")
        await asyncio.sleep(0)
        put.cancel()
        await asyncio.gather(put, return_exceptions=True)
        if not put.cancelled():
            await putter.backout()
        else:
            with fails(MQRC.BACKED_OUT):
                await putter.put(b"6")
        assert putter.resumed_at == 3
        await put_rest(putter)
    is_one_group(await whole_group(other_queue), NINE)


async def test_t15_1_a_restart_of_the_queue_manager_loses_no_place(
    system: System, program: Connection, form: Form
) -> None:
    bodies = TEN
    with pytest.raises(CrashError):
        async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
            for number in range(1, 9):
                await putter.put(bodies[number - 1])
            raise CrashError
    await system.restart()
    program = await system.connect("again")
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
        assert putter.resumed_at == 6
        await put_rest(putter, bodies)
    with pytest.raises(CrashError):
        async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
            for _ in range(6):
                await anext(getter)
            raise CrashError
    await system.restart()
    program = await system.connect("again")
    async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
        assert getter.resumed_at == 4
        assert await rest_of(getter) == bodies[4:]
    assert (system.depth(), system.depth("ST")) == (0, 0)


async def test_a_status_queue_is_for_one_program_at_a_time(program: Connection, other: Connection) -> None:
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3):
        with fails(MQRC.OBJECT_IN_USE):
            await GroupPutter(other, "Q", "ST", messages_per_unit=3).__aenter__()


async def test_a_unit_of_work_that_is_open_is_not_joined(program: Connection) -> None:
    await program.put1("Q", b"", options=MQPMO.SYNCPOINT)
    with fails(MQRC.UOW_IN_PROGRESS):
        await GroupPutter(program, "Q", "ST", messages_per_unit=3).__aenter__()
    await program.backout()
    async with program.unit_of_work():
        with fails(MQRC.UOW_IN_PROGRESS):
            await GroupGetter(program, "Q", "ST", messages_per_unit=3).__aenter__()


@pytest.mark.parametrize(
    ("data", "flags", "form", "says"),
    [
        (b"what is this", 0, "message", "28 or 36 bytes"),
        (b"what is this", MQMF.SEGMENT, "segments", "28 or 36 bytes"),
        (bytes(28), MQMF.SEGMENT, "message", "status='segments'"),
        (bytes(28), 0, "segments", "status='message'"),
    ],
)
async def test_a_status_queue_that_holds_something_else_is_refused(
    system: System, program: Connection, other: Connection, data: bytes, flags: int, form: Form, says: str
) -> None:
    await other.put1("ST", data, MessageDescriptor(msg_flags=flags))
    with pytest.raises(ValueError, match=says):
        await GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form).__aenter__()
    assert (system.depth("ST"), system.manager.core.objects.queues["ST"].handles) == (1, set())


async def test_arguments_that_make_no_sense_are_refused(program: Connection) -> None:
    with pytest.raises(ValueError, match="messages_per_unit=0"):
        GroupPutter(program, "Q", "ST", messages_per_unit=0)
    with pytest.raises(ValueError, match="persistence=2"):
        GroupPutter(program, "Q", "ST", messages_per_unit=1, persistence=MQPER.PERSISTENCE_AS_Q_DEF)
    with pytest.raises(ValueError, match="status='both'"):
        await GroupPutter(program, "Q", "ST", messages_per_unit=1, status="both").__aenter__()  # type: ignore[arg-type]


async def test_s3_trap_b_and_t15_3_a_number_put_twice_is_read_once(
    system: System, program: Connection, other_queue: Queue
) -> None:
    """What the putter spares its users: a restart with the status value itself instead of the next."""
    await fill(program, [1, 2, 3, 4, 5, 6, 6, 7, 8], 8)
    found = await whole_group(other_queue)
    assert [message.md.msg_seq_number for message in found] == list(range(1, 9))
    assert system.depth() == 1
    left = await other_queue.get(options=GetMessageOptions(match_options=MQMO.NONE))
    assert left.md.msg_seq_number == 6
    assert await drained(other_queue) == []
