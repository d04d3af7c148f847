"""Generated messages: those that the queue manager itself puts, such as reports and events.

Each knows where it is to go; whether it can be put there is found out when it is sent (`broker.core.calls.sending`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.mqi.errors import MQError
    from broker.mqi.structures import MessageDescriptor


class GeneratedMessage(NamedTuple):
    """A message of the queue manager's own. Its descriptor is complete, but may leave priority and persistence to the
    queue. `properties` are packed as on a queue. One without `dead_letter` is lost where it cannot be put; one without
    `triggers` starts nothing there.
    """

    q_name: str
    q_mgr_name: str
    md: MessageDescriptor
    data: bytes
    properties: bytes = b""
    dead_letter: bool = True
    triggers: bool = True


class Lost(NamedTuple):
    """A message that could be put nowhere, and why it could not be put where it should have gone."""

    message: GeneratedMessage
    error: MQError
