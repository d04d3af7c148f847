"""The ends of units of work that touch shared queues. The state of the unit's row is the decision."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.core.message.generated.generated import GeneratedMessage, descriptor_of
from broker.core.prepared import branches
from broker.core.queues.unit import ACTIVE, COMMITTING
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQCC, MQRC
from broker.sharing.database.errors import OutcomeUnknownError
from broker.sharing.database.gathering import Gathering
from broker.sharing.puts.writing import QueueFullError, write_puts
from broker.sharing.units.mixed import Mixed, written
from broker.sharing.units.outcomes import OutcomePendingError, Outcomes, UnknownOutcome
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from uuid import UUID

    from broker.core.message.entry import Entry
    from broker.core.message.rows import Rows
    from broker.core.prepared.branches import PreparedBranch
    from broker.core.queues.unit import SharedPart, Unit
    from broker.engine.calls.call_order import CallOrder
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember
    from broker.storage.store import Done

_COMMIT: Final = "SELECT * FROM commit_units($1, $2, $3, true)"
_COMMIT_WITH_MORE: Final = "SELECT decided FROM commit_units($1, $2, $3)"
_SHARED = attrgetter("queue.shared")


class Units:
    """The units of work of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self.mixed = Mixed(member)
        self.outcomes = Outcomes(member)
        self._commits: Gathering[Sequence[UUID], Sequence[UUID]] = Gathering(self._commit_rows, most=1)

    # Commit

    def commit(self, call_order: CallOrder, unit: Unit, then: Done, rows: Rows | None = None) -> None:
        if self._is_done(unit):
            self._member.core.commit(unit)
            self._member.context.settle(unit, committed=True)
            then(None)
            return
        if rows is None:
            rows = self._member.core.commit(unit, self._member.context.moment())
        self._member.ask(partial(self.commit_unit, unit, rows, call_order), "a commit", then, call_order)

    def _is_done(self, unit: Unit) -> bool:
        """True for the implicit unit of gets from shared queues that is all in the database: with the get."""
        part = unit.shared
        if unit.owner is not None or part is None or part.id is not None or unit.state != ACTIVE:
            return False
        return not (part.placed or part.taken or unit.puts or unit.reports) and all(map(_SHARED, unit.gets))

    async def commit_unit(
        self,
        unit: Unit,
        rows: Rows | None = None,
        call_order: CallOrder | None = None,
        undo: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Commit a unit, and settle it; `rows` are those of its prepared branch, where it is frozen already. The order
        is that of `mixed`. `call_order` is that of the connection whose unit it is, if it is of one. `undo` ends it in
        the database where it cannot be committed, in place of a backout.

        Raises BACKED_OUT (2003) when it was backed out instead, OUTCOME_PENDING (2124) when nobody knows and the
        database is out of reach: it is in doubt then, and ends when that can be learned. StoreFullError,
        StoreFailedError.
        """
        if rows is None:
            rows = self._member.core.commit(unit, self._member.context.moment())
        with self._busy(unit):
            await self._commit(unit, rows, call_order, undo)

    async def _commit(
        self, unit: Unit, rows: Rows, call_order: CallOrder | None, undo: Callable[[], Awaitable[None]] | None
    ) -> None:
        write = self._member.context.journal.submit if call_order is None else call_order.write_branch
        branch: PreparedBranch | None = None
        try:
            if rows and unit.shared is not None:
                branch = await self.mixed.prepare(unit, rows, write)
            else:
                await written(partial(write, rows))  # behind the connection's earlier units
            committed = unit.shared is None or await self._decide(unit)
        except OutcomePendingError as error:
            raise self._in_doubt(unit, branch, error) from error
        except (MQError, StoreFullError) as error:
            await self._give_up(unit, branch, undo)
            if isinstance(error, MQError) and unit.owner is not None:
                raise _backed_out(error) from error
            raise
        if not committed:
            await self._give_up(unit, branch, undo)
            raise _backed_out(None)
        await self.end(unit, branch, committed=True)

    async def commit_deliveries(self, units: Sequence[Unit]) -> list[MQError | None]:
        """Commit units that have got messages of shared queues and done nothing else, in one transaction, and settle
        them: for each the error where it was not committed, as `commit_unit` raises it. Raises what keeps all of them
        from being committed: then they are as before.
        """
        ids = [id for id in (_part(unit).id for unit in units) if id is not None]
        with ExitStack() as stack:
            for unit in units:
                stack.enter_context(self._busy(unit))
            committed: Sequence[UUID] | None = None  # nobody knows
            with suppress(OutcomeUnknownError):
                committed = await self._commits.make(ids)
            return [await self._end_delivery(unit, committed) for unit in units]

    async def _end_delivery(self, unit: Unit, committed: Sequence[UUID] | None) -> MQError | None:
        id = _part(unit).id
        assert id is not None
        try:
            done = await self.outcomes.learn(id) if committed is None else id in committed
        except OutcomePendingError as error:
            return self._in_doubt(unit, None, error)
        await self.end(unit, None, committed=done)
        return None if done else _backed_out(None)

    async def _decide(self, unit: Unit) -> bool:
        """Make the transaction that commits the unit in the database: whether it is. Raises OutcomePendingError."""
        part = _part(unit)
        try:
            if part.placed or part.id is None:
                await self._write_and_commit(unit)
                return True
            return part.id in await self._commits.make([part.id])
        except OutcomeUnknownError as error:
            if part.id is None:
                raise OutcomePendingError(str(error)) from error
            return await self.outcomes.learn(part.id)

    def _send(self, late: Sequence[Entry]) -> None:
        """Send reports by themselves, which goes on to the dead-letter queue where there is no room for them still."""
        objects, now = self._member.core.objects, self._member.now()
        dead_q_name = objects.definition.attributes["DEADQ"]
        for entry in late:
            md = descriptor_of(entry)
            md.expiry = entry.expiry_left(now)
            assert entry.data is not None
            self._member.core.effects.generated.append(
                GeneratedMessage(
                    entry.queue.name, "", md, entry.data, entry.properties, dead_letter=entry.queue.name != dead_q_name
                )
            )

    async def _commit_rows(self, calls: Sequence[Sequence[UUID]]) -> Sequence[Sequence[UUID]]:
        """Commit the units of calls, which have written already: return for each the same, all that are committed. It
        is asked again where the answer was lost.
        """
        ids = [id for call in calls for id in call]
        found = await self._database.decide(_COMMIT, self._database.member, self._database.epoch, ids)
        return [found["decided"] or ()] * len(calls)

    async def _write_and_commit(self, unit: Unit) -> None:
        """Commit a unit with what it puts only now, the reports that it causes, or an implicit one."""
        part = _part(unit)
        placed = list(part.placed)
        own = self._database.member, self._database.epoch

        def restore() -> None:  # `write_puts` leaves another list
            part.placed = list(placed)

        async def work(session: DatabaseSession) -> None:
            await write_puts(self._database, session, unit, self._member.now(), joined=part.id is not None)
            if part.id is not None and not await session.fetchval(_COMMIT_WITH_MORE, *own, [part.id]):
                raise MQError(MQRC.BACKED_OUT, "the unit of work was backed out by the queue-sharing group")

        while True:
            try:
                await self._database.transact(work, restore)
            except QueueFullError as full:
                placed = _without_reports(unit, full)
                restore()
            else:
                return

    def _in_doubt(self, unit: Unit, branch: PreparedBranch | None, error: OutcomePendingError) -> MQError:
        """The unit goes on without its connection, until its outcome is known. What to answer."""
        id = _part(unit).id
        if id is None:  # a call outside syncpoint, and nothing private that lasts
            self._member.returned.not_kept(unit)
            self._member.context.settle(unit, committed=False)
            return MQError(MQRC.CF_NOT_AVAILABLE, f"the outcome of this call is unknown: {error}")
        branches.doubt(unit)
        self.outcomes.enter(id, UnknownOutcome(unit, branch))
        return MQError(
            MQRC.OUTCOME_PENDING,
            f"the database of the group was lost while unit of work {id} was committed: {error}; it is committed or "
            "backed out, as the database says, when that is back (DISPLAY THREAD(*) TYPE(INDOUBT))",
        )

    # Backout

    def back_out(self, call_order: CallOrder, unit: Unit, then: Done) -> None:
        self._member.ask(partial(self.back_out_unit, unit), "a backout", then, call_order)

    def give_up(self, call_order: CallOrder, unit: Unit, then: Done) -> None:
        self._member.ask(partial(self.end, unit, None, committed=False), "a backout", then, call_order)

    async def back_out_unit(self, unit: Unit) -> None:
        """Back a unit out, and settle it. Raises OUTCOME_PENDING (2124) while the database is out of reach: what it has
        done to shared queues is undone later, which is certain; StoreFullError, StoreFailedError.
        """
        id = _part(unit).id
        rows = self._member.context.core.backout(unit)
        with self._busy(unit):
            gone = id is None or await self.undo(id)
            await self.settle_backed_out(unit, rows)
        if not gone:
            raise MQError(
                MQRC.OUTCOME_PENDING,
                f"the database of the group is out of reach: unit of work {id} is backed out there when it is back",
            )

    def resolved(self, id: UUID, *, committed: bool) -> None:
        self.outcomes.resolved(id, committed=committed)

    async def undo(self, id: UUID) -> bool:
        """Back out what a unit has done in the database, now or when that is within reach again. Whether it is done."""
        try:
            await self.outcomes.learn(id, never=True)
        except OutcomePendingError:
            self.outcomes.enter(id, UnknownOutcome())
            return False
        self.outcomes.over(id)
        return True

    async def _give_up(
        self, unit: Unit, branch: PreparedBranch | None, undo: Callable[[], Awaitable[None]] | None
    ) -> None:
        """A unit that was to be committed was certainly not: back it out."""
        self._member.returned.not_kept(unit)
        if undo is not None:
            await undo()
        elif unit.shared is not None and unit.shared.id is not None:
            await self.undo(unit.shared.id)
        await self._end_backed_out(unit, branch)

    # Both

    @contextmanager
    def _busy(self, unit: Unit) -> Iterator[None]:
        """The end of a unit is under way: nobody else needs its row, and who joins the group again leaves it alone."""
        busy = self.outcomes.busy
        if unit.shared is not None and unit.shared.id is not None:
            busy.add(unit.shared.id)
        try:
            yield
        finally:
            if unit.shared is not None and unit.shared.id is not None:
                busy.discard(unit.shared.id)

    async def end(self, unit: Unit, branch: PreparedBranch | None, *, committed: bool) -> None:
        """The outcome of a unit is known in the database: let it take effect here, and let its row go in the end."""
        id = None if unit.shared is None else unit.shared.id
        if not committed:
            await self._end_backed_out(unit, branch)
            if id is not None:
                self.outcomes.over(id)
            return
        if branch is not None:
            self.mixed.commit(branch)
        else:
            if unit.state != COMMITTING:
                unit.become(COMMITTING)
            if id is not None:
                self.outcomes.over(id)
        if unit.shared is not None:
            self._send(unit.shared.late)
        self._member.context.settle(unit, committed=True)

    async def _end_backed_out(self, unit: Unit, branch: PreparedBranch | None) -> None:
        core = self._member.core
        if branch is not None:
            rows = core.branches.decide(core, branch, committed=False)
        else:
            rows = core.give_up(unit) if unit.state == COMMITTING else core.backout(unit)
        await self.settle_backed_out(unit, rows)

    async def settle_backed_out(self, unit: Unit, rows: Rows) -> None:
        """Journal rule 8: backout counts are written before the messages are back; without room for them they are back
        all the same.
        """
        context = self._member.context
        try:
            await written(partial(context.journal.submit, rows))
        except StoreFullError:
            context.settle(unit, committed=False)
            raise
        context.settle(unit, committed=False)


def _without_reports(unit: Unit, full: QueueFullError) -> list[Entry]:
    """Reports that a unit causes find a queue full: those come late, after the unit. What is left to write. Raises
    Q_FULL (2053) where it may be what the program has put.
    """
    part = _part(unit)
    if not unit.gets:
        raise full.refusal() from full
    there = [entry for entry in part.placed if entry.queue.name == full.q_name]
    for entry in there[max(0, there[0].queue.max_depth - full.depth) :]:
        part.late.append(entry)
        entry.queue.withdraw(entry)
        unit.puts.remove(entry)
        part.placed.remove(entry)
    return part.placed


def _part(unit: Unit) -> SharedPart:
    assert unit.shared is not None
    return unit.shared


def _backed_out(error: MQError | None) -> MQError:
    why = "it was backed out by the queue-sharing group" if error is None else f"it could not be committed: {error}"
    return MQError(MQRC.BACKED_OUT, f"nothing of the unit of work has happened: {why}", MQCC.WARNING)
