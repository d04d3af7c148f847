"""The common part of tests of deliveries of shared queues: who takes them, on which queues, and what is left."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from tests.conformance.expect import ALL, drained
from tests.handlers.desk import TERMS

if TYPE_CHECKING:
    from broker import Queue
    from broker.interface.handlers.deliveries import Deliveries
    from broker.mqi.delivery_fields import ServiceOptions
    from tests.sharing.members import Members


HANDLED = """\
DEFINE PROCESS(P) QSGDISP(GROUP)
DEFINE QLOCAL(Q) QSGDISP(SHARED) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)
DEFINE QLOCAL(DEAD) QSGDISP(SHARED)
DEFINE QLOCAL(OUT) QSGDISP(SHARED)
DEFINE QLOCAL(OWN)
"""

BY_ACCOUNT = TERMS._replace(order_by="account")


class Workers:
    """The takers of deliveries, each on a connection of its own."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Workers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start(self, member: str, terms: ServiceOptions = TERMS, queue: str = "Q") -> Deliveries:
        connection = await self._members.connect(member)
        return await self._stack.enter_async_context(connection.deliveries(queue, options=terms))


async def keyed(queue: Queue, *names: str) -> None:
    """Put messages whose keys are the first letters of their names."""
    for name in names:
        await queue.put(name, properties={"account": name[0]})


async def depth(members: Members, queue: str = "Q") -> int:
    """Return the number of messages there that nobody has."""
    found: int = await members.group.value("SELECT depth_of($1)", queue)
    return found


async def put(members: Members, queue: str, data: str) -> None:
    await (await members.connect("QM1")).put1(queue, data)


async def messages(members: Members, queue: str) -> list[bytes]:
    return await drained(await (await members.connect("QM1")).open(queue, ALL))
