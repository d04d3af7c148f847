"""Messages that somebody holds, so that no browse sees them: counted by their holders, and the first named by MsgId."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.message.entry import Entry
    from broker.core.queues.unit import Unit

MESSAGES_NAMED: Final = 10
"""So many messages of one holder are named."""

HOLDERS_NAMED: Final = 100
"""The messages of so many holders are named, of others only counted."""


class HeldMessages:
    """Messages of a queue with one holder: how many, and the MsgIds of the first, in hexadecimal digits."""

    __slots__ = ("messages", "msg_ids")

    def __init__(self) -> None:
        self.messages = 0
        self.msg_ids: list[str] = []

    def figures(self) -> dict[str, Any]:
        """Return what a finding has of them."""
        return {"messages": self.messages, "msg_ids": self.msg_ids}


class HeldByUnit(dict["Unit | None", HeldMessages]):
    """The messages of a queue that units of work hold."""

    def count(self, entry: Entry) -> None:
        """Count one more message, which its unit holds."""
        held = self.get(entry.unit)
        if held is None:
            held = self[entry.unit] = HeldMessages()
        held.messages += 1
        if held.messages <= MESSAGES_NAMED and len(self) <= HOLDERS_NAMED:
            held.msg_ids.append(entry.msg_id.hex())


def first_msg_ids(entries: Iterable[Entry]) -> list[str]:
    """Return the MsgIds of the first of these messages, in the order in which they stand."""
    first = sorted(entries, key=lambda entry: entry.key)[:MESSAGES_NAMED]
    return [entry.msg_id.hex() for entry in first]
