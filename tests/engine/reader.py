"""A reader of a consumer, in the hand of a test: the calls of a port, and the position that a checkpoint would keep."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from broker import QueueManager
from broker.interface.batches.columns import unpack
from broker.interface.port import answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.interface.claims.claims import ConsumerState, Cut, Registration
    from broker.interface.port import Port

PLENTY = 1 << 40


def bodies_of(frame: bytes) -> list[bytes]:
    """The bodies of the messages of a frame of columns."""
    columns = unpack(frame)
    offsets = memoryview(columns.body_offsets).cast("i")
    return [columns.bodies[begin:end] for begin, end in pairwise(offsets)]


class Reader:
    """One reader, on a connection of its own unless it is given the port of one."""

    def __init__(self, on: QueueManager | Port, name: str = "ARCHIVE", *q_names: str) -> None:
        self.port: Port = on.converse("reader") if isinstance(on, QueueManager) else on
        self.name = name
        self.q_names: Sequence[str] = q_names or ("Q",)
        self.generation = 0
        self.lineage = ""
        self.start = 0  # where the last batch ended
        self.end = 0
        self.uuid = ""

    def on(self, port: Port) -> Reader:
        """The same reader, which goes on with another connection."""
        other = Reader(port, self.name, *self.q_names)
        other.uuid, other.generation, other.lineage = self.uuid, self.generation, self.lineage
        other.start, other.end = self.start, self.end
        return other

    async def consumer(self) -> ConsumerState:
        """CONSUMER."""
        state = await answer(self.port.consumer(self.name, self.q_names))
        self.uuid = state.uuid
        return state

    async def register(self, lineage: str | None = None, start: int | None = None, end: int | None = None) -> None:
        """CONSUMER and REGISTER."""
        await self.consumer()
        self._go_on(await answer(self.port.register(self.uuid, lineage, start, end)))

    async def resume(self) -> None:
        """CONSUMER and REGISTER with resume."""
        await self.consumer()
        self._go_on(await answer(self.port.register(self.uuid, None, None, None, resume=True)))

    def _go_on(self, registration: Registration) -> None:
        self.generation, self.lineage, self.start = registration

    async def claim(
        self, messages: int = 100, size: int = PLENTY, *, before: int | None = None, whole: bool = False,
        start: int | None = None,
    ) -> int:  # fmt: skip
        """CLAIM; how many messages the batch has."""
        begin = self.start if start is None else start
        call = self.port.claim(self.uuid, self.generation, begin, messages, size, before=before, whole=whole)
        self.end = await answer(call)
        return self.end - begin

    async def pin(self, start: int | None = None, end: int | None = None) -> list[Cut]:
        """PIN of the batch."""
        start, end = self.start if start is None else start, self.end if end is None else end
        return await answer(self.port.pin(self.uuid, self.generation, self.lineage, start, end))

    async def read(self, after: int | None = None, last: int | None = None) -> list[tuple[int, bytes]]:
        """READ: the messages of the batch with their sequences."""
        after, last = self.start if after is None else after, self.end if last is None else last
        found: list[tuple[int, bytes]] = []
        while after < last:
            frame = await answer(self.port.read_claimed(self.uuid, self.generation, after, last))
            columns = unpack(frame)
            found += enumerate(bodies_of(frame), columns.first)
            after = columns.first + columns.messages - 1
        return found

    async def batch(self, messages: int = 100, *, whole: bool = False) -> list[bytes]:
        """CLAIM, PIN and READ: what is in the batch."""
        await self.claim(messages, whole=whole)
        await self.pin()
        return [body for _, body in await self.read()]

    async def acknowledge(self, to: int | None = None) -> int:
        """ACKNOWLEDGE of the batch, which ends it."""
        to = self.end if to is None else to
        reason = await answer(self.port.acknowledge(self.uuid, self.generation, to))
        self.start = to
        return reason

    async def release(self) -> int:
        """RELEASE; how many messages went back."""
        return await answer(self.port.release(self.uuid, self.generation))
