"""Connection tags: programs that may not run beside one another name the same one (MQCONNX, queue-sharing 6).

A tag is taken with the connection and is free when that has ended, its unit of work included: so whoever has it next
finds all messages that the last user had got and not committed. In a queue-sharing group the database has the tags;
the queue manager that is in none has them here.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from broker.mqi.constants.connections import MQCNO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.engine.conversation import Conversation
    from broker.interface.port import Call

TAG_BYTES: Final = 128
"""The length of a tag; shorter ones are filled up with zeros."""

_RESTRICT: Final = int(MQCNO.RESTRICT_CONN_TAG_Q_MGR | MQCNO.RESTRICT_CONN_TAG_QSG)
_GROUPWIDE: Final = int(MQCNO.SERIALIZE_CONN_TAG_QSG | MQCNO.RESTRICT_CONN_TAG_QSG)
_ALL: Final = _RESTRICT | _GROUPWIDE | int(MQCNO.SERIALIZE_CONN_TAG_Q_MGR)
_WITHOUT_EFFECT: Final = int(
    MQCNO.HANDLE_SHARE_NONE
    | MQCNO.HANDLE_SHARE_BLOCK
    | MQCNO.HANDLE_SHARE_NO_BLOCK
    | MQCNO.SHARED_BINDING
    | MQCNO.ISOLATED_BINDING
    | MQCNO.LOCAL_BINDING
    | MQCNO.CLIENT_BINDING
)
"""Options by which programs of IBM MQ describe where the queue manager and their threads are."""


@dataclass(frozen=True, slots=True)
class TagUse:
    """A connection's use of a tag. `process`: whose connections may share it, unless it is `exclusive`."""

    tag: bytes
    process: str
    exclusive: bool
    groupwide: bool
    id: UUID

    def __str__(self) -> str:
        return self.tag.rstrip(b"\0").decode("latin-1")


def serialize(conversation: Conversation, call: Call[int], options: int, tag: bytes) -> None:
    """Take a tag for a connection. Raises OPTIONS_ERROR (2046), CNO_ERROR (2139), CONN_TAG_IN_USE (2271); in a group
    also CONN_TAG_NOT_USABLE (2350).
    """
    use = wanted(conversation, options, tag)
    if use is None:
        call.set_result(0)
    elif conversation.tag_use is not None:
        raise MQError(MQRC.OPTIONS_ERROR, "the connection has a tag already")
    elif conversation.context.sharing is not None:
        conversation.context.sharing.tags.take(conversation, call, use)
    elif use.groupwide:
        raise MQError(
            MQRC.OPTIONS_ERROR,
            f"{conversation.q_mgr_name} is in no queue-sharing group: serialize in the queue manager",
        )
    else:
        conversation.manager.tags.take(use)
        hold(conversation, use)
        call.set_result(0)


def wanted(conversation: Conversation, options: int, tag: bytes) -> TagUse | None:
    """Return the tag that a program asks for, if it asks for one. Raises OPTIONS_ERROR (2046), CNO_ERROR (2139)."""
    others = options & ~(_ALL | _WITHOUT_EFFECT)
    if others:
        raise MQError(MQRC.OPTIONS_ERROR, f"MQCNO options {others:#x} are not supported")
    chosen = options & _ALL
    if not chosen:
        return None
    if chosen & (chosen - 1):
        raise MQError(MQRC.OPTIONS_ERROR, f"{MQCNO(chosen)!r}: at most one of the four options for connection tags")
    if len(tag) > TAG_BYTES or not tag.strip(b"\0"):
        raise MQError(MQRC.CNO_ERROR, f"a connection tag has up to {TAG_BYTES} bytes that are not all zero")
    if tag[:2].upper() == b"MQ":
        raise MQError(MQRC.CNO_ERROR, f"{tag[:16]!r}: connection tags that begin with MQ are reserved")
    process = conversation.process or f"process {os.getpid()} on {socket.gethostname()}"
    exclusive, groupwide = not chosen & _RESTRICT, bool(chosen & _GROUPWIDE)
    return TagUse(tag.ljust(TAG_BYTES, b"\0"), process, exclusive, groupwide, uuid4())


def in_use(use: TagUse) -> MQError:
    """Return the error for a tag that cannot be had."""
    return MQError(
        MQRC.CONN_TAG_IN_USE,
        f"connection tag {use} is in use by another program, or one that has ended has left a unit of work that is not "
        "over yet: try again",
    )


def hold(conversation: Conversation, use: TagUse) -> None:
    """The connection has its tag."""
    conversation.tag_use = use
    conversation.hconn.tag = use.tag


def release(conversation: Conversation, then: Callable[[], None]) -> None:
    """The connection has ended, and its unit of work: its tag is free when `then` is called."""
    use, conversation.tag_use = conversation.tag_use, None
    if use is None:
        then()
    elif conversation.context.sharing is not None:
        conversation.context.sharing.tags.release(conversation.call_order, use, then)
    else:
        conversation.manager.tags.release(use)
        then()


class LocalTags:
    """The tags of a queue manager that is in no group."""

    def __init__(self) -> None:
        self._uses: dict[bytes, list[TagUse]] = {}

    def take(self, use: TagUse) -> None:
        """Raises CONN_TAG_IN_USE (2271)."""
        uses = self._uses.setdefault(use.tag, [])
        if uses and (use.exclusive or any(each.exclusive or each.process != use.process for each in uses)):
            raise in_use(use)
        uses.append(use)

    def release(self, use: TagUse) -> None:
        self._uses[use.tag].remove(use)
        if not self._uses[use.tag]:
            del self._uses[use.tag]
