"""The lines that have come in by each channel: MAXINST and MAXINSTC (security 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.engine import QueueManager
    from broker.server.session import Session


class ChannelLines:
    """Lines by their channels, and those of each by the addresses that they come from."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._lines: dict[str, dict[Session, str]] = {}

    @property
    def heartbeat(self) -> float:
        """The lowest HBINT of the channels by which clients come, in seconds: it is agreed on before they name one."""
        return self._manager.authentication.lowest_heartbeat()

    def unavailable(self, session: Session, name: str) -> str:
        """Return why no line more comes in by a channel, empty if one does, or this one has already."""
        channel = self._manager.authentication.channel(name)
        own = session.logins.channel
        if channel is None or own == channel.name:
            return ""
        if own:
            return f"this line has come by {own}: dial another"
        lines = self._lines.get(channel.name, {})
        if len(lines) >= channel.max_instances:
            return f"{len(lines)} lines have come by it, its MAXINST"
        if channel.max_instances_per_client <= len(lines):
            count = sum(1 for address in lines.values() if address == session.line.address)
            if count >= channel.max_instances_per_client:
                return f"{count} lines have come by it from {session.line.address}, its MAXINSTC"
        return ""

    def begin(self, session: Session, name: str) -> None:
        """A line has come in by a channel."""
        channel = self._manager.authentication.channel(name)
        assert channel is not None, "it has come in by it"
        session.logins.channel = channel.name
        self._lines.setdefault(channel.name, {})[session] = session.line.address

    def end(self, session: Session) -> None:
        """A line has ended."""
        lines = self._lines.get(session.logins.channel)
        if lines is not None:
            lines.pop(session, None)
            if not lines:
                del self._lines[session.logins.channel]

    def of(self, name: str, address: str = "") -> list[Session]:
        """Return the lines that have come by a channel, from an address if one is given."""
        return [each for each, come_from in self._lines.get(name, {}).items() if address in ("", come_from)]
