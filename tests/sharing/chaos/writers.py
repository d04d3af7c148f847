"""Programs that publish batches on a shared queue, each until it is certain of it (claims rule 3.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker import MQError
from broker.client import connect
from broker.interface.claims.claims import UnitName, Winner
from broker.interface.claims.sinks import new_attempt
from broker.interface.claims.staging import Row, frames
from broker.mqi import MQRC
from tests.sharing.chaos.clients import Client, descriptor
from tests.sharing.chaos.ledger import Outcome, Put

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.sharing.chaos.clients import Step
    from tests.sharing.chaos.ledger import Key


class Writer(Client):
    """A program with a sink of its own. Each batch is of one or two units, staged on IN by way of one member or another
    and published by a third; what is staged outlives connections and members. Only a crash of the database may take
    it, if any of its messages is nonpersistent: it is staged again then.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._batch: Put | None = None
        self._unstaged: list[list[Key]] = []
        self._staged: list[Winner] = []
        self._crashes = 0

    async def finish(self) -> None:
        """Publish the batch that is under way."""
        found = self._member()
        assert found is not None
        async with connect(f"mq://{found[1]}", appl_name=self.name) as connection:
            while self._batch is not None:
                await self._write(connection, {}, found[0])

    def _choose(self) -> Step:
        return self._write

    async def _write(self, connection: Connection, queues: dict[str, Queue], member: str) -> None:
        """Stage a unit of the batch, or publish the batch when all are."""
        batch = self._batch
        if batch is None:
            batch = self._batch = self._ledger.put(Put(self._keys(self._random.randrange(1, 9)), member))
            self._stage_from_the_start(batch)
        try:
            if self._unstaged:
                await self._stage(connection, self._unstaged[0])
                del self._unstaged[0]
            else:
                await self._publish(connection, batch)
                self._batch = None
        except MQError as error:
            if error.reason != MQRC.UOW_CANCELED:
                raise
            if self._crashes == self._ledger.crashes or all(key.persistence for key in batch.keys):
                self._ledger.complaints.append(f"canceled: {batch}: {error}")
            self._stage_from_the_start(batch)

    def _stage_from_the_start(self, batch: Put) -> None:
        self._crashes = self._ledger.crashes
        self._staged.clear()
        cut = self._random.randrange(len(batch.keys))
        self._unstaged = [part for part in (batch.keys[:cut], batch.keys[cut:]) if part]

    async def _stage(self, connection: Connection, keys: list[Key]) -> None:
        """Stage a unit, piece by piece."""
        unit = UnitName(self.name, self._units, len(self._staged), new_attempt())
        half = len(keys) // 2
        for first, piece in (0, keys[:half]), (half, keys[half:]):
            for frame in frames(Row("IN", bytes(key), descriptor(key)) for key in piece):
                await connection.sinks.stage(unit, frame, first, query=self.name, last=piece[-1] is keys[-1])
        self._staged.append(Winner(unit, len(keys)))

    async def _publish(self, connection: Connection, batch: Put) -> None:
        done = await connection.sinks.publish(self.name, self._units, self._staged, query=self.name)
        if not done.already and done.messages != len(batch.keys):
            self._ledger.complaints.append(f"{done}: {batch}")
        batch.outcome = Outcome.COMMITTED
        self._ledger.published += 1
