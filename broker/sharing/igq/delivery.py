"""The delivery of one message that came by intra-group queuing: to its destination, or to where it goes if it cannot be
put there (queue-sharing 9.6, 9.7).

Everything is put under syncpoint for a persistent message, in the unit of work that takes it from the transmission
queue, and outside syncpoint for any other.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.core.manager import CHECKED
from broker.core.message.generated import dead_letter
from broker.core.message.generated.generated import GeneratedMessage
from broker.core.message.generated.undelivered import fate_of
from broker.core.message.headers import transmission
from broker.core.names import judging
from broker.core.security.caller import Caller
from broker.mqi.constants.descriptor import MQPER
from broker.mqi.constants.options import MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import ObjectDescriptor

if TYPE_CHECKING:
    from broker.engine.manager import QueueManager
    from broker.interface.connection import Connection
    from broker.interface.message import Message

logger = logging.getLogger(__name__)

_PERSISTENT: Final = MQPER.PERSISTENT.value

NOT_OF_THE_MESSAGE: Final = frozenset(
    {
        MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR, MQRC.Q_MGR_NOT_AVAILABLE, MQRC.Q_MGR_QUIESCING, MQRC.Q_MGR_STOPPING,
        MQRC.CONNECTION_QUIESCING, MQRC.CONNECTION_STOPPING, MQRC.CF_NOT_AVAILABLE, MQRC.CF_STRUC_IN_USE,
        MQRC.CF_STRUC_FAILED, MQRC.CF_STRUC_LIST_HDR_IN_USE, MQRC.DB2_NOT_AVAILABLE, MQRC.RESOURCE_PROBLEM,
        MQRC.STORAGE_NOT_AVAILABLE, MQRC.STORAGE_MEDIUM_FULL, MQRC.SYNCPOINT_LIMIT_REACHED,
    }
)  # fmt: skip
"""The reasons why any message might not be put now: it is no fault of this one, nor of its destination, and passes."""


_SENDER, _BORNE, _AGENT = "sender", "borne", "agent"
JUDGED: Final = {1: (_SENDER, _AGENT), 2: (_SENDER, _AGENT, _BORNE), 3: (_AGENT,), 4: (_AGENT, _BORNE)}
"""Whose rights are judged, by IGQAUT: DEF, CTX, ONLYIGQ, ALTIGQ."""


class UndeliverableError(Exception):
    """A persistent message can be put nowhere: it has to wait where it is."""


class AgentFigures:
    """The figures of the agent since its queue manager started."""

    __slots__ = ("commits", "dead_letters", "delivered", "discarded", "reports")

    def __init__(self) -> None:
        self.delivered = 0
        self.dead_letters = 0
        self.discarded = 0
        self.reports = 0
        self.commits = 0

    def all(self) -> dict[str, int]:
        """The figures by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class DestinationPuts:
    """Puts messages, on one connection of their destination."""

    def __init__(self, manager: QueueManager, connection: Connection, figures: AgentFigures) -> None:
        self._manager = manager
        self._connection = connection
        self._figures = figures

    async def deliver(self, got: Message) -> None:
        """Deliver one message that was got from the transmission queue. Raises UndeliverableError where it is
        persistent and can be put nowhere, and MQError where nothing can be put at all.
        """
        syncpoint = MQPMO.SYNCPOINT if got.md.persistence == _PERSISTENT else MQPMO.NO_SYNCPOINT
        try:
            message = transmission.arrived(got.md, got.data)
        except MQError as error:
            await self._undelivered(GeneratedMessage("", "", got.md, got.data), error, syncpoint)
            return
        try:
            self._judge(message, got.md.user_identifier)
            await self._put(message, syncpoint)
        except MQError as error:
            if error.reason in NOT_OF_THE_MESSAGE:
                raise
            await self._undelivered(message, error, syncpoint)
        else:
            self._figures.delivered += 1

    def _judge(self, message: GeneratedMessage, sender: str) -> None:
        """Raise NOT_AUTHORIZED (2035) where one of those for whom a message is put may not put it: the user that put it
        there, the one that it bears, and IGQUSER, as IGQAUT says (queue-sharing 9.1).
        """
        objects = self._manager.core.objects
        attributes = objects.definition.attributes
        if not attributes.get(CHECKED):
            return
        users = {_SENDER: sender, _BORNE: message.md.user_identifier, _AGENT: str(attributes["IGQUSER"])}
        for each in JUDGED[int(attributes["IGQAUT"])]:
            user = users[each].rstrip()
            if user or each != _AGENT:  # a blank IGQUSER is the queue manager's own, which is not judged
                judging.judge_arrival(objects, Caller(objects.authority, user), message.q_name, message.q_mgr_name)

    async def _undelivered(self, message: GeneratedMessage, why: MQError, syncpoint: int) -> None:
        """Put what becomes of a message that cannot be delivered."""
        core, now = self._manager.core, self._manager.clock.time()
        report, letter = fate_of(message, int(why.reason), self._dead_q_name, core.ids, now)
        logger.warning("message not delivered queue=%s: %s", message.q_name, why)
        if report is not None:
            await self._report(report, syncpoint)
        if letter is None:
            self._figures.discarded += 1
        elif await self._put_dead(letter, syncpoint):
            self._figures.dead_letters += 1
        else:
            self._figures.discarded += 1

    async def _report(self, report: GeneratedMessage, syncpoint: int) -> None:
        """Put an exception report, or the dead letter that is made of it."""
        core, now = self._manager.core, self._manager.clock.time()
        try:
            await self._put(report, syncpoint)
        except MQError as error:
            if error.reason in NOT_OF_THE_MESSAGE:
                raise
            letter = dead_letter.dead_letter(report, self._dead_q_name, int(error.reason), core.ids, now)
            if not await self._put_dead(letter, syncpoint):
                logger.warning("exception report discarded queue=%s: %s", report.q_name, error)
                return
        self._figures.reports += 1

    async def _put_dead(self, letter: GeneratedMessage, syncpoint: int) -> bool:
        """Put a letter on the dead-letter queue; whether it is there. Raises UndeliverableError under syncpoint."""
        try:
            if not letter.q_name:
                raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"{self._manager.name} has no DEADQ")
            await self._put(letter, syncpoint)
        except MQError as error:
            if error.reason in NOT_OF_THE_MESSAGE:
                raise
            if syncpoint == MQPMO.SYNCPOINT:
                raise UndeliverableError(f"{letter.q_name or 'the dead-letter queue'}: {error}") from error
            return False
        return True

    async def _put(self, message: GeneratedMessage, syncpoint: int) -> None:
        where = ObjectDescriptor(object_name=message.q_name, object_q_mgr_name=message.q_mgr_name)
        await self._connection.put1(where, message.data, message.md, syncpoint | MQPMO.SET_ALL_CONTEXT)

    @property
    def _dead_q_name(self) -> str:
        return str(self._manager.core.objects.definition.attributes["DEADQ"])
