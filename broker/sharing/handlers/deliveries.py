"""Deliveries of shared queues: the handlers of all members share their messages (queue-sharing rule 10.3.13).

1. Members take turns at a queue. In one transaction it is asked which keys are busy, a page is looked at, the core
   chooses from it (`broker.core.deliveries.taking`), and what it has chosen is taken, each delivery into a unit of work
   of its own, with its key in the row. Where somebody who gets without deliveries was at a message before, all that is
   made again.
2. Handlers run wherever somebody serves the queue, whoever has put the messages. So starts, which are counted where
   messages were put, do not limit them. Who waits looks again when the database tells of something new, when a delivery
   ends here, and from time to time.
3. The unit of a delivery ends as any other does, but for messages that go back or wait for another attempt: they leave
   it with what is known of their failures. Where a delivery ends in several ways, each is a unit of its own first.
4. A member that fails has its units backed out, which charges an attempt: what ran there may be the reason.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

import anyio
import msgpack

from broker.core.deliveries.order import Order
from broker.core.deliveries.service import VIEW
from broker.core.deliveries.steps import Fate
from broker.core.deliveries.taking import LOOKS_MAX
from broker.core.queues.unit import SharedPart
from broker.engine.mistakes import contained, mistake
from broker.mqi.delivery_fields import Became
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.errors import OutcomeUnknownError
from broker.sharing.gets.pages import first_messages
from broker.sharing.gets.serving import Serving
from broker.sharing.puts.writing import QueueFullError, tag_of, write_puts
from broker.storage.store import StoreFailedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.core.deliveries.delivery import Delivery
    from broker.core.deliveries.service import Service
    from broker.core.deliveries.steps import Ending, Step
    from broker.core.deliveries.taking import HandOut
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.queues.unit import Unit
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember

_SPARE: Final = 8
"""So many messages are looked at beyond those that are wanted, since some may have to wait."""

_BEGIN: Final = "SELECT * FROM begin_taking($1, $2)"
_TAKE: Final = "SELECT * FROM take_deliveries($1, $2, $3, $4, $5)"
_PASS_ON: Final = "SELECT pass_on($1, $2, $3, $4, $5, $6, $7)"
_RETURN: Final = "SELECT return_deliveries($1, $2, $3, $4, $5, $6, $7, $8)"


class GroupDeliveries:
    """The deliveries of shared queues that one member hands out, and their ends."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._serving: Serving[Service] = Serving(member, self._serve, "the deliveries of a shared queue")

    def mark_dirty(self, queue: SharedQueue) -> None:
        """There may be more messages on a queue than before."""
        if self._member.core.deliveries.mark_dirty(queue):
            self._member.context.deliveries.run()

    def stir_all(self) -> None:
        """There may be more messages on all queues, or some are gone themselves."""
        deliveries = self._member.core.deliveries
        dirty = [each for each in deliveries.services() if each.queue.shared and deliveries.mark_dirty(each.queue)]
        if dirty:
            self._member.context.deliveries.run()

    # Taking

    def hand_out(self, service: Service) -> None:
        self._serving.mark_dirty(service)

    async def _serve(self, service: Service) -> None:
        if service.takers:
            await self._member.notifications.watch(service.queue.name)
            await self._member.repository.up_to_date(partial(self._hand_out, service))

    async def _hand_out(self, service: Service) -> None:
        queue, core = service.queue, self._member.core
        handed: list[HandOut] = []
        units: list[UUID] = []

        async def work(session: DatabaseSession) -> None:
            handed.extend(await self._choose(session, service))
            if handed:
                units[:] = await _take(session, queue, _deliveries(handed), self._database.epoch)

        def restore() -> None:
            core.deliveries.undo(service, handed)
            handed.clear()

        try:
            await self._database.transact(work, restore)
        except OutcomeUnknownError:
            restore()
            for id in units:
                await self._member.units.undo(id)
            raise
        if not handed:
            self._member.context.deliveries.arm()
            return
        taken = sum(len(delivery.entries) for delivery in _deliveries(handed))
        core.triggers.count(queue, max(0, queue.pending_starts - taken))
        for each in handed:
            for delivery in each.deliveries:
                delivery.pending = 0
            self._member.context.deliveries.hand_over(each, self._member.context.moment())
        self._member.context.perform()
        self.hand_out(service)  # there may be more for those who wait still

    async def _choose(self, session: DatabaseSession, service: Service) -> list[HandOut]:
        """Return what the core hands out of the first messages of the queue, or of more where those must wait."""
        queue: SharedQueue = service.queue  # type: ignore[assignment]  # it is shared
        begun = await session.fetchrow(_BEGIN, queue.name, queue.version)
        if begun["exclusive"]:
            return []
        wanted = sum(taker.count for taker in service.takers) * max(1, service.options.batch) + _SPARE
        for length in (min(wanted, LOOKS_MAX), LOOKS_MAX):
            moment = self._member.context.moment()
            entries, more = await first_messages(session, queue, moment.wall, length, groups=service.options.groups)
            handed = self._chosen(service, entries, begun["busy"], moment)
            if handed or not more:
                return handed
        return []

    def _chosen(
        self, service: Service, entries: Sequence[Entry], busy: Sequence[bytes], moment: Moment
    ) -> list[HandOut]:
        queue: SharedQueue = service.queue  # type: ignore[assignment]  # it is shared
        with queue.page(entries) as shelf:
            if service.options.order_by:
                service.order = shelf.views[VIEW,] = _ordered(service.options.order_by, entries, set(busy))
            elif service.options.groups:
                for _ in shelf.wholes().all_steps(shelf.entries):
                    pass
            try:
                handed = self._member.core.deliveries.hand_out(service, moment)
            finally:
                service.order = None
        for delivery in _deliveries(handed):
            delivery.pending = 1  # until it is known to be taken
        return handed

    # Ends

    def end(self, ending: Ending, ended: Callable[[Step, Exception | None], None]) -> None:
        self._member.manager.start_soon(self._end, ending, ended)

    def commit(self, endings: Sequence[Ending], ended: Callable[[Ending, Exception | None], None]) -> None:
        self._member.manager.start_soon(self._commit, endings, ended)

    async def _commit(self, endings: Sequence[Ending], ended: Callable[[Ending, Exception | None], None]) -> None:
        try:
            with anyio.CancelScope(shield=True):
                units = [ending.steps[0].unit for ending in endings]
                try:
                    errors = await self._member.units.commit_deliveries(units)
                except MQError:  # each as it can
                    for ending in endings:
                        await self._end(ending, partial(_ended, ended, ending))
                    return
                for ending, error in zip(endings, errors, strict=True):
                    contained(ended, ending, error)
        except Exception as error:
            mistake(error, "the end of deliveries")

    async def _end(self, ending: Ending, ended: Callable[[Step, Exception | None], None]) -> None:
        steps = list(ending.steps)
        unit = None if ending.delivery is None else ending.delivery.unit
        try:
            with anyio.CancelScope(shield=True):
                unparted = None if unit is None else await self._part(unit, steps)
                for step in steps:
                    error: Exception | None = unparted
                    if error is None or not step.shared:
                        error = await self._carry_out(ending, step)
                    else:
                        self._member.context.settle(step.unit, committed=False)
                    contained(ended, step, error)
                if unit is not None and all(step.unit is not unit for step in steps):
                    await self._undo(unit)
        except Exception as error:
            mistake(error, "the end of a delivery")

    async def _part(self, unit: Unit, steps: Sequence[Step]) -> MQError | None:
        """Messages of a delivery that end apart from the others get units of their own in the database. Where that
        cannot be, all of it is backed out: the error.
        """
        for step in steps:
            if step.unit is unit or not (step.entries and step.entries[0].queue.shared):
                continue
            assert unit.shared is not None
            part = step.unit.shared = step.unit.shared or SharedPart()
            part.id, part.life = uuid4(), self._database.epoch
            keys = [entry.key for entry in step.entries]
            own = self._database.member, self._database.epoch, unit.shared.id, step.entries[0].queue.name
            try:
                await self._database.repeat(_PASS_ON, *own, keys, part.id, tag_of(unit))
            except MQError as error:
                await self._undo(unit)
                for other in steps:
                    await self._undo(other.unit)
                return error
        return None

    async def _carry_out(self, ending: Ending, step: Step) -> Exception | None:
        """Make a step durable, and settle it; the error where it was backed out instead."""
        units, unit = self._member.units, step.unit
        try:
            if step.fate is Fate.COMMITTED:
                await units.commit_unit(unit, step.rows, undo=partial(self._refuse, ending, step))
            elif step.fate is Fate.DEAD:
                await self._bury(ending, step)
            elif step.fate is Fate.UNDONE or not step.entries[0].queue.shared:
                await self._undo(unit)
                await units.settle_backed_out(unit, step.rows)
            else:
                await self._return(unit, step.entries)
                self._member.context.settle(unit, committed=False)
                await self._discard_late(ending, step.entries)
        except (MQError, StoreFullError, StoreFailedError) as error:
            return error
        return None

    async def _bury(self, ending: Ending, step: Step) -> None:
        """Dead letters that are for shared queues are written first: these may be full."""
        unit, part = step.unit, step.unit.shared
        if part is not None and part.placed:
            placed = list(part.placed)

            def restore() -> None:
                part.placed = list(placed)

            try:
                await self._database.transact(
                    lambda session: write_puts(self._database, session, unit, self._member.now(), joined=True), restore
                )
            except (QueueFullError, OutcomeUnknownError, MQError) as error:
                await self._refuse(ending, step)
                self._member.context.settle(unit, committed=False)
                raise _refusal(error) from error
        await self._member.units.commit_unit(unit, step.rows, undo=partial(self._refuse, ending, step))

    async def _refuse(self, ending: Ending, step: Step) -> None:
        """A step that was to be committed was not, for want of room or of the database: its messages wait for a while,
        uncharged.
        """
        self._member.core.deliveries.refuse(step, ending, self._member.context.moment())
        if step.entries and step.entries[0].queue.shared:
            await self._return(step.unit, step.entries)
        else:
            await self._undo(step.unit)

    async def _return(self, unit: Unit, entries: Sequence[Entry]) -> None:
        """Messages go back to their places, or wait there, and all else that the unit has done is undone. Where the
        database is out of reach the unit is backed out when it is back.
        """
        assert unit.shared is not None
        id, queue, now = unit.shared.id, entries[0].queue, self._member.now()
        arguments = (
            id,
            queue.name,
            [entry.key for entry in entries],
            [0.0 if entry.handling is None else max(0.0, entry.handling.not_before - now) for entry in entries],
            [entry.backout_count for entry in entries],
            [None if entry.handling is None else entry.handling.pack() for entry in entries],
        )

        try:
            await self._database.repeat(_RETURN, self._database.member, self._database.epoch, *arguments)
        except MQError:
            await self._undo(unit)
            return
        assert id is not None
        self._member.units.outcomes.over(id)

    async def _discard_late(self, ending: Ending, entries: Sequence[Entry]) -> None:
        """The time of messages was up while a handler had them."""
        now = self._member.now()
        if any(entry.deadline is not None and entry.expired(now) for entry in entries):
            with suppress(MQError, OutcomeUnknownError):  # it goes all the same, when somebody looks at the queue
                await self._member.expiry.discard(entries[0].queue)  # type: ignore[arg-type]  # it is shared
            ending.answer = ending.answer._replace(became=Became.EXPIRED)

    async def _undo(self, unit: Unit) -> None:
        if unit.shared is not None and unit.shared.id is not None:
            await self._member.units.undo(unit.shared.id)


