"""Lines that break the protocol, or keep to it in a way that no client does."""

from __future__ import annotations

from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final

import anyio
import msgpack

from broker.mqi import MQGMO, MQOO, MQPER, MQPMO, MessageDescriptor
from broker.wire import Verb
from tests.hostile.rawline import HUNG_UP, getting, packed, putting, waiting
from tests.hostile.scene import TARGET, TARGET_DEFINITIONS, Attack, UnansweredError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.hostile.rawline import RawLine
    from tests.hostile.scene import Scene

_LENGTH: Final = Struct(">I")
_ANSWER_SECONDS: Final = 15.0
_PERSISTENT: Final = packed(MessageDescriptor(persistence=MQPER.PERSISTENT))

STRANGERS: Final = {
    "garbage": bytes(range(256)) * 64,
    "zeros": bytes(64 * 1024),
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(range(190)),
    "HTTP": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n",
    "IBM MQ": b"TSH \x00\x00\x01\x0c\x01\x01\x31\x00" + bytes(8) + b"\x22\x02\x00\x00\xb8\x04\x00\x00ID  " + bytes(230),
    "a huge length": b"\xff\xff\xff\xff",
}
"""What programs say that wanted somebody else, and some that want nobody."""


async def strangers(scene: Scene, count: int) -> None:
    """Say each of these on new lines, and wait until they end."""
    await scene.begin()
    for who, said in STRANGERS.items():
        for _ in range(count):
            with bounded(f"the line of a client that speaks {who} was not ended"):
                async with scene.socket() as socket:
                    await socket.send(said)
                    while True:
                        await socket.receive()


async def payload(scene: Scene, count: int, make: Callable[[int], bytes]) -> None:
    """Send a frame of such a payload, of so many bytes, and wait until the line ends."""
    data = make(count)
    async with scene.line() as line:
        await scene.begin()
        await line.write(_LENGTH.pack(len(data)) + data)
        await line.ended()


def nested(count: int) -> bytes:
    """Lists in lists."""
    return b"\x91" * count


def nested_in_item(count: int) -> bytes:
    """A good frame, but for one item, which is lists in lists."""
    head: bytes = b"\x94" + b"".join(map(msgpack.packb, (Verb.INQUIRE.value, 1, 2)))
    return head + b"\x91" * (count - len(head))


def empty_items(count: int) -> bytes:
    """A list of very many empty byte strings."""
    items = (count - 5) // 2
    return b"\xdd" + _LENGTH.pack(items) + b"\xc4\x00" * items


def empty_lists(count: int) -> bytes:
    """A list of very many empty lists."""
    return b"\xdd" + _LENGTH.pack(count - 5) + b"\x90" * (count - 5)


def promised_items(count: int) -> bytes:
    """A list that says that it has four thousand million items."""
    return b"\xdd\xff\xff\xff\xff" + b"\x01" * (count - 5)


def promised_bytes(count: int) -> bytes:
    """A byte string that says that it has four thousand million bytes."""
    return b"\x91\xc6\xff\xff\xff\xff" + bytes(count - 6)


PAYLOADS: Final = (nested, nested_in_item, empty_items, empty_lists, promised_items, promised_bytes)


def words(function: Callable[..., object]) -> str:
    """The name of a function, for people."""
    return function.__name__.replace("_", " ")


async def misuses(scene: Scene, count: int) -> None:
    """Say what no client says, in one write. Another conversation of the line is served, or the line ends."""
    await scene.begin()
    for write in MISUSES:
        with bounded(f"{words(write)}: neither was another conversation served nor the line ended"):
            async with scene.line() as line:
                await line.write(line.connect(2))
                await line.final(line.calls)
                handle = await line.open(TARGET)
                await line.write(write(line, handle))
                await line.call(Verb.BACKOUT, conversation=2)


async def disconnects(scene: Scene, count: int) -> None:
    """DISCONNECT twice, with a unit of work that has to be written. Each is answered, or the line ends."""
    await scene.begin()
    for _ in range(count):
        async with scene.line() as line:
            handle = await line.open(TARGET, MQOO.OUTPUT)
            put = line.frame(Verb.PUT, handle, _PERSISTENT, putting(MQPMO.SYNCPOINT), b"work")
            await line.write(put + line.frame(Verb.DISCONNECT, True) + line.frame(Verb.DISCONNECT, True))
            with bounded("a second DISCONNECT has no answer"):
                await line.finals(line.calls - 1, line.calls)


