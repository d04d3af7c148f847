"""What a call over TCP costs the queue manager: function calls, and turns of the event loop until the answer leaves.

The socket is two lists, the store a log on a disk that is fast enough for writes on the loop: what is counted is the
way of a call through session, engine, core and store. A call that is slow on its way is nobody's mistake, and hard to
see; here it is a number.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pytest

from broker.config import LimitsConfig, ListenerConfig
from broker.engine.security.login import Login
from broker.mqi import MQGMO, MQOO, MQPMO, GetMessageOptions, ObjectDescriptor, PutMessageOptions
from broker.server import Server
from broker.server.session import Session
from broker.wire import Endpoint, Role, Verb
from broker.wire.structures import object_fields, packed_get_options, packed_put_options
from tests.benchmarks.paths import ROOT, fast_manager
from tests.calls import Calls
from tests.server.fakes import HELLO, FakeTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker import QueueManager

UNMEASURED: Final = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
TURNS_MAX: Final = 10
DATA: Final = b"x" * 256
PUT: Final = packed_put_options(PutMessageOptions())
PUT_IN_UNIT: Final = packed_put_options(PutMessageOptions(options=MQPMO.SYNCPOINT))
GET: Final = packed_get_options(GetMessageOptions(options=MQGMO.NO_SYNCPOINT))
GET_IN_UNIT: Final = packed_get_options(GetMessageOptions(options=MQGMO.SYNCPOINT))
WAIT: Final = packed_get_options(GetMessageOptions(options=MQGMO.WAIT, wait_interval=60_000))
WAIT_IN_UNIT: Final = packed_get_options(GetMessageOptions(options=MQGMO.WAIT | MQGMO.SYNCPOINT, wait_interval=60_000))
TRIES: Final = 3
"""Of so many equal calls the cheapest is looked at: what the store does each second may come between."""


class Cost(NamedTuple):
    """Of one call: functions called, in Python and in C, and turns of the event loop."""

    python: int
    c: int
    turns: int


class Line:
    """A client of a queue manager, without a socket, past its handshake when it is `opened`."""

    def __init__(self, manager: QueueManager) -> None:
        self.transport = FakeTransport()
        self.session = Session(Server(manager, ListenerConfig(), LimitsConfig()))
        self.session.connection_made(cast("asyncio.Transport", self.transport))
        self.end = Endpoint(Role.CLIENT)
        self.number = 0
        self.hobj = 0
        self.names: list[str] = []

    async def opened(self, name: str) -> Line:
        self.transport.writes.clear()
        self.session.data_received(self.end.send(Verb.HELLO, 0, 0, *HELLO))
        await self.heard()
        await self.call(Verb.CONNECT, "", "test", "")
        queue = object_fields(ObjectDescriptor(object_name=name))
        self.hobj = (await self.call(Verb.OPEN, queue, int(MQOO.INPUT_SHARED | MQOO.OUTPUT)))[3]
        return self

    def frame(self, verb: Verb, *items: object) -> bytes:
        self.number += 1
        return self.end.send(verb, 1, self.number, *items)

    async def call(self, verb: Verb, *items: object) -> list[Any]:
        """Make a call; its answer."""
        self.session.data_received(self.frame(verb, *items))
        (answer,) = await self.heard()
        assert answer[0] == Verb.ANSWER, answer
        return answer

    async def cost(self, verb: Verb, *items: object) -> Cost:
        """Make a call; what it cost until its answer left."""
        data, turns = self.frame(verb, *items), 1
        with Calls() as calls:
            self.session.data_received(data)
            while not self.transport.writes:
                turns += 1
                await asyncio.sleep(0)
        self.names = calls.names
        ((kind, *_),) = await self.heard()
        assert kind == Verb.ANSWER
        return Cost(calls.python, calls.c, turns)

    async def heard(self) -> list[list[Any]]:
        """Return what the next write brings, which ought to be all that there is."""
        for _ in range(TURNS_MAX):
            if not self.transport.writes:
                await asyncio.sleep(0)
        (data,) = self.transport.writes
        self.transport.writes.clear()
        return self.end.receive(data)

    def taken(self) -> None:
        """The answer to the get made last has come."""
        self.session.data_received(self.end.send(Verb.TAKEN, 1, 0, [self.number]))


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[QueueManager]:
    """A queue manager on a disk that is always fast. Its clock is the real one: a virtual one counts."""
    async with fast_manager(tmp_path) as manager:
        yield manager


@pytest.fixture
async def line(manager: QueueManager) -> AsyncIterator[Line]:
    """A line with a queue of persistent messages open."""
    async with manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(DURABLE) DEFPSIST(YES) NOHARDENBO")
    line = await Line(manager).opened("DURABLE")
    yield line
    line.session.connection_lost(None)


async def test_a_put_is_answered_in_the_second_turn_of_the_loop_with_few_calls(line: Line) -> None:
    for _ in range(3):
        await line.call(Verb.PUT, line.hobj, None, PUT, DATA)
    cost = min([await line.cost(Verb.PUT, line.hobj, None, PUT, DATA) for _ in range(TRIES)])
    assert (cost.python <= 95, cost.c <= 71, cost.turns) == (True, True, 2), f"{cost}: {' '.join(line.names)}"


async def test_a_get_is_answered_in_the_second_turn_of_the_loop_with_few_calls(line: Line) -> None:
    for _ in range(3 + TRIES):
        await line.call(Verb.PUT, line.hobj, None, PUT, DATA)
    for _ in range(3):
        await line.call(Verb.GET, line.hobj, None, GET, None)
        line.taken()
    costs = []
    for _ in range(TRIES):
        costs.append(await line.cost(Verb.GET, line.hobj, None, GET, None))
        line.taken()
    cost = min(costs)
    assert (cost.python <= 106, cost.c <= 77, cost.turns) == (True, True, 2), f"{cost}: {' '.join(line.names)}"


@pytest.mark.parametrize(("verb", "options"), [(Verb.PUT, PUT_IN_UNIT), (Verb.GET, GET_IN_UNIT)], ids=["put", "get"])
async def test_a_commit_is_answered_in_the_second_turn_of_the_loop_with_few_calls(
    line: Line, verb: Verb, options: bytes
) -> None:
    costs = []
    for _ in range(TRIES):
        await line.call(Verb.PUT, line.hobj, None, PUT, DATA)
        await line.call(verb, line.hobj, None, options, DATA if verb is Verb.PUT else None)
        costs.append(await line.cost(Verb.COMMIT))
    cost = min(costs)
    assert (cost.python <= 77, cost.c <= 62, cost.turns) == (True, True, 2), f"{cost}: {' '.join(line.names)}"


@pytest.mark.parametrize(("options", "most"), [(WAIT, 145), (WAIT_IN_UNIT, 158)], ids=["outside", "in unit"])
async def test_a_put_that_meets_a_waiting_get_is_answered_behind_it_in_the_second_turn_with_few_calls(
    line: Line, manager: QueueManager, monkeypatch: pytest.MonkeyPatch, options: bytes, most: int
) -> None:
    other = await Line(manager).opened("DURABLE")
    order: list[Line] = []
    for each in (line, other):
        monkeypatch.setattr(each.transport, "write", partial(_written, each, order))
    costs: list[Cost] = []
    while len(costs) <= TRIES:
        order.clear()
        other.session.data_received(other.frame(Verb.GET, other.hobj, None, options, None))
        cost = await line.cost(Verb.PUT, line.hobj, None, PUT, DATA)
        if order == [other, line]:  # otherwise the disk was slow, and its thread wrote
            costs.append(cost)
        await other.heard()
        other.taken()
        await other.call(Verb.COMMIT)
    cost = min(costs)
    assert (cost.python <= most, cost.turns) == (True, 2), f"{cost}: {' '.join(line.names)}"
    other.session.connection_lost(None)


@pytest.mark.parametrize(("way", "most"), [("tcp-put", 120), ("app-handler", 383)])
def test_a_way_calls_few_functions_from_end_to_end(way: str, most: int) -> None:
    """In a process of its own: what other tests have loaded would be gone through too."""
    command = [sys.executable, "-m", "tests.benchmarks.paths", way]
    reported = subprocess.run(command, capture_output=True, check=True, text=True, cwd=ROOT, env=UNMEASURED).stdout
    assert int(reported.split()[1]) <= most, reported


async def test_the_answers_to_what_becomes_durable_together_leave_in_one_write(
    line: Line, manager: QueueManager
) -> None:
    other = await Line(manager).opened("DURABLE")
    for each in (line, other):
        each.session.data_received(b"".join(each.frame(Verb.PUT, each.hobj, None, PUT, DATA) for _ in range(7)))
    for each in (line, other):
        assert len(await each.heard()) == 7
    other.session.connection_lost(None)


def _written(line: Line, order: list[Line], data: bytes) -> None:
    """Write to the transport of this line, and say so."""
    order.append(line)
    line.transport.writes.append(data)


async def test_x5_4_a_put_and_a_get_of_a_judged_user_cost_what_those_of_the_owner_do(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(JUDGED) DEFPSIST(YES) NOHARDENBO")
        await connection.mqsc("SET AUTHREC PROFILE(JUDGED) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT,GET)")
        await connection.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)")
    costs = []
    for user in ("", "bob"):
        line = Line(manager)
        if user:
            monkeypatch.setattr(manager.authentication, "admit_at_once", lambda request: Login("bob"))
        await line.opened("JUDGED")
        (port,) = line.session.calls.ports.values()
        assert (port.hconn.caller is not None) == bool(user)
        for _ in range(4):
            await line.call(Verb.PUT, line.hobj, None, PUT, DATA)
        put = min([await line.cost(Verb.PUT, line.hobj, None, PUT, DATA) for _ in range(TRIES)])
        gets = []
        for _ in range(3 + TRIES):
            gets.append(await line.cost(Verb.GET, line.hobj, None, GET, None))
            line.taken()
        costs.append((put, min(gets)))
        line.session.connection_lost(None)
        await asyncio.sleep(0)
    assert costs[0] == costs[1]