async def _take(session: DatabaseSession, queue: MessageQueue, deliveries: Sequence[Delivery], life: int) -> list[UUID]:
    """Take what was chosen, each delivery in a unit of its own: their ids. The bodies come with that."""
    entries, units, keys = [], [], []
    for delivery in deliveries:
        part = delivery.unit.shared
        assert part is not None
        part.id, part.life = uuid4(), life
        part.taken.clear()
        entries += delivery.entries
        units += [part.id] * len(delivery.entries)
        keys += [key_of(delivery.service.options.order_by, delivery.order_value)] * len(delivery.entries)
    tags = [delivery.worker.hconn.tag for delivery in deliveries for _ in delivery.entries]
    rows = await session.fetch(_TAKE, queue.name, [entry.key for entry in entries], units, keys, tags)
    bodies = {row["place"]: row["body"] for row in rows}
    for entry in entries:
        entry.data = bodies[entry.key]
    return [unit.id for unit in (delivery.unit.shared for delivery in deliveries) if unit is not None and unit.id]


def _deliveries(handed: Sequence[HandOut]) -> list[Delivery]:
    return [delivery for each in handed for delivery in (*each.deliveries, *each.dead)]


def _ordered(by: str, entries: Sequence[Entry], busy: set[bytes]) -> Order:
    """The messages by their keys, those held whose keys are busy."""
    order = Order(by)
    held = set()
    for entry in entries:
        order.refresh(entry)
        value = order.value(entry)
        if value not in held and busy and key_of(by, value) in busy:
            held.add(value)
            order.hold(value)
    return order


def key_of(by: str, value: object) -> bytes | None:
    """Return the key's value as the row of a message has it; None where it is ordered by none."""
    if not by or type(value) is int:
        return None
    return blake2b(msgpack.packb((by, value)), digest_size=16).digest()


def _ended(ended: Callable[[Ending, Exception | None], None], ending: Ending, _: Step, error: Exception | None) -> None:
    ended(ending, error)


def _refusal(error: Exception) -> MQError:
    """Return the error because of which a dead letter was not put."""
    if isinstance(error, MQError):
        return error
    if isinstance(error, QueueFullError):
        return error.refusal()
    return MQError(MQRC.CF_NOT_AVAILABLE, f"the outcome of the put is unknown: {error}")
