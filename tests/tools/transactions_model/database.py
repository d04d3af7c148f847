"""The model's database: rows that are there, and transactions that are open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.tools.transactions_model.guards import Guards

COMMITTED, ABORTED = "C", "A"


class Marker(NamedTuple):
    """A marker: of which queue manager, and what it says."""

    q_mgr: str
    outcome: str


@dataclass(slots=True, eq=False)
class Session:
    """A transaction, with the session that it is on. `cut`: its client has gone."""

    who: str
    state: str = "open"
    markers: dict[str, Marker] = field(default_factory=dict)
    effects: list[str] = field(default_factory=list)
    cut: bool = False


class ModelDatabase:
    """COMMIT is done by the server, whatever becomes of the client. `waits`: an insert waits for another of its key."""

    def __init__(self, guards: Guards, *, waits: bool) -> None:
        self.guards = guards
        self.waits = waits
        self.markers: dict[str, Marker] = {}
        self.effects: list[str] = []
        self.sessions: list[Session] = []

    def begin(self, who: str) -> Session:
        session = Session(who)
        self.sessions.append(session)
        return session

    def insert(self, session: Session, unit: str, marker: Marker) -> str:
        """Insert a marker: "ok", "duplicate", "blocked" by another transaction, or "lost"."""
        if session.state != "open" or session.cut:
            return "lost"
        if self.guards.unique and unit in self.markers:
            return "duplicate"
        if self.guards.unique and self.waits and self._is_held(unit, session):
            return "blocked"
        session.markers[unit] = marker
        return "ok"

    def _is_held(self, unit: str, by_another_than: Session) -> bool:
        return any(
            each is not by_another_than and unit in each.markers and each.state in ("open", "committing")
            for each in self.sessions
        )

    def commit(self, session: Session) -> None:
        """COMMIT is sent."""
        if session.state == "open":
            session.state = "committing"

    def serve(self, session: Session) -> None:
        """The server does a COMMIT. One whose inserts do not wait refuses now what is there twice."""
        if self.guards.unique and self.markers.keys() & session.markers.keys():
            session.state = "aborted"
            return
        session.state = "committed"
        for unit, marker in session.markers.items():
            self.markers.setdefault(unit, marker)
        self.effects += session.effects

    def abort(self, session: Session) -> None:
        if session.state in ("open", "committing"):
            session.state = "aborted"

    def crash(self) -> None:
        for session in self.sessions:
            self.abort(session)
            session.cut = True

    def clean(self, unit: str) -> None:
        """Delete a marker. An aborted one may go at once where an insert waits for another's; elsewhere when no
        transaction is as old.
        """
        marker = self.markers.get(unit)
        aborted = marker is not None and marker.outcome == ABORTED
        may_go = self.waits or not self.guards.keep_aborted or not any(unit in each.markers for each in self.sessions)
        if not aborted or may_go:
            self.markers.pop(unit, None)
