"""Return messages that were got from shared queues: their getter has ended, or a loop was not given them."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from broker.core.message.entry import GONE
from broker.core.queues import unit as units
from broker.engine.calls.answers import nobody
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from broker.core.message.entry import Entry
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.queues.unit import Unit
    from broker.engine.calls.call_order import CallOrder
    from broker.sharing.gets.get_requests import GetRequest, UnitJoin
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

_RETURN: Final = "SELECT return_tokens($1, $2, $3, $4, $5, $6)"
_GIVE_BACK: Final = "SELECT give_back($1, $2, $3, $4, $5, $6)"
_PUT_AGAIN: Final = "SELECT put_again($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)"
_AGAIN: Final = 0.1  # seconds until the next try


class Unclaimed(NamedTuple):
    """The messages that nobody takes: they were given by these tokens, and units of work have begun with them alone.
    `transaction` is of the transaction that may have given them, where that may be under way still.
    """

    tokens: Sequence[UUID]
    begun: Sequence[UUID]
    transaction: tuple[int, int] | None


class ReturnedMessages:
    """The messages that go back from one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self.pending: list[Unclaimed] = []
        self._tries = False

    async def settle(self) -> None:
        """Give back all that nobody took, before anything behind it is got here. Raises what the database raises."""
        own = self._database.member, self._database.epoch
        while self.pending:
            first = self.pending[0]
            await self._database.repeat(_RETURN, *own, first.tokens, first.begun, *(first.transaction or (None, None)))
            self.pending = [each for each in self.pending if each is not first]

    def forget(self) -> None:
        """Another life of the member begins: what the last one was given its recovery gives back."""
        self.pending.clear()

    async def unclaimed(self, gets: Mapping[GetRequest, UnitJoin], tokens: Sequence[UUID]) -> None:
        """Nobody takes what was given to them by these tokens."""
        self._leave(gets, tokens, None)
        try:
            await self.settle()
        except MQError as error:
            self._doubt(gets, f"what nobody took is not back: {error}")
            self._try_later()

    def unknown(
        self, gets: Mapping[GetRequest, UnitJoin], tokens: Sequence[UUID], transaction: tuple[int, int] | None
    ) -> None:
        """Nobody will know what was given to them by these tokens: it goes back as soon as the database is there, and
        what of it is in units of work is not committed with them. When this life of the member is over by then, what
        was got outside syncpoint is gone.
        """
        logger.warning("outcome of gets unknown gets=%d member=%s", len(tokens), self._database.member)
        self._leave(gets, tokens, transaction)
        self._doubt(gets, "the database was lost while it took a message")
        self._try_later()

    def _leave(
        self, gets: Mapping[GetRequest, UnitJoin], tokens: Sequence[UUID], transaction: tuple[int, int] | None
    ) -> None:
        begun = [each.id for get, each in gets.items() if each.id is not None and _begins(get, each)]
        self.pending.append(Unclaimed(tokens, begun, transaction))

    def _doubt(self, gets: Mapping[GetRequest, UnitJoin], why: str) -> None:
        """Units of work that hold more than that cannot be committed: it would go with them."""
        for get, joined in gets.items():
            if joined.id is not None and not _begins(get, joined):
                get.conversation.unit_of_work.rollback_only.unknown(why)

    def _try_later(self) -> None:
        if not self._tries:
            self._tries = True
            self._member.manager.start_soon(self._keep_trying)

    async def _keep_trying(self) -> None:
        try:
            while self.pending and not self._member.stopping:
                try:
                    await self.settle()
                except MQError:
                    await anyio.sleep(_AGAIN)
        finally:
            self._tries = False

    def give_back(self, call_order: CallOrder, entries: Sequence[Entry]) -> None:
        self._member.ask(partial(self._give_back, entries), "the return of messages", nobody, call_order)

    async def _give_back(self, entries: Sequence[Entry]) -> None:
        """Messages leave their active units of work, their backout counts as they were."""
        by_unit: dict[tuple[SharedQueue, Unit], list[Entry]] = {}
        for entry in entries:
            if entry.unit is not None and entry.unit.state == units.ACTIVE:
                by_unit.setdefault((entry.queue, entry.unit), []).append(entry)  # type: ignore[arg-type]  # shared
        for (queue, unit), some in by_unit.items():
            await self._leave_unit(queue, unit, some)

    async def _leave_unit(self, queue: SharedQueue, unit: Unit, entries: Sequence[Entry]) -> None:
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
            self._member.core.give_back(entry, self._member.now())

    def put_again(self, entry: Entry) -> None:
        """Nobody took a message that was got outside syncpoint, or in a unit of work that has been committed since: it
        comes back to its place, its backout count raised (journal rule 11).
        """
        self._member.deferred_deletes.withdraw(entry)
        self._member.manager.start_soon(self._put_again, entry)

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


def _begins(get: GetRequest, joined: UnitJoin) -> bool:
    """True if the unit of work of a get has begun with what it was given, and holds nothing of it."""
    return joined.begins and not get.grants
