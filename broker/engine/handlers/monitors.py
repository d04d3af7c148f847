"""Trigger monitors that wait for a post (TPF's evnwc)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.engine.calls.answers import fail

if TYPE_CHECKING:
    from broker.core.triggers import Triggers
    from broker.interface.port import Call, Port
    from broker.mqi.errors import MQError


class Monitors:
    """The monitors that wait for `posts` to grow."""

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers
        self._seen = triggers.posts
        self._waiting: dict[Port, dict[Call[int], None]] = {}
        self._refusal: MQError | None = None

    def wait(self, port: Port, call: Call[int], posts: int) -> None:
        """Answer `call` when there was a post after the first `posts`: at once, if there was one already."""
        if self._refusal is not None:
            raise self._refusal
        if self._triggers.posts > posts:
            call.set_result(self._triggers.posts)
            return
        self._waiting.setdefault(port, {})[call] = None
        call.add_done_callback(partial(self._forget, port))

    def wake(self) -> None:
        """Answer everybody, if there was a post since the last time."""
        if self._triggers.posts == self._seen:
            return
        self._seen = self._triggers.posts
        for call in self._all():
            if not call.done():
                call.set_result(self._seen)

    def leave(self, port: Port, reason: int) -> None:
        """A connection ends: so do its waits."""
        for call in list(self._waiting.get(port, ())):
            fail(call, reason)

    def end(self, error: MQError) -> None:
        """The queue manager is ending: nobody waits any more, now or later."""
        self._refusal = error
        for call in self._all():
            fail(call, error.reason, error.detail)

    def _all(self) -> list[Call[int]]:
        return [call for calls in self._waiting.values() for call in calls]

    def _forget(self, port: Port, call: Call[int]) -> None:
        calls = self._waiting[port]
        del calls[call]
        if not calls:
            del self._waiting[port]
