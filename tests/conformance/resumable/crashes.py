"""Programs that put and get groups over several units of work, and how they die.

A crash is a connection that breaks: the queue manager backs its unit of work out.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from broker.groups import GroupGetter, GroupPutter, StatusInfo
from broker.mqi import MQGMO, MQGS, MQMF, MQOO, MQRC, MessageDescriptor, MQError
from tests.conformance.expect import name_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from broker import Connection, Message, Queue
    from tests.conformance.system import System

G = name_of("g")
H = name_of("h")
NINE = [b"%d" % number for number in range(1, 10)]
TEN = [*NINE, b"10"]
Form = Literal["message", "segments"]
FORMS: tuple[Form, ...] = ("message", "segments")
SEGMENTS = [
    (b"aaaa", False, True),
    (b"bb", False, False),
    (b"cc", False, False),
    (b"d", True, True),
    (b"ee", True, True),
    (b"f", True, False),
]
"""Data, whether of the last message, whether more segments follow."""


class CrashError(Exception):
    """The program dies here."""


@asynccontextmanager
async def crash(system: System, connection: Connection) -> AsyncIterator[None]:
    """The program dies inside, with its connection; when it is gone from the queue manager too, this is left."""
    try:
        yield
    except (CrashError, MQError) as error:
        assert isinstance(error, CrashError) or connection.port.broken, error
    queues = system.manager.core.objects.queues
    await system.until(lambda: not queues["ST"].handles and not any(each.uncommitted for each in queues.values()))
    await system.rest()


def die(system: System, connection: Connection) -> None:
    """The line of a program that dies is cut, and it does nothing more."""
    system.cut(connection)
    raise CrashError


async def status_of(system: System) -> list[tuple[int, StatusInfo]]:
    """Offset and StatusInfo of what the status queue holds for everybody to see."""
    connection = await system.connect("look")
    found: list[tuple[int, StatusInfo]] = []
    async with connection.open("ST", MQOO.BROWSE) as status:
        step = MQGMO.BROWSE_FIRST
        while True:
            try:
                message = await status.get(options=step)
            except MQError:
                return found
            found.append((message.md.offset, StatusInfo.from_bytes(message.data)))
            step = MQGMO.BROWSE_NEXT


async def whole_group(queue: Queue) -> list[Message]:
    """Get in logical order until there is nothing more."""
    found = []
    while True:
        try:
            found.append(await queue.get(options=MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE))
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
            return found


def is_one_group(messages: Sequence[Message], bodies: Sequence[bytes]) -> None:
    assert [message.data for message in messages] == list(bodies)
    assert [message.md.msg_seq_number for message in messages] == list(range(1, len(bodies) + 1))
    assert len({message.md.group_id for message in messages}) == 1
    assert [message.group_status for message in messages] == [MQGS.MSG_IN_GROUP] * (len(bodies) - 1) + [
        MQGS.LAST_MSG_IN_GROUP
    ]


async def put_rest(putter: GroupPutter, bodies: Sequence[bytes] = NINE) -> None:
    """Put what is not there yet, as a program does, new or restarted."""
    for number in range(putter.resumed_at + 1, len(bodies) + 1):
        await putter.put(bodies[number - 1], last=number == len(bodies))


async def fill(connection: Connection, numbers: Sequence[int], last: int, group_id: bytes = G) -> None:
    """Put messages of a group in physical order."""
    async with connection.open("Q", MQOO.OUTPUT) as queue:
        for number in numbers:
            flags = MQMF.LAST_MSG_IN_GROUP if number == last else MQMF.MSG_IN_GROUP
            md = MessageDescriptor(group_id=group_id, msg_seq_number=number, msg_flags=flags, persistence=1)
            await queue.put(b"%d" % number, md)


async def rest_of(getter: GroupGetter) -> list[bytes]:
    """The data of what is left of the group."""
    return [message.data async for message in getter]
