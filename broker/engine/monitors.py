"""Trigger monitors that wait for a post (TPF's evnwc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.core.triggering import Triggers
    from broker.interface.port import Call


class Monitors:
    """Those who wait for `posts` to grow."""

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers
        self._seen = triggers.posts
        self._waiting: dict[Call[int], None] = {}

    def wait(self, call: Call[int], posts: int) -> None:
        """Answer `call` when there was a post after the first `posts`: at once, if there was one already."""
        if self._triggers.posts > posts:
            call.set_result(self._triggers.posts)
            return
        self._waiting[call] = None
        call.add_done_callback(self._forget)

    def wake(self) -> None:
        """Answer everybody, if there was a post since the last time."""
        if self._triggers.posts == self._seen:
            return
        self._seen = self._triggers.posts
        for call in list(self._waiting):
            if not call.done():
                call.set_result(self._seen)

    def end(self, error: Exception) -> None:
        """Answer everybody with an error."""
        for call in list(self._waiting):
            if not call.done():
                call.set_exception(error)

    def _forget(self, call: Call[int]) -> None:
        self._waiting.pop(call, None)
