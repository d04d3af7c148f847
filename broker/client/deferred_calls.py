"""Calls of a connection that outlives its line: made when there is a line again, or answered without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.interface.port import Call, Port, T, drop
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable


class DeferredCall(Call[T]):
    """A call that is made when the line is there again, or whose result is made of that of another."""

    receives = True

    def __init__(self, make: Callable[[], Call[Any]], of: Callable[[Any], T] | None = None) -> None:
        super().__init__()
        self._make = make
        self._of = of
        self.made: Call[Any] | None = None

    def go(self) -> None:
        """Make it now."""
        if self.done():
            return
        try:
            self.made = self._make()
        except MQError as error:
            self.set_exception(error)
        else:
            self.made.add_done_callback(self._over)

    def fail(self, error: MQError) -> None:
        """It cannot be made."""
        if not self.done():
            self.set_exception(MQError(error.reason, error.detail))

    def _over(self, made: Future[Any]) -> None:
        if self.done():
            return
        if made.cancelled():
            self.cancel()
        elif (error := made.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(made.result() if self._of is None else self._of(made.result()))

    def take(self) -> None:
        if self.made is not None:
            self.made.take()

    def abandon(self) -> None:
        self.cancel()
        if self.made is not None:
            self.made.withdraw()


class DeferredConnect(DeferredCall[Port]):
    """The call for a further connection, which outlives its line too."""

    def abandon(self) -> None:
        if self.done() and not self.cancelled() and self.exception() is None:
            drop(self.result())
        else:
            super().abandon()


def answered(result: T) -> Call[T]:
    """Return a call that has this result, without having been made."""
    call: Call[T] = Call()
    call.set_result(result)
    return call


def failed(error: MQError) -> Call[Any]:
    """Return a call that has failed so, without having been made."""
    call: Call[Any] = Call()
    call.set_exception(error)
    return call
