"""The intra-group queuing agent of a member: its life (queue-sharing 9.3, 9.8).

It works from the start of its queue manager to its end, whatever IGQ says, which is about messages that leave. Where
the transmission queue cannot be used, or a persistent message can be put nowhere, what is under way is backed out and
tried again by the schedule of `Attempts`; after the last attempt the agent ends, until the queue manager is altered
with IGQ(ENABLED). Where it is the database of the group that cannot be used, it is tried again each second: that
passes, and messages need not wait for the schedule then. A mistake of ours ends one life of it, and the next begins, at
most one a second.

It is serialized by a connection tag: after a crash of its member it is refused, and tries again, until peers have given
back what the last agent had got. So no message overtakes those (queue-sharing 9.3).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from broker.core.names.sharing_group import uses_igq
from broker.mqi.constants.connections import MQCNO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.igq.carrier import Carrier
from broker.sharing.igq.delivery import AgentFigures, UndeliverableError
from broker.sharing.igq.retries import Attempts

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from broker.engine.manager import QueueManager
    from broker.interface.connection import Connection

logger = logging.getLogger(__name__)

RESTART_SECONDS: Final = 1.0
"""Between two lives that ended by a mistake, at least; and before the next attempt after what passes."""

_MEMBER_ENDS: Final = (MQRC.Q_MGR_QUIESCING, MQRC.Q_MGR_STOPPING)
_PASSES: Final = (
    MQRC.OBJECT_CHANGED,  # the transmission queue was altered, for the better perhaps
    MQRC.CF_NOT_AVAILABLE, MQRC.CF_STRUC_IN_USE, MQRC.CONN_TAG_NOT_USABLE,  # the database is away, or too slow
    MQRC.CONNECTION_BROKEN, MQRC.BACKED_OUT,  # this life of the member in the group is over, or a session was lost
)  # fmt: skip
"""No fault of the transmission queue, nor of where its messages go: the schedule is not for these."""


def connect_agent(manager: QueueManager) -> Connection:
    """A connection for the agent: no other runs for its member, nor before what the last one had got is back."""
    tag = b"SYSTEM.IGQ." + manager.name.encode()
    name = f"IGQ agent of {manager.name}"[:28]
    return manager.connect(name, options=MQCNO.SERIALIZE_CONN_TAG_QSG, conn_tag=tag)


class Agent:
    """The agent of one member. `connect` gives it a connection that is serialized in the group."""

    def __init__(self, manager: QueueManager, connect: Callable[[], AbstractAsyncContextManager[Connection]]) -> None:
        self.figures = AgentFigures()
        self.state = "starting"
        self._manager = manager
        self._connect = connect
        self._retries = Attempts()
        self._stopping = False
        self._wake = anyio.Event()

    # From outside

    def stop(self) -> None:
        """The queue manager ends."""
        self._stopping = True
        self._wake.set()

    def altered(self) -> None:
        """The queue manager was altered: with IGQ(ENABLED) an agent that has ended begins anew."""
        if self.state == "ended" and uses_igq(self._manager.core.objects.definition):
            self._wake.set()

    def all_figures(self) -> dict[str, int | str]:
        """Return its state, and its figures since its queue manager started."""
        return {"state": self.state, "attempts": self._retries.made, **self.figures.all()}

    # Its life

    async def run(self) -> None:
        """Work until `stop`."""
        while not self._stopping:
            await self._live()
            self.state = "ended"
            await self._sleep(None)

    async def _live(self) -> None:
        """From one start of the agent to its end."""
        name = self._manager.name
        self._retries.succeeded()
        logger.info(
            "CSQM050I %s intra-group queuing agent starting, task=%x",
            name,
            id(anyio.get_current_task()),
            extra={"event": "igq_agent_starting"},
        )
        while not self._stopping:
            since = self._manager.clock.monotonic()
            try:
                await self._work()
                break
            except Exception:
                logger.exception(
                    "CSQM067E %s intra-group queuing agent ended abnormally, restarting",
                    name,
                    extra={"event": "igq_agent_failed"},
                )
                await self._sleep(since + RESTART_SECONDS - self._manager.clock.monotonic())
        logger.info("CSQM051I %s intra-group queuing agent stopping", name, extra={"event": "igq_agent_stopping"})

    async def _work(self) -> None:
        """Carry messages; after a failure try again, until it has been tried often enough."""
        while not self._stopping:
            try:
                async with self._connect() as connection:
                    self.state = "working"
                    await Carrier(self._manager, connection, self._retries, self.figures).carry()
            except MQError as error:
                if error.reason in _MEMBER_ENDS:
                    return
                if error.reason in _PASSES:
                    if self.state != "interrupted":  # once, however long it lasts
                        logger.info("intra-group queuing interrupted name=%s: %s", self._manager.name, error)
                    self.state = "interrupted"
                    await self._sleep(RESTART_SECONDS)
                    continue
                why: Exception = error
            except UndeliverableError as error:
                why = error
            seconds = self._retries.next()
            if seconds is None:
                logger.error("intra-group queuing given up name=%s attempts=%d", self._manager.name, self._retries.made)
                return
            logger.warning(
                "intra-group queuing not possible name=%s next_attempt_seconds=%d: %s", self._manager.name, seconds, why
            )
            self.state = "retrying"
            await self._sleep(seconds)

    async def _sleep(self, seconds: float | None) -> None:
        """Wait so long, or until there is a reason to go on."""
        if self._stopping or (seconds is not None and seconds <= 0):
            return
        self._wake = woken = anyio.Event()
        timer = None if seconds is None else self._manager.clock.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            if timer is not None:
                timer.cancel()
