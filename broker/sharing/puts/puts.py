"""MQPUT onto shared queues.

The puts of a connection gather: while a transaction is under way, or in the turn of the event loop in which the first
is made, those that follow it are made together in the next. So they are in order over all shared queues. A put to a
private queue, or any other call, waits its turn.

One put outside syncpoint may reach private queues as well: a distribution list, a report on arrival. Its implicit unit
of work is committed like any that has both (`Units`), by itself.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.core.queues.unit import Unit
from broker.engine.calls.answers import answer_written, fail
from broker.engine.calls.gets import spoil
from broker.engine.calls.puts import shared_put
from broker.engine.mistakes import contained, mistake
from broker.mqi.constants.options import MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.database import ATTEMPTS
from broker.sharing.database.errors import OutcomeUnknownError, StaleError
from broker.sharing.database.gathering import Gathering
from broker.sharing.puts.keys import is_keyed, write_keyed
from broker.sharing.puts.put_batch import GatheredPut, PutBatch, write_together
from broker.sharing.puts.writing import QueueFullError, limited, placed_by, put_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker.core.message.rows import Rows
    from broker.core.queues.shared_queue import SharedQueue
    from broker.engine.calls.call_order import QueuedCall
    from broker.engine.conversation import Conversation
    from broker.engine.shared_queues import PutStep
    from broker.interface.port import Call
    from broker.sharing.database.sessions import Lane
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

PUTS_MAX: Final = 500
"""The number of puts that are made together at most."""

BYTES_MAX: Final = 4 * 1024 * 1024
"""The put with whose data the puts made together come to so many bytes is their last."""


class GroupPuts:
    """The puts of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._gathering: dict[Conversation, list[GatheredPut]] = {}
        self._together: Gathering[PutBatch, None] = Gathering(self._write_together)
        self.kept = 0
        """The number of puts with a key that is kept as long as their messages."""

    def put(self, conversation: Conversation, call: Call[Any], step: PutStep) -> None:
        """Make a put, with those that gather behind it."""
        put = GatheredPut(call, step)
        gathering = self._gathering.get(conversation)
        if gathering is not None:
            gathering.append(put)
        else:
            go_on = conversation.call_order.hold()
            self._member.call_tasks.start(self._make_all(conversation, put, go_on))

    async def _make_all(self, conversation: Conversation, first: GatheredPut, go_on: Callable[[], None]) -> None:
        puts = [first]
        try:
            while puts:
                self._gather(conversation, puts)
                await self._make(conversation, puts)
                puts = self._gather(conversation, [])
        finally:
            contained(self._member.context.perform, conversation.call_order)
            go_on()

    def _gather(self, conversation: Conversation, puts: list[GatheredPut]) -> list[GatheredPut]:
        """Add the puts to shared queues that wait behind these, as many as may be made together."""
        size = 0

        def wanted(deferred: QueuedCall) -> bool:
            nonlocal size
            if len(puts) >= PUTS_MAX or size >= BYTES_MAX:
                return False
            arguments = shared_put(deferred)
            if arguments is None:
                return False
            size += len(arguments.data)
            return True

        self._gathering[conversation] = puts
        try:
            conversation.call_order.take_along(wanted)
        finally:
            del self._gathering[conversation]
        return puts

    async def _make(self, conversation: Conversation, puts: list[GatheredPut]) -> None:
        """Make these puts, and answer them."""
        while puts:
            together = puts[:1] if is_keyed(puts[0]) else list(takewhile(_is_not_keyed, puts))
            try:
                made = await self._make_together(conversation, together)
            except Exception as error:
                made = len(together)
                if made > 1 and isinstance(error, MQError) and error.reason not in _OF_ALL:
                    for put in together:  # what is wrong with one is not the others' fault
                        await self._make(conversation, [put])
                else:
                    for put in together:
                        self._fail(conversation, put, error)
            puts = puts[made:]

    async def _make_together(self, conversation: Conversation, puts: list[GatheredPut]) -> int:
        """Make the first of these puts, as many as go together, and answer them. How many."""
        async with self._member.call_lock(conversation.call_order):
            batch = await self._written(conversation, puts)
            for put in batch.made:
                self._answer(conversation, put)
        if batch.mixed is not None:
            await self._make_mixed(conversation, batch.mixed, batch.depths)
            return len(batch.made) + 1
        return len(batch.made)

    async def _written(self, conversation: Conversation, puts: list[GatheredPut]) -> PutBatch:
        depths: dict[SharedQueue, int] = {}
        stale = 0
        while True:
            batch = PutBatch(
                conversation, puts, depths, self._member.repository.check_security, lambda: self._database.epoch
            )
            try:
                if is_keyed(puts[0]):
                    await write_keyed(self._member, conversation, batch, puts[0])
                elif batch.goes_together:
                    await self._together.make(batch)
                else:
                    await self._database.transact_at_once(batch.write, batch.restore)
            except QueueFullError as full:
                await self.handle(full, depths)
            except StaleError:
                stale += 1
                if stale == ATTEMPTS:
                    raise
                await self._member.repository.reload()
            else:
                return batch

    async def _write_together(self, batches: Sequence[PutBatch]) -> Sequence[None]:
        if len(batches) == 1:
            await self._database.transact_at_once(batches[0].write, batches[0].restore)
        else:
            await write_together(self._database, batches, self._member.now())
        return [None] * len(batches)

    def _answer(self, conversation: Conversation, put: GatheredPut) -> None:
        if put.unit is not None:
            self._member.context.settle(put.unit, committed=True)
        if put.error is not None:
            self._fail(conversation, put, put.error)
        elif not put.call.done():
            put.call.set_result(put.answer)

    async def _make_mixed(
        self, conversation: Conversation, put: GatheredPut, depths: Mapping[SharedQueue, int]
    ) -> None:
        """Make a put that has messages on private queues too."""
        with limited(depths):
            try:
                answer, unit = put.step.make()
            except MQError as error:
                self._fail(conversation, put, error)
                return
            assert unit is not None
            rows = self._member.core.commit(unit, self._member.context.moment())
        written, answered = anyio.Event(), partial(answer_written, put.call, answer, MQRC.STORAGE_MEDIUM_FULL)

        def then(error: Exception | None) -> None:
            contained(answered, error)
            written.set()

        self._member.units.commit(conversation.call_order, unit, then, rows)
        await written.wait()

    def _fail(self, conversation: Conversation, put: GatheredPut, error: Exception) -> None:
        call = put.call
        if isinstance(error, MQError):
            conversation.unit_of_work.rollback_only.put_failed(put.step.options, error)
            if not call.done():
                call.set_exception(error.with_traceback(None))
        elif isinstance(error, OutcomeUnknownError):
            if int(put.step.options.options) & MQPMO.SYNCPOINT:
                conversation.unit_of_work.rollback_only.unknown(str(error))
            fail(call, MQRC.CONNECTION_BROKEN, f"the outcome of this put is unknown: {error}")
        else:
            spoil(call, mistake(error, "a put to a shared queue"))

    # What the queue manager puts of its own accord

    def send(self, make: Callable[[], tuple[Unit, Rows]], then: Callable[[Unit, Rows], None]) -> None:
        self._member.manager.start_soon(self._send, make, then)

    async def _send(self, make: Callable[[], tuple[Unit, Rows]], then: Callable[[Unit, Rows], None]) -> None:
        """Put what the queue manager has to say, and write what of it is on shared queues. Where the database is away
        that is lost.
        """
        depths: dict[SharedQueue, int] = {}
        made: tuple[Unit, Rows] | None = None

        async def work(lane: Lane) -> None:
            nonlocal made
            with limited(depths):
                made = make()
            await put_messages(lane.session, placed_by(made[0]), self._member.now(), lane=lane)

        def restore() -> None:
            nonlocal made
            if made is not None:
                self._member.context.settle(made[0], committed=False)
            made = None

        try:
            while made is None:
                try:
                    await self._database.transact_at_once(work, restore)
                except QueueFullError as full:
                    await self.handle(full, depths)
                except (MQError, OutcomeUnknownError) as error:
                    made = make()
                    self._lose(made[0], error)
        except Exception as error:
            mistake(error, "what the queue manager puts on shared queues")
            nothing = Unit()
            made = nothing, self._member.core.commit(nothing)
        contained(then, *made)

    def _lose(self, unit: Unit, error: Exception) -> None:
        for entry in placed_by(unit):
            logger.warning("message lost queue=%s id=%s: %s", entry.queue.name, entry.msg_id.hex(), error)
            entry.queue.withdraw(entry)
            unit.puts.remove(entry)

    async def handle(self, full: QueueFullError, depths: dict[SharedQueue, int]) -> None:
        """So many messages are on a queue that is full, unless some of them have expired: these go."""
        queue = self._member.shared(full.q_name)
        if queue is None:
            raise MQError(MQRC.Q_DELETED, f"{full.q_name} was deleted") from full
        if await self._member.expiry.discard(queue):
            depths.pop(queue, None)
        else:
            depths[queue] = full.depth


_OF_ALL: Final = frozenset(
    {MQRC.CF_NOT_AVAILABLE, MQRC.CF_STRUC_IN_USE, MQRC.CF_STRUC_AUTH_FAILED, MQRC.STORAGE_MEDIUM_FULL, MQRC.BACKED_OUT}
)
"""The reasons why no put at all can be made now."""


def _is_not_keyed(put: GatheredPut) -> bool:
    return not is_keyed(put)
