"""Bound the memory that the lines of a server make it hold: of one line, and of all together; long bodies of HTTP count
among them.

1. A line holds the calls that are under way on it with what they were called with, their answers until they are
   written, and the frame that is coming in, in its whole length from its first bytes on. While that is more than
   `in_flight_bytes` nothing more is handled or read of it.
2. All lines together hold `server_bytes`. Beyond that a line waits with what it sends, unless it holds next to nothing
   (`FREE_BYTES`): so whoever makes small calls is served whatever others do.
3. A frame that has no room waits, unread, until there is. One long frame at a time needs none, so that a message longer
   than all room can be sent, and no lines wait for each other for ever.
4. Calls that wait for a message cannot be deferred, since it may be the next call that ends their wait.
   They are counted by themselves (`Flow.check_waiting`), and refused when they are too many.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.engine.calls.room import Room
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

FREE_BYTES: Final = 32 * 1024
"""The bytes that each line may hold, whatever the others do."""

WAITING_WEIGHT: Final = 1024
"""Of a call that waits, beside a long descriptor."""


def _nothing() -> None:
    pass


class MemoryReserve:
    """The memory that all lines of a server hold, and who waits until that is less."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.waiting_calls = 0  # their weight
        self._loop = asyncio.get_running_loop()
        self.contended = False  # lines wait, or one has a long frame
        self._lines: dict[Callable[[], None], None] = {}
        self._wake_due = False
        self._long: Flow | BodyRoom | None = None  # the line whose long frame needs no room

    @property
    def over(self) -> bool:
        """True if it is more than it should be."""
        return self.held > self.limit

    def admit(self, flow: Flow | BodyRoom, length: int) -> bool:
        """True if a frame of so many bytes may come now."""
        if self.held + length <= self.limit:
            return True
        if self._long is None:
            self._long = flow
            self.contended = True
        return self._long is flow

    def leave(self, flow: Flow | BodyRoom) -> None:
        """The long frame of this line, if it had one, is out of the way."""
        if self._long is flow:
            self._long = None
            self.wake()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when there is room, or might be."""
        self._lines[go_on] = None
        self.contended = True

    def forget(self, go_on: Callable[[], None]) -> None:
        """Call this no more: its line has ended."""
        self._lines.pop(go_on, None)

    def wake(self) -> None:
        """There is more room than there was: let those go on who wait for it."""
        if self._lines and not self._wake_due and (not self.over or self._long is None):
            self._wake_due = True
            self._loop.call_soon(self._wake_all)

    def _wake_all(self) -> None:
        """In the order in which they began to wait; those for whom there is no room wait again."""
        self._wake_due = False
        lines, self._lines = self._lines, {}
        self.contended = self._long is not None
        for go_on in lines:
            go_on()


class BodyRoom:
    """The memory that the body of one request of HTTP takes, beside the lines of the MQI. `reserve` is theirs."""

    def __init__(self, reserve: MemoryReserve) -> None:
        self._reserve = reserve
        self._held = 0

    async def hold(self, size: int) -> None:
        """Wait until there is room for so many bytes more, which are held until `leave`."""
        reserve = self._reserve
        while not reserve.admit(self, size):
            room = asyncio.Event()
            reserve.wait(room.set)
            try:
                await room.wait()
            finally:
                reserve.forget(room.set)
        self._held += size
        reserve.held += size

    def leave(self) -> None:
        """Give back all that is held."""
        if self._held:
            self._reserve.held -= self._held
            self._held = 0
            self._reserve.leave(self)
            self._reserve.wake()


class Flow(Room):
    """The memory that one line holds. `go_on` is called when it may hold more again."""

    def __init__(self, limit: int, reserve: MemoryReserve, go_on: Callable[[], None]) -> None:
        self.weight = 0
        self.answers = 0  # of it: messages that were got, and are not written yet
        self._limit = limit
        self._reserve = reserve
        self._go_on = go_on
        self._frame = 0  # the length of the frame that is coming in
        self._waiting_calls = 0  # the weight of their descriptors
        self._calls = 0  # the calls that wait
        self._over = False  # since it was over the limit, until it is under half of it
        self.held_back: dict[Callable[[], None], None] = {}  # of connections, to go on with
        self.ended = False

    def got(self, size: int) -> None:
        self.answers += size
        self.add(size)

    @property
    def congested(self) -> bool:
        """Only for answers: calls that are deferred weigh something themselves, and must not wait for that."""
        return self.answers > 0 and self.full

    def add(self, size: int) -> None:
        """So many bytes more are held."""
        if self.ended:
            return
        reserve = self._reserve
        self.weight += size
        reserve.held += size
        if size < 0 and reserve.contended:
            if self.weight <= self._limit:
                reserve.leave(self)
            reserve.wake()

    @property
    def full(self) -> bool:
        """True if nothing more may be read, or called, for now. The frame that is coming in has its room."""
        calls = self.weight - self._frame
        if calls <= FREE_BYTES:
            self._over = False
            return False
        if not self._over and calls <= self._limit and self._reserve.held <= self._reserve.limit:
            return False
        self._over = calls > (self._limit // 2 if self._over else self._limit)
        if self._over:
            return True
        if self._reserve.over:
            self._reserve.wait(self._go_on)
            return True
        return False

    def wait(self, go_on: Callable[[], None]) -> None:
        if not self.ended:
            self.held_back[go_on] = None

    def wake(self) -> None:
        """Let the calls go on that wait for room, as far as there is."""
        while self.held_back and not self.congested:
            go_on = next(iter(self.held_back))
            del self.held_back[go_on]
            go_on()

    def admit(self, length: int) -> bool:
        """Return True if a frame of so many bytes may come; it counts from now on."""
        if length > FREE_BYTES:
            if self.weight and self.weight + length > self._limit:
                return False  # until this line has less under way
            if not self._reserve.admit(self, length):
                self._reserve.wait(self._go_on)
                return False
        self._frame = length
        self.add(length)
        return True

    def arrived(self) -> None:
        """The frame that was coming in is complete, and counts no longer."""
        length, self._frame = self._frame, 0
        self.add(-length)

    def check_waiting(self, size: int) -> None:
        """Check that one more call may wait, with a descriptor of so many bytes. Raises RESOURCE_PROBLEM (2102)."""
        if self._waiting_calls + size > self._limit:
            raise MQError(
                MQRC.RESOURCE_PROBLEM,
                f"the calls that wait on this line have {self._waiting_calls} bytes of descriptors: {size} more are "
                f"over [limits] in_flight_bytes = {self._limit}",
            )
        if self._reserve.waiting_calls + WAITING_WEIGHT + size > self._reserve.limit:
            raise MQError(
                MQRC.RESOURCE_PROBLEM,
                f"the calls that wait on all lines hold {self._reserve.waiting_calls} bytes: no more fit into [limits] "
                f"server_bytes = {self._reserve.limit}",
            )

    def wait_with(self, size: int) -> None:
        """A call more waits."""
        self._waiting_calls += size
        self._calls += 1
        self._reserve.waiting_calls += WAITING_WEIGHT + size

    def waited_with(self, size: int) -> None:
        """A call waits no longer."""
        self._waiting_calls -= size
        self._calls -= 1
        self._reserve.waiting_calls -= WAITING_WEIGHT + size

    def end(self) -> None:
        """The line is gone, and holds nothing any more."""
        self.held_back.clear()
        self._frame = 0
        self._reserve.waiting_calls -= self._waiting_calls + WAITING_WEIGHT * self._calls
        self._waiting_calls = self._calls = 0
        self.add(-self.weight)
        self._reserve.leave(self)
        self._reserve.forget(self._go_on)
        self._go_on = _nothing
        self.ended = True
