"""`app.sync`: the calls of an app, blocking, for threads and for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from broker import portal_here

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Unpack

    from broker import JobStatus, PutResult
    from triggers.app.app import App
    from triggers.app.putting import PutOptions
    from triggers.history.results import MessageResult
    from triggers.serving.session import AppSession

T = TypeVar("T")


class SyncApp:
    """The blocking face of an app: `app.sync.put("ORDERS", order)`, for threads.

    In the thread of a handler a call is in its unit of work, as those of the app itself, which block there too. Each
    raises what the call of `App` does; RuntimeError on the thread of the app's event loop, and when the app does not
    run.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    def put(self, q_name: str, body: object, **options: Unpack[PutOptions]) -> PutResult:
        """Put a message, as `App.put`."""
        session = self._app.session
        return _done(session, session.puts.put(q_name, body, options))

    def put_group(self, q_name: str, bodies: Sequence[object], **options: Unpack[PutOptions]) -> list[PutResult]:
        """Put a message group, as `App.put_group`."""
        session = self._app.session
        return _done(session, session.puts.put_group(q_name, bodies, options))

    def cancel(self, put: PutResult) -> bool:
        """Remove a delayed message, as `App.cancel`."""
        session = self._app.session
        return _done(session, session.puts.cancel(put))

    def release(self, put: PutResult) -> bool:
        """Deliver a delayed message now, as `App.release`."""
        session = self._app.session
        return _done(session, session.puts.release(put))

    @overload
    def request(self, q_name: str, body: object, *, timeout: float) -> Any: ...
    @overload
    def request(self, q_name: str, body: object, *, timeout: float, type: type[T]) -> T: ...
    def request(self, q_name: str, body: object, *, timeout: float, type: Any = Any) -> Any:
        """Put a request and wait for its reply, as `App.request`."""
        session = self._app.session
        return _done(session, session.request(q_name, body, timeout, type))

    @overload
    def result(
        self, put: PutResult | bytes, timeout: float | None = None, *, queue: str | None = None
    ) -> MessageResult[Any]: ...
    @overload
    def result(
        self, put: PutResult | bytes, timeout: float | None = None, type: type[T] = ..., *, queue: str | None = None
    ) -> MessageResult[T]: ...
    def result(
        self, put: PutResult | bytes, timeout: float | None = None, type: Any = Any, *, queue: str | None = None
    ) -> MessageResult[Any]:
        """Wait until a message has ended, as `App.result`."""
        session = self._app.session
        return _done(session, session.results.result(put, timeout, type, queue))

    def status(self, put: PutResult | bytes, *, queue: str | None = None) -> JobStatus:
        """Return what has become of a message until now, as `App.status`."""
        session = self._app.session
        return _done(session, session.results.status(put, queue))


def _done(session: AppSession, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of a session, while this thread waits, and return its result."""
    handler = portal_here()
    if handler is None or handler.loop is session.portal.loop:
        return (handler or session.portal).call(coroutine)
    return handler.call(_across(session, coroutine))


async def _across(session: AppSession, coroutine: Coroutine[Any, Any, T]) -> T:
    return await session.portal.across(coroutine)
