"""What was got from shared queues goes back: its getter has ended, or a loop was not given it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from broker.core.message.entry import GONE
from broker.core.queues import unit as units
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from broker.core.message.entry import Entry
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.queues.unit import Unit
    from broker.sharing.askers import Asker, Joined
    from broker.sharing.desk import Desk

logger = logging.getLogger(__name__)

_RETURN: Final = "SELECT return_tokens($1, $2, $3, $4)"
_GIVE_BACK: Final = "SELECT give_back($1, $2, $3, $4, $5, $6)"
_PUT_AGAIN: Final = "SELECT put_again($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)"
_AGAIN: Final = 0.1  # seconds until the next try


class Returns:
    """What goes back from one member."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._database = desk.database

    async def unclaimed(self, queue: SharedQueue, tokens: Sequence[UUID], begun: Sequence[UUID]) -> None:
        """Nobody takes what was given by these tokens; `begun` are units of work that began with it alone."""
        try:
            await self._database.repeat(_RETURN, self._database.member, self._database.epoch, tokens, begun)
        except MQError:
            self._later(tokens, begun)

    def unknown(self, askers: Mapping[Asker, Joined], tokens: Sequence[UUID]) -> None:
        """Nobody will know what was given to them by these tokens: it goes back as soon as the database is there, and
        what of it is in units of work is not committed with them.
        """
        for asker, joined in askers.items():
            if joined.id is not None and not joined.begins:
                asker.conversation.unit_of_work.rollback_only.unknown("the database was lost while it took a message")
        self._later(tokens, [joined.id for joined in askers.values() if joined.begins and joined.id is not None])

    def _later(self, tokens: Sequence[UUID], begun: Sequence[UUID]) -> None:
        self._desk.manager.start_soon(self._keep_trying, tokens, begun)

    async def _keep_trying(self, tokens: Sequence[UUID], begun: Sequence[UUID]) -> None:
        while not self._desk.stopping:
            try:
                await self._database.repeat(_RETURN, self._database.member, self._database.epoch, tokens, begun)
            except MQError:
                await anyio.sleep(_AGAIN)
            else:
                return

    async def give_back(self, entries: Sequence[Entry]) -> None:
        """Messages leave their active units of work, their backout counts as they were."""
        by_unit: dict[tuple[SharedQueue, Unit], list[Entry]] = {}
        for entry in entries:
            if entry.unit is not None and entry.unit.state == units.ACTIVE:
                by_unit.setdefault((entry.queue, entry.unit), []).append(entry)  # type: ignore[arg-type]  # shared
        for (queue, unit), some in by_unit.items():
            await self._give_back(queue, unit, some)

    async def _give_back(self, queue: SharedQueue, unit: Unit, entries: Sequence[Entry]) -> None:
        part = unit.shared
        assert part is not None
        await self._database.repeat(
            _GIVE_BACK,
            self._database.member,
            self._database.epoch,
            queue.name,
            [entry.key for entry in entries],
            part.id,
            0,
        )
        for entry in entries:
            self._desk.core.give_back(entry, self._desk.now())

    def put_again(self, entry: Entry) -> None:
        """Nobody took a message that was got outside syncpoint, or in a unit of work that has been committed since: it
        comes back to its place, its backout count raised (journal rule 11).
        """
        self._desk.removals.withdraw(entry)
        self._desk.manager.start_soon(self._put_again, entry)

    async def _put_again(self, entry: Entry) -> None:
        assert entry.state == GONE
        database = self._database
        own = database.member, database.epoch, entry.queue.name
        try:
            back = await database.repeat(_GIVE_BACK, *own, [entry.key], None, 1)
            if back:
                return
            row = entry.row()
            await database.repeat(
                _PUT_AGAIN,
                *own,
                entry.key,
                bool(entry.persistence),
                entry.msg_id,
                None if entry.correl_id == NO_ID else entry.correl_id,
                None if entry.group_id == NO_ID else entry.group_id,
                entry.msg_seq_number,
                entry.offset,
                entry.msg_flags,
                entry.deadline,
                row.handling or None,
                row.descriptor,
                row.length,
                row.data,
                entry.backout_count + 1,
            )
        except MQError as error:
            logger.error("message lost id=%s queue=%s: %s", entry.msg_id.hex(), entry.queue.name, error)
        except Exception as error:
            mistake(error, "a message that comes back")