@contextmanager
def bounded(what: str) -> Iterator[None]:
    """Raises UnansweredError when the block takes too long."""
    try:
        with anyio.fail_after(_ANSWER_SECONDS):
            yield
    except TimeoutError:
        raise UnansweredError(what) from None


def disconnect_twice(line: RawLine, handle: int) -> bytes:
    return line.frame(Verb.DISCONNECT, True) + line.frame(Verb.DISCONNECT, True)


def take_failed(line: RawLine, handle: int) -> bytes:
    """TAKEN of a get that fails."""
    get = line.frame(Verb.GET, handle, None, getting(MQGMO.NO_WAIT), None)
    return get + line.said(Verb.TAKEN, 0, 0, [line.calls])


def take_waiting(line: RawLine, handle: int) -> bytes:
    """TAKEN of a get that waits."""
    get = line.frame(Verb.GET, handle, *waiting(), None)
    return get + line.said(Verb.TAKEN, 0, 0, [line.calls])


def take_twice(line: RawLine, handle: int) -> bytes:
    return line.said(Verb.TAKEN, 0, 0, [7, 7, 7])


def cancel_twice(line: RawLine, handle: int) -> bytes:
    get = line.frame(Verb.GET, handle, *waiting(), None)
    return get + line.said(Verb.CANCEL, 1, line.calls) * 2


def same_number(line: RawLine, handle: int) -> bytes:
    return line.frame(Verb.GET, handle, *waiting(), None) * 2


def unknown_verb(line: RawLine, handle: int) -> bytes:
    """A verb that no version has."""
    data: bytes = msgpack.packb([99, 1, 2])
    return _LENGTH.pack(len(data)) + data


MISUSES: Final = (disconnect_twice, take_failed, take_waiting, take_twice, cancel_twice, same_number, unknown_verb)


async def tiny_calls(scene: Scene, count: int) -> None:
    """Very many calls that do nothing, in one write."""
    async with scene.line() as line:
        await scene.begin()
        await line.write(b"".join(line.frame(Verb.COMMIT) for _ in range(count)))
        await line.final(line.calls)


async def wrong_calls(scene: Scene, count: int) -> None:
    """Very many calls that fail, in one write."""
    async with scene.line() as line:
        await scene.begin()
        await line.write(b"".join(line.frame(Verb.CLOSE, 77, 0) for _ in range(count)))
        await line.final(line.calls)


async def storm(scene: Scene, count: int, *, converse: bool) -> None:
    """Connect and cut, a hundred at a time."""
    await scene.begin()
    for _ in range(count // 100):
        async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:

            async def connect() -> None:
                with suppress(*HUNG_UP):
                    await stack.enter_async_context(scene.line() if converse else scene.socket())

            for _ in range(100):
                tasks.start_soon(connect)


ATTACKS: Final = (
    Attack(name="strangers", title="TLS, HTTP, IBM MQ and garbage on the port", run=strangers, count=20),
    *(
        Attack(
            name=words(make),
            title=f"a frame of {{count}} bytes: {words(make)}",
            run=partial(payload, make=make),
            count=20_000_000,
        )
        for make in PAYLOADS
    ),
    Attack(name="misuses", title="what no client says", run=misuses, definitions=TARGET_DEFINITIONS),
    Attack(
        name="disconnects",
        title="DISCONNECT twice, with a unit of work, {count} times",
        run=disconnects,
        count=20,
        definitions=TARGET_DEFINITIONS,
    ),
    Attack(name="tiny calls", title="{count} COMMIT in one write", run=tiny_calls, count=50_000),
    Attack(name="wrong calls", title="{count} CLOSE that fail in one write", run=wrong_calls, count=50_000),
    Attack(name="cut sockets", title="{count} sockets cut", run=partial(storm, converse=False), count=2_000),
    Attack(name="cut lines", title="{count} lines cut", run=partial(storm, converse=True), count=1_000),
)
