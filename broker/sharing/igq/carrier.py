"""Takes a member's own messages from the shared transmission queue and has them delivered (queue-sharing 9.3).

Nonpersistent messages are got and put outside syncpoint: one is lost if the member ends between the two. Persistent
ones are in a unit of work of both ends, their removal there and their delivery here, which is committed when it has
fifty of them, or when no more are waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message.headers.transmission import destination_id
from broker.core.names.sharing_group import TRANSMISSION_QUEUE
from broker.mqi.constants.attribute_values import MQUS
from broker.mqi.constants.attributes import MQIA
from broker.mqi.constants.descriptor import MQPER
from broker.mqi.constants.options import MQGMO, MQMO, MQOO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import GetMessageOptions, MessageDescriptor
from broker.sharing.igq.delivery import DestinationPuts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.engine.manager import QueueManager
    from broker.interface.connection import Connection
    from broker.interface.message import Message
    from broker.interface.queue import Queue
    from broker.sharing.igq.delivery import AgentFigures
    from broker.sharing.igq.retries import Attempts

BATCH: Final = 50
"""Persistent messages of one unit of work."""

_CALLS_PER_MESSAGE: Final = 4  # under syncpoint at most: got, put, its report, and that report's own
_PERSISTENT: Final = MQPER.PERSISTENT.value
_OPTIONS: Final = MQGMO.SYNCPOINT_IF_PERSISTENT | MQGMO.FAIL_IF_QUIESCING


class Carrier:
    """One connection's work, until it fails."""

    def __init__(self, manager: QueueManager, connection: Connection, retries: Attempts, figures: AgentFigures) -> None:
        self._connection = connection
        self._retries = retries
        self._figures = figures
        self._delivery = DestinationPuts(manager, connection, figures)
        self._mine = MessageDescriptor(correl_id=destination_id(manager.name))
        self._batch = max(1, min(BATCH, manager.core.max_calls // _CALLS_PER_MESSAGE))

    async def carry(self) -> None:
        """Deliver what there is and what comes. Ends by an exception: MQError where the transmission queue cannot be
        used, or nothing be put; UndeliverableError.
        """
        async with self._connection.open(TRANSMISSION_QUEUE, MQOO.INPUT_SHARED | MQOO.INQUIRE) as queue:
            await self._check(queue)
            while True:
                await self._carry_batch(queue)

    async def _check(self, queue: Queue) -> None:
        """Insist on the attributes without which the queue is not what it should be."""
        found = await queue.inquire(MQIA.USAGE)
        if found[MQIA.USAGE] != MQUS.TRANSMISSION:
            raise MQError(MQRC.XMIT_Q_USAGE_ERROR, f"{TRANSMISSION_QUEUE} has to have USAGE(XMITQ)")

    async def _carry_batch(self, queue: Queue) -> None:
        """Wait for messages, then deliver them and those behind; commit the persistent ones together."""
        pending = 0
        got = await self._get(queue, self._batch, wait=False)
        if not got:
            self._retries.succeeded()  # nothing is left undone
            got = await self._get(queue, self._batch, wait=True)
        while got:
            pending += await self._deliver(got)
            if pending >= self._batch:
                break
            got = await self._get(queue, self._batch - pending, wait=False)
        if pending:
            await self._connection.commit()
            self._figures.commits += 1
            self._retries.succeeded()

    async def _deliver(self, got: Iterable[Message]) -> int:
        """Deliver messages that were got together; how many of them are persistent. When one has failed, those are
        still delivered that are in no unit of work: they would be lost.
        """
        persistent = 0
        failure: Exception | None = None
        for message in got:
            in_unit = message.md.persistence == _PERSISTENT
            persistent += in_unit
            if in_unit and failure is not None:
                continue
            try:
                await self._delivery.deliver(message)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return persistent

    async def _get(self, queue: Queue, count: int, *, wait: bool) -> list[Message]:
        options = GetMessageOptions(
            options=_OPTIONS | (MQGMO.WAIT if wait else MQGMO.NONE),
            wait_interval=-1,
            match_options=MQMO.MATCH_CORREL_ID,
        )
        try:
            return await queue.get_many(count, self._mine, options)
        except MQError as error:
            if error.reason != MQRC.NO_MSG_AVAILABLE:
                raise
            return []
