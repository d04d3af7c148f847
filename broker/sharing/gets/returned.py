"""Return messages that were got from shared queues: their getter has ended, or a loop was not given them."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from broker.core.message.entry import GONE
from broker.core.queues import unit as units
from broker.engine.calls.answers import nobody
from broker.mqi.errors import MQError
from broker.mqi.structures import NO_ID
from broker.sharing.database.database import SETTLE
from broker.sharing.database.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from broker.core.message.entry import Entry
    from broker.core.queues.unit import Unit
    from broker.engine.calls.call_order import CallOrder
    from broker.sharing.database.sessions import Lane
    from broker.sharing.gets.get_requests import GetRequest, UnitJoin
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

_RETURN: Final = "SELECT give_back_unclaimed($1, $2, $3, $4, $5, $6)"
_GIVE_BACK: Final = "SELECT give_back($1, $2, $3, $4, $5)"
_PUT_AGAIN: Final = f"SELECT put_again({', '.join(f'${number}' for number in range(1, 17))})"
_AGAIN: Final = 0.1  # seconds until the next try


class Unclaimed(NamedTuple):
    """The messages that nobody takes, which these gets were given in their units of work; `begun` are units that have
    begun with them alone. `places`: where they stand, None where nobody has heard it. `transaction` is of the
    transaction that may have given them, where that may be under way still; if it was made, those of `removed` are gone
    with it, which were got outside syncpoint.
    """

    gets: Sequence[GetRequest]
    units: Sequence[UUID]
    begun: Sequence[UUID]
    places: Sequence[int] | None
    transaction: tuple[int, str, int] | None
    removed: Sequence[Entry] = ()


class ReturnedMessages:
    """The messages that go back from one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self.pending: list[Unclaimed] = []
        self._removed: list[tuple[Entry, int]] = []  # got outside syncpoint; and what is added to their backout counts
        self._settling = anyio.Lock(fast_acquire=True)
        self._tries = False

    async def settle(self) -> None:
        """Give back all that nobody took, before anything behind it is got here. Raises what the database raises."""
        if not (self.pending or self._removed):
            return
        async with self._settling:
            while self.pending:
                first = self.pending[0]
                await self._settle(first)
                self.pending = [each for each in self.pending if each is not first]
            while self._removed:
                entry, failed = self._removed[0]
                try:
                    await self._put(entry, failed)
                except OutcomeUnknownError as error:
                    _lost(entry, error)
                del self._removed[0]

    async def _settle(self, one: Unclaimed) -> None:
        own = self._database.member, self._database.epoch
        if one.transaction is not None:
            ((made,),) = await self._database.repeat(SETTLE, *one.transaction)
            self._removed += [(entry, 0) for entry in one.removed if made]
        if one.units and any(each is one for each in self.pending):  # the life that was given it goes on
            known = None if one.places is not None else [entry.key for get in one.gets for entry in get.held()]
            await self._database.repeat(_RETURN, *own, one.units, one.places, known, one.begun)

    def forget(self) -> None:
        """Another life of the member begins: what the last one was given in units its recovery gives back."""
        self.pending = [one._replace(units=()) for one in self.pending if one.removed]

    async def end(self) -> None:
        """The member leaves: what nobody took is back, if that can be."""
        try:
            await self.settle()
        except MQError as error:
            for entry, _ in self._removed:
                _lost(entry, error)

    async def unclaimed(self, gets: Mapping[GetRequest, UnitJoin], entries: Sequence[tuple[GetRequest, Entry]]) -> None:
        """Nobody takes these messages, which were given to these gets."""
        in_units = []
        for get, entry in entries:
            if in_unit(entry, gets[get]):
                in_units.append(entry.key)
            else:
                self._removed.append((entry, 0))
        self._leave(gets, in_units, None)
        try:
            await self.settle()
        except MQError as error:
            self._doubt(gets, f"what nobody took is not back: {error}")
            self._try_later()

    def unknown(
        self, gets: Mapping[GetRequest, UnitJoin], error: OutcomeUnknownError, removed: Sequence[Entry] = ()
    ) -> None:
        """Nobody will know what was given to them: it goes back as soon as the database is there, and what of it is in
        units of work is not committed with them. Those of `removed` are gone, if the transaction was made.
        """
        logger.warning("outcome of gets unknown gets=%d member=%s", len(gets), self._database.member)
        self._leave(gets, None, error.transaction, removed)
        self._doubt(gets, "the database was lost while it took a message")
        self._try_later()

    def _leave(
        self,
        gets: Mapping[GetRequest, UnitJoin],
        places: Sequence[int] | None,
        transaction: tuple[int, str, int] | None,
        removed: Sequence[Entry] = (),
    ) -> None:
        ids = [each.id for each in gets.values() if each.id is not None]
        begun = [each.id for get, each in gets.items() if each.id is not None and _begins(get, each)]
        if removed or (ids and (places is None or places or begun)):
            self.pending.append(Unclaimed(list(gets), ids, begun, places, transaction, removed))

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
            while (self.pending or self._removed) and not self._member.stopping:
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
        by_unit: dict[Unit, list[Entry]] = {}
        for entry in entries:
            if entry.unit is not None and entry.unit.state == units.ACTIVE:
                by_unit.setdefault(entry.unit, []).append(entry)
        for unit, some in by_unit.items():
            await self._leave_unit(unit, some)

    async def _leave_unit(self, unit: Unit, entries: Sequence[Entry]) -> None:
        part = unit.shared
        assert part is not None
        if part.id is not None:
            own = self._database.member, self._database.epoch
            await self._database.repeat(_GIVE_BACK, *own, part.id, [entry.key for entry in entries], 0)
        for entry in entries:
            self._member.core.give_back(entry, self._member.now())
        if part.id is None:  # they are gone
            await self._return_removed(entries)

    async def _return_removed(self, entries: Sequence[Entry]) -> None:
        self._removed += [(entry, 0) for entry in entries]
        try:
            await self.settle()
        except MQError as error:
            logger.debug("untaken messages not back yet messages=%d: %s", len(self._removed), error)
            self._try_later()

    def put_again(self, entry: Entry) -> None:
        """Nobody took a message that was got outside syncpoint, or in a unit of work that has been committed since: it
        comes back to its place, its backout count raised (journal rule 11).
        """
        assert entry.state == GONE
        self._removed.append((entry, 1))
        self._try_later()

    def not_kept(self, unit: Unit) -> None:
        """An implicit unit has failed, after the messages that it has got were removed: its program is not given
        them.
        """
        if unit.shared is not None and unit.shared.id is None:
            self._removed += [(entry, 0) for entry in unit.gets if entry.queue.shared]
            self._try_later()

    async def _put(self, entry: Entry, failed: int) -> None:
        """Put a message that is gone to its place again. Raises OutcomeUnknownError."""
        row = entry.row()
        arguments = (
            entry.queue.name,
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
            entry.backout_count + failed,
        )

        async def work(lane: Lane) -> None:
            lane.q_name, lane.lasting = entry.queue.name, bool(entry.persistence)
            await lane.session.execute(_PUT_AGAIN, lane.sequence, *arguments)

        await self._database.transact_at_once(work)


def in_unit(entry: Entry, joined: UnitJoin) -> bool:
    """True if the message that a get was given is in its unit of work; else it is gone."""
    return joined.id is not None and bool(entry.persistence or not joined.if_persistent)


def _lost(entry: Entry, error: Exception) -> None:
    logger.error("message lost id=%s queue=%s: %s", entry.msg_id.hex(), entry.queue.name, error)


def _begins(get: GetRequest, joined: UnitJoin) -> bool:
    """True if the unit of work of a get has begun with what it was given, and holds nothing of it."""
    return joined.begins and not get.grants
