"""Very many messages, conversations, starts or waits, and one step that may go over all of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from broker.interface.properties import with_properties
from broker.mqi import MQGMO, MQOO, MQPMO, MessageDescriptor
from broker.wire import Verb
from tests.hostile.rawline import getting, waiting
from tests.hostile.scene import TARGET, TARGET_DEFINITIONS, Attack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.hostile.rawline import RawLine
    from tests.hostile.scene import Scene

    Run = Callable[[Scene, int], Awaitable[None]]

_WAITING_GETS: Final = 99_000
"""A line may have a hundred thousand calls outstanding."""

_PERSISTENT: Final = TARGET_DEFINITIONS.replace("DEFPSIST(NO)", "DEFPSIST(YES)")
_LARGE_UNITS: Final = "ALTER QMGR MAXUMSGS(999999999)\n" + _PERSISTENT
_LEASED: Final = 1_000
_LEASED_DEFINITIONS: Final = "DEFINE PROCESS(NOBODY) REPLACE\n" + "".join(
    f"DEFINE QLOCAL({TARGET}.{number}) TRIGGER TRIGTYPE(EVERY) PROCESS(NOBODY) REPLACE\n" for number in range(_LEASED)
)


def _bodies(count: int) -> Iterator[bytes]:
    return (b"message %d" % number for number in range(count))


async def cut_trigger_waits(scene: Scene, count: int) -> None:
    """Wait for triggers on many conversations of one line, and cut it."""
    async with scene.line() as line:
        numbers = range(2, count + 2)
        await line.write(b"".join(line.connect(number) for number in numbers))
        await line.final(line.calls)
        waits = (line.frame(Verb.TRIGGER_WAIT, 2**40, conversation=number) for _ in range(20) for number in numbers)
        await line.write(b"".join(waits))
        await line.answer(Verb.COMMIT)
        await scene.begin()
    await scene.handled()


async def leases(scene: Scene, count: int) -> None:
    """Take a start of each of a thousand queues, and ask for the figures again and again."""
    async with scene.connect() as connection:
        for number in range(_LEASED):
            await connection.put1(f"{TARGET}.{number}", b"start")
    async with scene.line() as line:
        await line.write(b"".join(line.frame(Verb.TRIGGER_TAKE, f"{TARGET}.{number}", 1) for number in range(_LEASED)))
        await line.answer(Verb.COMMIT)
        await scene.begin()
        for _ in range(count):
            await line.answer(Verb.STATUS)
        await line.write(b"".join(line.frame(Verb.STATUS) for _ in range(count)))
        await line.final(line.calls)


async def clear(scene: Scene, count: int) -> None:
    await scene.fill(TARGET, _bodies(count))
    await scene.begin()
    await scene.define(f"CLEAR QLOCAL({TARGET})")


async def expiry(scene: Scene, count: int) -> None:
    """Get from a queue on which all messages are expired."""
    await scene.fill(TARGET, _bodies(count), MessageDescriptor(expiry=1))
    await anyio.sleep(0.2)  # until the last one is: an expiry counts tenths of a second
    await scene.begin()
    await _get(scene)


async def selector_view(scene: Scene, count: int) -> None:
    """Look for a message by one of its properties for the first time."""
    md, header = with_properties(None, b"", {"colour": "blue", "number": 7})
    await scene.fill(TARGET, (header + body for body in _bodies(count)), md)
    await scene.begin()
    await _get(scene, selector="colour = 'red'")


async def logical_view(scene: Scene, count: int) -> None:
    """Look for a whole group for the first time."""
    await scene.fill(TARGET, _bodies(count))
    await scene.begin()
    await _get(scene, options=MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE)


async def _get(scene: Scene, opening: int = MQOO.INPUT_SHARED, selector: str = "", options: int = 0) -> None:
    async with scene.line() as line:
        handle = await line.open(TARGET, opening, selector)
        await line.call(Verb.GET, handle, None, getting(options), None)


async def unit(scene: Scene, count: int, end: Verb) -> None:
    """End a unit of work that has put very many messages."""
    async with scene.connect() as connection, connection.open(TARGET, MQOO.OUTPUT) as queue:
        await queue.put_many(_bodies(count), None, MQPMO.SYNCPOINT)
        await scene.begin()
        await (connection.commit() if end is Verb.COMMIT else connection.backout())


async def got_unit(scene: Scene, count: int) -> None:
    """Back out a unit of work that has got very many messages."""
    await scene.fill(TARGET, _bodies(count))
    async with scene.connect() as connection, connection.open(TARGET, MQOO.INPUT_SHARED) as queue:
        got = 0
        while got < count:
            got += len(await queue.get_many(256, None, MQGMO.SYNCPOINT))
        await scene.begin()
        await connection.backout()


async def cut_gets(scene: Scene, count: int) -> None:
    """Cut a line on which very many gets wait."""
    async with scene.line() as line:
        await _wait(scene, line, count)
    await scene.handled()


async def closed_gets(scene: Scene, count: int) -> None:
    """Close the handle through which very many gets wait."""
    async with scene.line() as line:
        handle = await _wait(scene, line, count)
        await line.write(line.frame(Verb.CLOSE, handle, 0))
        await line.final(line.calls)


async def disconnected_gets(scene: Scene, count: int) -> None:
    """Disconnect while very many gets wait."""
    async with scene.line() as line:
        await _wait(scene, line, count)
        await line.write(line.frame(Verb.DISCONNECT, True))
        await line.final(line.calls)


async def _wait(scene: Scene, line: RawLine, count: int) -> int:
    """Have so many gets wait; their handle."""
    handle = await line.open(TARGET)
    wait = waiting()
    await line.write(b"".join(line.frame(Verb.GET, handle, *wait, None) for _ in range(count)))
    await line.answer(Verb.COMMIT)
    await scene.begin()
    return handle


def _many(name: str, title: str, run: Run, definitions: str = TARGET_DEFINITIONS, count: int = 100_000) -> Attack:
    return Attack(name=name, title=title, run=run, definitions=definitions, count=count)


MANY_MESSAGES: Final = (
    _many("clear", "CLEAR of {count} persistent messages", clear, _PERSISTENT),
    _many("expiry", "{count} expired messages", expiry),
    _many("selector view", "a first selector over {count} messages", selector_view, count=50_000),
    _many("logical view", "a first logical order over {count} messages", logical_view),
    _many("commit", "a commit of {count} puts", partial(unit, end=Verb.COMMIT), _LARGE_UNITS),
    _many("backout", "a backout of {count} puts", partial(unit, end=Verb.BACKOUT), _LARGE_UNITS),
)

GOT_UNIT: Final = _many("backout of gets", "a backout of {count} gets", got_unit, _LARGE_UNITS)


def _waiting(name: str, title: str, run: Run) -> Attack:
    return Attack(name=name, title=title, run=run, definitions=TARGET_DEFINITIONS, count=_WAITING_GETS)


CUT_TRIGGER_WAITS: Final = Attack(
    name="cut",
    title="a line with {count} conversations cut",
    run=cut_trigger_waits,
    count=2_000,
)

ATTACKS: Final = (
    CUT_TRIGGER_WAITS,
    Attack(
        name="leases",
        title="{count} x STATUS with 1,000 leases",
        run=leases,
        count=20,
        definitions=_LEASED_DEFINITIONS,
    ),
    *MANY_MESSAGES,
    _waiting("cut gets", "a line with {count} waiting gets cut", cut_gets),
    _waiting("closed gets", "a handle with {count} waiting gets closed", closed_gets),
    _waiting("disconnected gets", "a DISCONNECT with {count} waiting gets", disconnected_gets),
)
