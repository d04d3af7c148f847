"""Calls that would have the queue manager hold what nobody reads, finishes or ever asks for again."""

from __future__ import annotations

from contextlib import AsyncExitStack
from struct import Struct
from typing import TYPE_CHECKING, Final

import anyio

from broker.interface.port import PUT_MANY_MAX
from broker.mqi import MQFMT, MQGMO, MQOO, MessageDescriptor
from broker.wire import Verb
from tests.hostile.rawline import HUNG_UP, getting, packed, putting, waiting
from tests.hostile.scene import TARGET, TARGET_DEFINITIONS, Attack, queues

if TYPE_CHECKING:
    from tests.hostile.rawline import RawLine
    from tests.hostile.scene import Scene

_LENGTH: Final = Struct(">I")
_DESCRIPTOR_BYTES: Final = 60_000
_LARGE: Final = 4_000_000
"""Bytes of a large message, a little less than MAXMSGL is by default."""

_UNFINISHED_BYTES: Final = 50 * 1024 * 1024


def _long_descriptor(number: int) -> bytes:
    """A descriptor of 60 KB, another for each number."""
    md = packed(MessageDescriptor(reply_to_q=f"{number:08}" + "x" * _DESCRIPTOR_BYTES))
    assert md is not None
    return md


async def long_waits(scene: Scene, count: int) -> None:
    """Wait for messages in batches, each with a long descriptor."""
    async with scene.line() as line:
        handle = await line.open(TARGET)
        await scene.begin()
        _, options = waiting()
        waits = (line.frame(Verb.GET_MANY, handle, _long_descriptor(number), options, 1) for number in range(count))
        await line.pour(waits)
        await scene.handled()


async def long_batches(scene: Scene, count: int) -> None:
    """Put batches that are all descriptors, behind a script that takes a while."""
    async with scene.line() as line:
        handle = await line.open(TARGET, MQOO.OUTPUT)
        await scene.begin()
        await line.write(line.frame(Verb.MQSC, f"DEFINE QLOCAL({TARGET}.OTHER) REPLACE;" * 2_000))
        await line.pour(_batch(line, handle) for _ in range(count))
        await scene.handled()


def _batch(line: RawLine, handle: int) -> bytes:
    messages = [item for number in range(PUT_MANY_MAX) for item in (_long_descriptor(number), b"")]
    return line.frame(Verb.PUT_MANY, handle, putting(), 0, *messages)


async def unfinished_frames(scene: Scene, count: int) -> None:
    """Begin a large frame on each of many lines, as far as it is taken, and end none."""
    piece = bytes(1024 * 1024)
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(scene.line()) for _ in range(count)]
        await scene.begin()

        async def send(line: RawLine) -> None:
            try:
                await line.pour([_LENGTH.pack(_UNFINISHED_BYTES)])
                await line.pour(piece for _ in range(_UNFINISHED_BYTES // len(piece) - 1))
            except HUNG_UP:
                pass

        async with anyio.create_task_group() as senders:
            for line in lines:
                senders.start_soon(send, line)
        await scene.handled()


async def unread_figures(scene: Scene, count: int) -> None:
    """Ask for the figures of a thousand queues, again and again, and read none of them."""
    async with scene.line() as line:
        await scene.begin()
        await line.pour([b"".join(line.frame(Verb.STATUS) for _ in range(count))])
        await scene.handled()


async def small_browses(scene: Scene, count: int) -> None:
    """Browse a small message, again and again, and read none of the answers."""
    await scene.fill(TARGET, [b"small"])
    async with scene.line() as line:
        handle = await line.open(TARGET, MQOO.BROWSE)
        await scene.begin()
        browse = getting(MQGMO.BROWSE_FIRST)
        await line.pour([b"".join(line.frame(Verb.GET, handle, None, browse, None) for _ in range(count))])
        await scene.handled()


async def unread_browses(scene: Scene, count: int) -> None:
    """Browse a message of 4 MB but for its last byte, again and again, and read none of the answers."""
    await browse_unread(scene, count, None, getting(MQGMO.BROWSE_FIRST | MQGMO.ACCEPT_TRUNCATED_MSG), _LARGE - 1)


async def browse_unread(scene: Scene, count: int, *items: object) -> None:
    """Make gets with these items on a queue with one large message, and read none of the answers."""
    await scene.fill(TARGET, [b"a" * _LARGE], MessageDescriptor(format=MQFMT.STRING))
    async with scene.line() as line:
        handle = await line.open(TARGET, MQOO.BROWSE)
        await scene.begin()
        await line.pour([b"".join(line.frame(Verb.GET, handle, *items) for _ in range(count))])
        await scene.handled()


_CONVERTED: Final = (
    packed(MessageDescriptor(coded_char_set_id=819)),
    getting(MQGMO.BROWSE_FIRST | MQGMO.CONVERT),
    None,
)

UNREAD_BROWSES: Final = Attack(
    name="unread",
    title="{count} browses of 4 MB not read",
    run=unread_browses,
    count=200,
    definitions=TARGET_DEFINITIONS,
)

UNFINISHED: Final = Attack(
    name="unfinished frames",
    title="{count} unfinished frames of 50 MiB",
    run=unfinished_frames,
    count=40,
)

ATTACKS: Final = (
    UNREAD_BROWSES,
    Attack(
        name="unread browses, converted",
        title="{count} browses of 4 MB with CONVERT not read",
        run=lambda scene, count: browse_unread(scene, count, *_CONVERTED),
        count=200,
        definitions=TARGET_DEFINITIONS,
    ),
    Attack(
        name="long waits",
        title="{count} waiting GET_MANY with 60 KB descriptors",
        run=long_waits,
        count=10_000,
        definitions=TARGET_DEFINITIONS,
    ),
    Attack(
        name="long batches",
        title="{count} PUT_MANY of 7.7 MB in descriptors",
        run=long_batches,
        count=140,
        definitions=TARGET_DEFINITIONS,
    ),
    UNFINISHED,
    Attack(
        name="unread figures",
        title="{count} x STATUS of 1,000 queues not read",
        run=unread_figures,
        count=1_000,
        definitions=queues(1_000),
    ),
    Attack(
        name="a client that never reads",
        title="{count} small browses not read",
        run=small_browses,
        count=90_000,
        definitions=TARGET_DEFINITIONS,
    ),
)
