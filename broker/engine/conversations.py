"""The conversations of a queue manager that have not ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.clock import Clock
    from broker.core.queues.unit import Unit
    from broker.engine.conversation import Conversation
    from broker.engine.opening import JoinableGroup
    from broker.engine.shared_queues import SharedQueues


class Conversations:
    """The conversations that have begun and not ended, in the order in which they began. They may end while somebody
    iterates over them.
    """

    def __init__(self) -> None:
        self._open: dict[Conversation, None] = {}
        self._all_ended = anyio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Conversation]:
        return iter(list(self._open))

    def add(self, conversation: Conversation) -> None:
        """A conversation begins."""
        self._open[conversation] = None

    def forget(self, conversation: Conversation) -> None:
        """A conversation has ended."""
        self._open.pop(conversation, None)
        if not self._open:
            self._all_ended.set()

    def units(self) -> Iterator[Unit]:
        """The units of work that connections have begun and not ended."""
        for conversation in self._open:
            if conversation.hconn.unit is not None:
                yield conversation.hconn.unit

    async def until_ended(self, clock: Clock, timeout: float) -> None:
        """Return when the last conversation has ended, or after `timeout` seconds."""
        if self._open:
            self._all_ended = anyio.Event()
            timer = clock.call_later(timeout, self._all_ended.set)
            await self._all_ended.wait()
            timer.cancel()


def check_named(name: str, own: str, sharing: SharedQueues | None, group: JoinableGroup | None) -> None:
    """Raise Q_MGR_NAME_ERROR (2058) unless a program that names a queue manager so means the one called `own`, or a
    member of its queue-sharing group, which it is; Q_MGR_NOT_AVAILABLE (2059) where it is out of that group.
    """
    if name in ("", own):
        return
    if sharing is None or group is None or name != group.name:
        raise MQError(MQRC.Q_MGR_NAME_ERROR, f"{name} is not here; this is {own}")
    if not sharing.in_group:
        raise MQError(
            MQRC.Q_MGR_NOT_AVAILABLE,
            f"{own} is not in its queue-sharing group {name} now: connect to another member, or by the name {own} for "
            "its private queues",
        )
