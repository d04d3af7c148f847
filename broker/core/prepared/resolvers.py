"""Those who resolve units in doubt, by the databases that they see: who asked for some last, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.core.queues.handles import Hconn

SEEN_MAX: Final = 1000
"""Of so many databases it is known."""


class Resolvers:
    """In memory, since the start."""

    def __init__(self) -> None:
        self._seen: dict[bytes, tuple[str, float]] = {}

    def see(self, database: bytes, who: Hconn, now: float) -> None:
        """A connection that sees a database is there at `now` (wall clock)."""
        self._seen.pop(database, None)
        self._seen[database] = name_of(who), now
        if len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]

    def leave(self, database: bytes, who: Hconn, now: float) -> None:
        """A connection goes, which may have been the last one."""
        if self._seen.get(database, ("", 0.0))[0] == name_of(who):
            self.see(database, who, now)

    def last(self, database: bytes) -> tuple[str, float] | None:
        """Return who was there last, and when; None when nobody was since the start."""
        return self._seen.get(database)


def name_of(hconn: Hconn) -> str:
    """Return the name of a connection for people."""
    return f"{hconn.appl_name} {hconn.channel}".strip() or "a program without a name"
