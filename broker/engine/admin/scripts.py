"""The answer to a call of MQSC: its replies, which may be very many, in parts as they are made."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.engine.jobs.awaits import Look
from broker.interface.port import Call
from broker.mqi.replies import CommandReply, ReplyPart, replies_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.storage.store import Done

UNREAD_BYTES: Final = 64 * 1024
"""While parts of so many bytes have not been read, no more are made for who reads them one by one."""

_REPLY_WEIGHT: Final = 256
_ATTRIBUTE_WEIGHT: Final = 64


class ScriptCall(Call[list[CommandReply]]):
    """A call of MQSC. The parts of its replies gather until the last is there, or until they are `read`.

    `limit` is the most bytes that its replies may have, roughly as they are held in memory.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.user = ""
        """The user whose commands these are, for the log."""

        self._parts: list[ReplyPart] = []
        self._unread = 0
        self._bytes = 0
        self._heard: Callable[[], None] | None = None
        self._go_on: Callable[[], None] | None = None

    @property
    def over(self) -> bool:
        """True if the replies have more bytes than they may have."""
        return self._bytes > self.limit

    @property
    def full(self) -> bool:
        """True if somebody reads, but not fast enough for more to be made now."""
        return self._heard is not None and self._unread >= UNREAD_BYTES and not self.done()

    def stream(self, heard: Callable[[], None]) -> None:
        """From now on the parts are read as they come: `heard` is called when there is something to read. The result
        of the call is then what is left to read.
        """
        self._heard = heard
        if self._parts:
            heard()

    def read(self) -> list[ReplyPart]:
        """The parts that have come since the last time."""
        parts, self._parts, self._unread = self._parts, [], 0
        go_on, self._go_on = self._go_on, None
        if go_on is not None:
            go_on()
        return parts

    def add(self, reply: CommandReply, *, continues: bool = False) -> None:
        """A reply has been made, or a part of one."""
        if self.done():
            return
        self._parts.append(ReplyPart(reply, continues))
        weight = weight_of(reply)
        self._unread += weight
        self._bytes += weight
        if self._heard is not None:
            self._heard()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when it is no longer `full`, or nobody waits for the replies any more."""
        self._go_on = go_on

    def complete(self) -> None:
        """The last reply has been made."""
        if not self.done():
            self.set_result([] if self._heard is not None else replies_of(self._parts))

    def cancel(self, msg: object = None) -> bool:
        cancelled = super().cancel(msg)
        self.read()
        return cancelled


class Unread(Look[None]):
    """Replies that are to be read before more are made."""

    __slots__ = ("_call",)

    answer = None

    def __init__(self, call: ScriptCall) -> None:
        self._call = call

    def begin(self, done: Done) -> None:
        self._call.wait(partial(done, None))


def weight_of(reply: CommandReply) -> int:
    """Return the rough number of bytes that a reply holds."""
    return _REPLY_WEIGHT + len(reply.text) + _ATTRIBUTE_WEIGHT * sum(map(len, reply.attributes))
