"""Generated messages: those that the queue manager itself puts, such as reports and events.

Each knows where it is to go; whether it can be put there is found out when it is sent
(`broker.core.calls.puts.sending`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.mqi.layouts.packing import unpack_md
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from broker.mqi.errors import MQError


class GeneratedMessage(NamedTuple):
    """A message of the queue manager's own. Its descriptor is complete, but may leave priority and persistence to the
    queue. `properties` are packed as on a queue. One without `dead_letter` is lost where it cannot be put; one without
    `triggers` starts nothing there. One that is `due` was so when its queue took messages: that this has PUT(DISABLED)
    by now does not matter.
    """

    q_name: str
    q_mgr_name: str
    md: MessageDescriptor
    data: bytes
    properties: bytes = b""
    dead_letter: bool = True
    triggers: bool = True
    due: bool = False


def descriptor_of(entry: Entry) -> MessageDescriptor:
    """The descriptor of a message on a queue, as far as it does not describe how that is delivered."""
    md = MessageDescriptor(
        msg_id=entry.msg_id,
        correl_id=entry.correl_id,
        group_id=entry.group_id,
        msg_seq_number=entry.msg_seq_number,
        offset=entry.offset,
        msg_flags=entry.msg_flags,
        original_length=entry.original_length,
        priority=entry.priority,
        persistence=entry.persistence,
        expiry=-1,
    )
    unpack_md(entry.packed_md, md)
    return md


class Lost(NamedTuple):
    """A message that could be put nowhere, and why it could not be put where it should have gone."""

    message: GeneratedMessage
    error: MQError
