"""Messages that cost the queue manager far more than whoever puts them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.interface.properties import with_properties
from broker.mqi import MQFMT, MQGMO, MQMO, MQOO, MessageDescriptor
from broker.mqi.layouts.rfh2 import FORMAT, MQRFH2
from broker.wire import Verb
from tests.hostile.rawline import getting, packed, putting, waiting
from tests.hostile.scene import TARGET, TARGET_DEFINITIONS, Attack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tests.hostile.rawline import RawLine
    from tests.hostile.scene import Scene

_LEGAL_BYTES: Final = 100 * 1024 * 1024


async def header_chain(scene: Scene, count: int) -> None:
    """Put a message that is all headers, and get it."""
    data = MQRFH2(format=FORMAT).to_bytes() * (count - 1) + MQRFH2(format=MQFMT.STRING).to_bytes()
    async with scene.line() as line:
        handle = await line.open(TARGET, MQOO.INPUT_SHARED | MQOO.OUTPUT)
        await scene.begin()
        await line.call(Verb.PUT, handle, packed(MessageDescriptor(format=FORMAT)), putting(), data)
        await line.call(Verb.GET, handle, None, getting(MQGMO.NO_WAIT), None)


async def selectors(scene: Scene, count: int) -> None:
    """Have gets with selectors of their own wait, and put messages of a thousand properties that suit none of them."""
    properties = {f"property{number}": f"value {number}" for number in range(1_000)}
    md, data = with_properties(None, b"data", properties)
    async with scene.line() as line:
        for number in range(count):
            handle = await line.open(TARGET, selector=f"property{number} = 'nothing'")
            await line.write(line.frame(Verb.GET, handle, *waiting(), None))
        target = await line.open(TARGET, MQOO.OUTPUT)
        await scene.begin()
        puts = [line.frame(Verb.PUT, target, packed(md), putting(), data) for _ in range(3)]
        await line.write(b"".join(puts))
        await line.final(line.calls)


async def getters_wait_in_vain(
    scene: Scene, count: int, gets: Callable[[RawLine, int], Awaitable[Iterable[bytes]]]
) -> None:
    """Have many gets wait, and put messages that none of them waits for."""
    async with scene.line() as line:
        await line.write(b"".join(await gets(line, count)))
        target = await line.open(TARGET, MQOO.OUTPUT)
        await scene.begin()
        puts = [line.frame(Verb.PUT, target, None, putting(), b"for nobody") for _ in range(500)]
        await line.write(b"".join(puts))
        await line.final(line.calls)


async def by_group(line: RawLine, count: int) -> Iterable[bytes]:
    handle = await line.open(TARGET)
    groups = (MessageDescriptor(group_id=number.to_bytes(24, "big")) for number in range(1, count + 1))
    return (line.frame(Verb.GET, handle, *waiting(group, MQMO.MATCH_GROUP_ID), None) for group in groups)


async def by_token(line: RawLine, count: int) -> Iterable[bytes]:
    handle = await line.open(TARGET)
    return (
        line.frame(Verb.GET, handle, *waiting(None, MQMO.MATCH_MSG_TOKEN, number.to_bytes(16, "big")), None)
        for number in range(1, count + 1)
    )


async def by_offset(line: RawLine, count: int) -> Iterable[bytes]:
    handle = await line.open(TARGET)
    return (
        line.frame(Verb.GET, handle, *waiting(MessageDescriptor(offset=number), MQMO.MATCH_OFFSET), None)
        for number in range(1, count + 1)
    )


async def by_selector(line: RawLine, count: int) -> Iterable[bytes]:
    """Two hundred selectors: MAXHANDS is 256."""
    handles = [await line.open(TARGET, selector=f"colour = '{number}'") for number in range(200)]
    wait = waiting()
    return (line.frame(Verb.GET, handle, *wait, None) for _ in range(count // len(handles)) for handle in handles)


async def legal(scene: Scene, count: int) -> None:
    """Put and get a message of 100 MiB, as anybody may who has set MAXMSGL so."""
    async with scene.connect() as connection, connection.open(TARGET, MQOO.INPUT_SHARED | MQOO.OUTPUT) as queue:
        await scene.begin()
        await queue.put(bytes(_LEGAL_BYTES))
        assert len((await queue.get()).data) == _LEGAL_BYTES


HEADER_CHAIN: Final = Attack(
    name="headers",
    title="a message of {count} MQRFH2",
    run=header_chain,
    count=40_000,
    definitions=TARGET_DEFINITIONS,
)

SELECTORS: Final = Attack(
    name="selectors",
    title="3 puts of 1,000 properties beside {count} selectors",
    run=selectors,
    count=100,
    definitions=TARGET_DEFINITIONS,
)

GETTERS_BY_GROUP: Final = Attack(
    name="getters",
    title="500 puts beside {count} gets by GroupId",
    run=partial(getters_wait_in_vain, gets=by_group),
    count=10_000,
    definitions=TARGET_DEFINITIONS,
)

ATTACKS: Final = (
    HEADER_CHAIN,
    SELECTORS,
    GETTERS_BY_GROUP,
    *(
        Attack(
            name=f"getters {how.__name__.replace('_', ' ')}",
            title=f"500 puts beside {{count}} gets {how.__name__.replace('_', ' ')}",
            run=partial(getters_wait_in_vain, gets=how),
            count=10_000,
            definitions=TARGET_DEFINITIONS,
        )
        for how in (by_token, by_offset, by_selector)
    ),
    Attack(
        name="legal 100 MiB",
        title="a message of 100 MiB",
        run=legal,
        definitions=f"ALTER QMGR MAXMSGL({_LEGAL_BYTES})\n"
        f"DEFINE QLOCAL({TARGET}) DEFPSIST(NO) MAXMSGL({_LEGAL_BYTES}) REPLACE\n",
        worst_ms=1_500,  # it is put apart: each copy of it takes its time and its room
        peak_mib=700,
    ),
)
