"""A line that has ended leaves nothing in memory: what it held goes at once, and not when the collector comes for it,
which in the daemon is very seldom.
"""

from __future__ import annotations

import gc
import logging
import ssl
import weakref
from contextlib import asynccontextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, GetMessageOptions, ObjectDescriptor, PutMessageOptions
from broker.testing import settle
from broker.wire import Verb
from broker.wire.structures import object_fields, packed_get_options, packed_put_options
from tests.security.lines import Program, listening, users
from tests.server.security.conftest import Files, dial, port_of, until
from tests.server.security.conftest import listening as listening_with_tls
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from broker import QueueManager
    from broker.server import Server
    from broker.server.session import Session

Q = object_fields(ObjectDescriptor(object_name="Q"))
PUT = packed_put_options(PutMessageOptions(options=MQPMO.SYNCPOINT))
GET = packed_get_options(GetMessageOptions(options=MQGMO.WAIT, wait_interval=-1))


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Let circles stay, so that what is still there shows. Records of the log are not kept: they hold errors."""
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


# The ways to come in: each gives the server and a program that has logged in


@asynccontextmanager
async def trusted(manager: QueueManager, folder: Path) -> AsyncIterator[tuple[Server, Program]]:
    async with listening() as listener:
        program = await listener.dial()
        assert (await program.connect_asserting("bob"))[0] == Verb.ANSWER
        yield listener.server, program


@asynccontextmanager
async def by_password(manager: QueueManager, folder: Path) -> AsyncIterator[tuple[Server, Program]]:
    async with listening(users()) as listener:
        yield listener.server, await listener.bob()


@asynccontextmanager
async def over_tls(manager: QueueManager, folder: Path) -> AsyncIterator[tuple[Server, Program]]:
    files = Files(folder)
    async with manager.connect() as owner, listening_with_tls(manager, files.config) as server:
        await owner.mqsc("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT,GET)", check=True)
        line = await dial(port_of(server), files.client(files.bob))
        line.say(*HELLO)
        assert (await line.hear())[0] == Verb.WELCOME
        program = Program(line)
        assert (await program.connect_asserting("bob"))[0] == Verb.ANSWER
        yield server, program


# What the programs do


async def nothing(program: Program) -> None:
    pass


async def wait(program: Program) -> None:
    """A get waits."""
    handle = (await program.call(Verb.OPEN, Q, int(MQOO.INPUT_SHARED)))[3]
    program.say(Verb.GET, handle, None, GET, None)


async def work(program: Program) -> None:
    """There is a unit of work."""
    handle = (await program.call(Verb.OPEN, Q, int(MQOO.OUTPUT)))[3]
    assert (await program.call(Verb.PUT, handle, None, PUT, b"data"))[0] == Verb.ANSWER


async def say_half(program: Program) -> None:
    """A frame has begun."""
    program.line.writer.write(program.line.end.send(Verb.COMMIT, 1, 77)[:-1])


async def share(program: Program) -> None:
    """There are several conversations, one of which has ended."""
    for number in (2, 3):
        assert (await program.connect_asserting("bob", conversation=number))[0] == Verb.ANSWER
    assert (await program.call(Verb.DISCONNECT, True, conversation=2))[0] == Verb.ANSWER


# How the lines end


async def disconnects(program: Program, session: Session) -> None:
    await program.call(Verb.DISCONNECT, True)


async def is_cut(program: Program, session: Session) -> None:
    pass


async def is_ended(program: Program, session: Session) -> None:
    session.close(MQRC.CONNECTION_BROKEN, "by the test")
    await to_its_end(program)


async def breaks_the_protocol(program: Program, session: Session) -> None:
    program.line.writer.write(b"\xff\xff\xff\xff")
    await to_its_end(program)


async def to_its_end(program: Program) -> None:
    """Hear what there is to hear."""
    try:
        while await program.line.reader.read(1000):
            pass
    except (ConnectionError, ssl.SSLError):
        pass


ACTS = [nothing, wait, work, say_half, share]
ENDS = [disconnects, is_cut, is_ended, breaks_the_protocol]


@pytest.mark.parametrize(
    ("act", "end"),
    [each for each in product(ACTS, ENDS) if each not in ((say_half, disconnects), (say_half, breaks_the_protocol))],
    ids=lambda each: str(each.__name__),
)
@pytest.mark.parametrize("come", [trusted, by_password, over_tls], ids=lambda each: str(each.__name__))
async def test_nothing_of_a_line_that_has_ended_is_there(
    manager: QueueManager, tmp_path: Path, come: Any, act: Any, end: Any
) -> None:
    async with come(manager, tmp_path) as (server, program):
        await act(program)
        await settle()
        (session,) = server.lines
        held = [weakref.ref(session), weakref.ref(session.logins), *map(weakref.ref, session.calls.ports.values())]
        await end(program, session)
        del session
        program.close()
        await until(lambda: server.sessions == 0)
        await settle()
        assert [each() for each in held if each() is not None] == []


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", "HELLO"], ids=["nothing", "HTTP", "HELLO"])
@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
async def test_nor_is_a_stranger_who_has_gone(
    manager: QueueManager, tmp_path: Path, secured: bool, said: bytes | str
) -> None:
    files = Files(tmp_path)
    async with listening_with_tls(manager, files.config, must_log_in=lambda address: True) as server:
        port = port_of(server) if secured else int(server.addresses[0].rpartition(":")[2])
        line = await dial(port, files.client() if secured and said == "HELLO" else None)
        if isinstance(said, bytes):
            line.writer.write(said)
        else:
            line.say(*HELLO)
            await line.hear()
        await until(lambda: bool(server._acceptor._entering) or bool(said))
        held = [weakref.ref(each) for each in (*server._acceptor._entering.values(), *server.lines)]
        assert held or said
        line.close()
        await until(lambda: not (server._acceptor._entering or server.sessions))
        for _ in range(3):  # until a handshake that has failed is over
            await settle()
        assert [each() for each in held if each() is not None] == []


async def test_the_context_of_a_certificate_goes_with_the_last_line_that_has_it(
    manager: QueueManager, tmp_path: Path
) -> None:
    files = Files(tmp_path)
    async with listening_with_tls(manager, files.config) as server:
        lines = [await dial(port_of(server), files.client()) for _ in range(2)]
        for line in lines:
            await line.log_in()
        context = weakref.ref(server.lines[0].transport.get_extra_info("ssl_object").context)
        files.renew()
        assert await server.reload_certificates()
        lines[0].close()
        await until(lambda: server.sessions == 1)
        assert context() is not None
        lines[1].close()
        await until(lambda: server.sessions == 0)
        await settle()
        assert context() is None
