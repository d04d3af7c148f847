"""Delayed messages on shared queues, by the database's clock (handlers rule 3).

Each member releases those that it has put, and those of another that has not done it for a second: it may be gone.
That is an arrival for trigger conditions, counted by who releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from broker.clock import cancel_timer
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.sharing.members.group_member import GroupMember

DELAYED: Final = "!delayed"
"""The beginning of a notification of delayed messages (`announce_delayed` in the schema)."""

_RELEASE: Final = "SELECT * FROM release_messages($1, $2)"
_AGAIN_SECONDS: Final = 1.0  # when the database was away


class MemberDelays:
    """The time that one member keeps."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._timer: Timer | None = None
        self._at = float("inf")  # on the monotonic clock: when the timer runs out
        self._due = anyio.Event()

    def notified(self, payload: str) -> None:
        """There are messages to be available in so many seconds."""
        self._look_in(float(payload.removeprefix(DELAYED)))

    def look(self) -> None:
        """Look at once: notifications may have been missed."""
        self._look_in(0.0)

    async def run(self) -> None:
        """Release messages when their time has come, for as long as the member lives."""
        self._member.on_stop(self._stop)
        self.look()
        while not self._member.stopping:
            await self._due.wait()
            self._due = anyio.Event()
            if not self._member.stopping:
                await self._release()

    def _stop(self) -> None:
        cancel_timer(self._timer)
        self._due.set()

    def _look_in(self, seconds: float) -> None:
        clock = self._member.manager.clock
        at = clock.monotonic() + seconds
        if at >= self._at or self._member.stopping:
            return
        cancel_timer(self._timer)
        self._at = at
        self._timer = clock.call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._at = float("inf")
        self._due.set()

    async def _release(self) -> None:
        try:
            database = self._member.database
            rows = await database.repeat(_RELEASE, database.member, database.epoch)
        except MQError:
            self._look_in(_AGAIN_SECONDS)
            return
        try:
            for row in rows:
                queue = None if row["q_name"] is None else self._member.shared(row["q_name"])
                if queue is not None:
                    self._member.triggering.count(queue, row["places"])
            self._member.context.perform()
        except Exception as error:
            mistake(error, "the release of messages")
        again = rows[-1]["again"]
        if again is not None:
            self._look_in(again)
