"""`unit_of_work()`: the unit of work of a connection, and which calls join it.

A connection has one unit of work at a time, and may be shared by tasks. `unit_of_work()` belongs to the task that
entered it and to those started inside it: a context variable, which tasks inherit, names the units that its task is
inside. It names units and not connections, so whatever lives on after a unit is outside again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from broker.interface.answers import NO_LIST
from broker.mqi.constants.options import MQGMO, MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from broker.interface.answers import GetAnswer, Placed
    from broker.interface.connection import Connection
    from broker.interface.message import Message
    from broker.interface.port import Call

T = TypeVar("T")


class Guard(Protocol):
    """Looks at the messages that a program gets under syncpoint, for whoever gave it its connection."""

    async def admits(self, connection: Connection, message: Message) -> bool:
        """True if the program of this connection is given this message, which is in its unit of work; otherwise it is
        given the next.
        """

    def committed(self) -> None:
        """The program has committed the unit of work."""


_PUT_SYNCPOINT: Final = MQPMO.SYNCPOINT.value
_SYNCPOINT: Final = MQGMO.SYNCPOINT.value
_IF_PERSISTENT: Final = MQGMO.SYNCPOINT_IF_PERSISTENT.value
_WAIT: Final = MQGMO.WAIT.value

entered: ContextVar[tuple[UnitOfWork, ...]] = ContextVar("units_of_work", default=())
"""The units that the task which looks is inside, and some that have ended."""


class UnitOfWork:
    """The unit of work of one `async with connection.unit_of_work() as unit` block.

    `unit.puts` and `unit.gets` say how many messages have been put and got in it, as far as the calls have been
    answered; they begin anew with a commit or backout inside the block. When it has been left they say what was
    committed or undone with it.
    """

    def __init__(self, connection: Connection, holder: str = "another task's unit of work") -> None:
        self.puts = 0
        self.gets = 0
        self._connection = connection
        self._holder = holder
        self._waiting: set[Call[Any]] = set()  # gets inside it that have no answer yet

    @property
    def joined(self) -> bool:
        """True if the running task entered it, or was started inside it."""
        return self in entered.get()

    # What is in it

    def count_put(self, options: int, placed: Placed) -> None:
        """A put with these options has succeeded, if only at some destinations of a list."""
        if int(options) & _PUT_SYNCPOINT:
            to = placed.distribution
            self.puts += 1 if to is NO_LIST else len(to.records) - to.invalid_dest_count

    def count_get(self, options: int, delivery: GetAnswer) -> None:
        """A get with these options has brought this message."""
        if in_unit(int(options), delivery):
            self.gets += 1

    def count_gets(self, options: int, deliveries: Sequence[GetAnswer]) -> None:
        """A batch of gets has."""
        for each in deliveries:
            self.count_get(options, each)

    def begin_anew(self) -> None:
        """It was committed or backed out, and its block goes on."""
        self.puts = self.gets = 0

    async def answer(self, call: Call[T], options: int) -> T:
        """Take the answer to a get that was made while the unit is open (`broker.interface.port.answer`).

        One made inside it that still waits when it ends is withdrawn, since nobody would end the unit that its message
        would then be in. Raises NO_MSG_AVAILABLE (2033) for it.
        """
        options = int(options)
        ends_with_it = options & _WAIT and options & (_SYNCPOINT | _IF_PERSISTENT) and self.joined
        if ends_with_it:
            self._waiting.add(call)
        try:
            result = await call
        except asyncio.CancelledError:
            withdrawn = ends_with_it and call not in self._waiting
            if not withdrawn:
                call.abandon()
            if not withdrawn or _being_cancelled():
                raise
            raise MQError(MQRC.NO_MSG_AVAILABLE, "its unit of work ended while the get waited") from None
        finally:
            self._waiting.discard(call)
        call.take()
        return result

    # Its life

    async def begin(self) -> None:
        """Make it the unit of its connection, which nobody is inside yet. Raises UOW_IN_PROGRESS (2128)."""
        connection = self._connection
        if connection.unit is not None:
            raise MQError(MQRC.UOW_IN_PROGRESS, connection.unit.refusal())
        connection.unit = self
        try:
            await connection.begin()
        except BaseException:
            connection.unit = None
            raise

    def join(self) -> None:
        """The task that calls this is inside it, with those that it starts from now on."""
        entered.set((*_open_ones(), self))

    def end(self) -> None:
        """Nobody is inside it any more. Call this before its commit or backout."""
        self._connection.unit = None
        entered.set(_open_ones())
        waiting = [each for each in self._waiting if not each.done()]
        self._waiting.difference_update(waiting)
        for call in waiting:
            call.withdraw()

    def refusal(self) -> str:
        """Return the text for a task that asks for a second unit of work."""
        if self.joined:
            return "this task is inside a unit_of_work() of this connection already"
        return (
            f"{self._holder} is open on this connection, which has one at a time: "
            "a task may have a connection of its own, by connection.connect()"
        )

    async def __aenter__(self) -> Self:
        await self.begin()
        self.join()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if error is None:
            await self._commit()
            return
        await self._connection.hold_backout(kind)
        with suppress(MQError):  # what ended the block matters more; without a connection it is backed out all the same
            await self._connection.backout()
        self._add_note(error)

    async def _commit(self) -> None:
        try:
            await self._connection.commit()
        except MQError as failed:
            if failed.reason == MQRC.BACKED_OUT:
                self._add_note(failed)
            raise

    def _add_note(self, error: BaseException) -> None:
        """Note on the exception that has ended it what was undone."""
        if self.puts or self.gets:
            what = f"{_counted(self.puts, 'put')} and {_counted(self.gets, 'get')}"
            error.add_note(f"unit of work on {self._connection.q_mgr_name} backed out: {what} undone")

    def __repr__(self) -> str:
        return f"<UnitOfWork of {_counted(self.puts, 'put')} and {_counted(self.gets, 'get')}>"


def in_unit(options: int, delivery: GetAnswer) -> bool:
    """True if a message that a get with these options has brought is in a unit of work."""
    return bool(options & _SYNCPOINT or (options & _IF_PERSISTENT and delivery.persistence))


def _open_ones() -> tuple[UnitOfWork, ...]:
    """Return the units of work that this task is inside, without those that have ended."""
    return tuple(unit for unit in entered.get() if unit._connection.unit is unit)


def _being_cancelled() -> bool:
    """True if somebody has cancelled this task."""
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
