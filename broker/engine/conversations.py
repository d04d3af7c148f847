"""The conversations of a queue manager that have not ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.clock import Clock
    from broker.core.queues.unit import Unit
    from broker.engine.conversation import Conversation


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
