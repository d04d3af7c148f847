"""Notifications from the database to all members: a queue has messages that it had not (`announce` in the schema).

It is heard on a session of its own. When that is lost another is made. Then all who wait look once, and triggers are
judged once: what was told meanwhile was told to nobody.

Of most puts outside syncpoint it is told only where the queue triggers, or where somebody has waited at this member
since the session began (`watch`): to tell members costs as much as some messages, and often nobody waits.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio
import asyncpg

from broker.core.group_triggers import Arrival
from broker.engine.mistakes import contained
from broker.sharing.database.errors import LOST
from broker.sharing.definitions.orders import COMMANDS_CHANGED
from broker.sharing.definitions.repository import OBJECTS_CHANGED
from broker.sharing.igq.definitions import MEMBERS_CHANGED, hear_of_members
from broker.sharing.puts.delays import DELAYED

if TYPE_CHECKING:
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

_AGAIN: Final = 0.2  # seconds until the next try to listen
_CLOSE_SECONDS: Final = 2.0


class Notifications:
    """The notifications that one member hears."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._ended = anyio.Event()  # the session, or the member's life
        self._lost = False  # a session, with what was told after it
        self._session: DatabaseSession | None = None
        self._watched: set[str] = set()  # by this session
        self._turn = anyio.Lock(fast_acquire=True)  # a session makes one statement at a time

    async def listen(self) -> None:
        """Hear of new messages, for as long as the member lives."""
        self._member.on_stop(lambda: self._ended.set())
        while not self._member.stopping:
            self._ended = anyio.Event()
            try:
                session = await self._member.database.session("listen")
                try:
                    await self._hear(session)
                finally:
                    self._session = None
                    if self._turn.locked():
                        session.terminate()
                    else:
                        await session.close(timeout=_CLOSE_SECONDS)
            except (asyncpg.PostgresError, *LOST) as error:
                logger.debug("notifications are not heard member=%s: %s", self._member.manager.name, error)
            if not self._member.stopping:
                await anyio.sleep(_AGAIN)

    async def _hear(self, session: DatabaseSession) -> None:
        ended = self._ended
        session.add_termination_listener(lambda _: ended.set())
        await session.add_listener(
            self._member.group.schema, lambda *notified: contained(self.notified, str(notified[3]))
        )
        self._session, self._watched = session, set()
        self._member.waits.watch_all()
        self._member.delays.look()
        self._member.repository.notified()
        self._member.commands.orders.notified()
        if self._lost:
            self._member.manager.start_soon(self._member.triggering.look_again)
        self._lost = True  # whenever the next one begins
        await ended.wait()

    async def watch(self, q_name: str) -> None:
        """Be told of all puts onto a queue from now on. Who waits there looks after that at what was put before. While
        no session hears anything nobody is told: when the next one does all who wait look again.
        """
        if q_name in self._watched:
            return
        async with self._turn:
            session, watched = self._session, self._watched
            if session is None or q_name in watched:
                return
            try:
                await session.execute("SELECT watch($1)", q_name)
            except (asyncpg.PostgresError, *LOST) as error:
                logger.debug("puts are not heard of yet queue=%s: %s", q_name, error)  # a poll comes
            else:
                watched.add(q_name)

    def notified(self, payload: str) -> None:
        """Something has become available on a queue (`announce` in the schema), or something else was announced."""
        if payload.startswith(OBJECTS_CHANGED):
            self._member.repository.notified(int(payload.removeprefix(OBJECTS_CHANGED)))
            return
        if payload == COMMANDS_CHANGED:
            self._member.commands.orders.notified()
            return
        if payload == MEMBERS_CHANGED:
            self._member.manager.start_soon(hear_of_members, self._member)
            self._member.membership.takeover.wake()
            return
        if payload.startswith(DELAYED):
            self._member.delays.notified(payload)
            return
        q_name, *numbers = payload.split()
        queue = self._member.shared(q_name)
        if queue is None:
            return
        if queue.waiters.count:
            self._member.waits.watch(queue)
        self._member.deliveries.mark_dirty(queue)
        if queue.trigger_on:
            self._member.triggering.arrived(queue, Arrival(*map(int, numbers)))
