"""`App`: handlers, puts and requests for programs that know no MQ.

    app = App("mq://127.0.0.1:1414")

    @app.handler("ORDERS", retry=Retry(5, backoff=(0.1, 60)))
    async def ship(order: Order) -> None:
        await app.put("SHIPPED", order)

    async with app.running(): ...

Above the MQI stands nothing that the MQI could not do: what becomes of messages is the queue manager's to decide.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar, overload

from broker.mqi import dead_q_name
from broker.unclosed import caller
from triggers.app.blocking import SyncApp
from triggers.app.handler import caller_names, check_name, handler
from triggers.app.source import source_of
from triggers.app.unawaited import verb
from triggers.schedule.cron import Cron
from triggers.schedule.interval import seconds
from triggers.schedule.periodic import function_name, periodic
from triggers.schedule.periodic_schedule import Schedule
from triggers.serving.session import GRACE, AppSession, bound

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path
    from typing import Unpack

    from broker import Database, JobStatus, PutResult
    from triggers.app.handler import Handler, HandlerOptions
    from triggers.app.middleware import Middleware
    from triggers.app.putting import PutOptions
    from triggers.app.source import AppSource, SourceIdentity
    from triggers.history.results import MessageResult
    from triggers.monitor.connections import EmbeddedManager
    from triggers.schedule.periodic import Periodic
    from triggers.schedule.periodic_schedule import Missed, Overlap
    from triggers.testing import AppTest
    from triggers.transactions.transaction import AppTransaction

Function = TypeVar("Function", bound="Callable[..., Any]")
T = TypeVar("T")


class App:
    """Handlers of queues, and what puts messages on them.

    `source` is the URL of a queue manager, a `QueueManager` of this process that is entered, or a folder for one that
    the app opens. `name` is how the app's connections and periodic work are named: by default as the module that makes
    it. `middleware` is called round each handler. `user`, `password`, `token`, `channel` and `tls` say who the app is
    for the queue manager at the URL, as those of `broker.connect`. Nothing happens before `running`.
    """

    def __init__(
        self,
        source: str | Path | EmbeddedManager,
        *,
        name: str | None = None,
        middleware: Sequence[Middleware] = (),
        **identity: Unpack[SourceIdentity],
    ) -> None:
        self.source: AppSource = source_of(source, **identity)
        self.name = name or _module_name(sys._getframe(1).f_globals)
        self.handlers: dict[str, Handler] = {}
        self.middleware = tuple(middleware)
        self.targets: set[str] = set()
        self.periodic: list[Periodic] = []
        self.databases: list[Database] = []
        self.running_session: AppSession | None = None
        self.failed_session: AppSession | None = None  # it has ended by itself, and nobody has heard of it

    def handler(self, q_name: str, **options: Unpack[HandlerOptions]) -> Callable[[Function], Function]:
        """Make a function the handler of a queue: `@app.handler("ORDERS", retry=Retry(5))`.

        An `async def` function runs on the event loop, a plain one in a thread. It is given, by annotation: its body
        (bytes, str, dict, list, dataclass, TypedDict, pydantic model, unions of these; `list[T]` with `batch=N`;
        `Group[T]` for whole groups), `Message`, `Connection`, `Attempt`, `TriggerMessage`, `App`. When it returns, the
        message is gone and all that it put is there, in one step; when it raises, it is tried again.
        `HandlerOptions` describes the options. Raises TypeError for a function that cannot be called so, ValueError for
        options out of range and for a second handler of a queue.
        """
        check_name(q_name)
        names = caller_names(1)
        options = self._known_database(options)

        def declare(function: Function) -> Function:
            self.add(handler(function, q_name, options, names, last_dead_letter=dead_q_name(q_name)))
            return function

        return declare

    def queue(self, q_name: str) -> str:
        """Declare a queue that the app puts to: `IMAGES = app.queue("IMAGES")`. Returns its name.

        When the app runs, the queue is defined if it is missing, as for a handler; and a worker says at its start that
        nobody serves it, where it can know. Raises TypeError and ValueError for what is no name of a queue.
        """
        check_name(q_name)
        self.targets.add(q_name)
        return q_name

    def database(self, source: Any) -> Database:
        """Declare a database of the program's own: a `broker.Database`, or what that takes. Returns it.

        It is opened when the app starts, whose program then decides what others have left undecided there. That of a
        handler need not be declared; that of `transaction` is opened with the first one otherwise. Raises TypeError.
        """
        from triggers.transactions.databases import declared  # what those do not load that have no database

        return declared(self.databases, source)

    def transaction(self, database: Any) -> AppTransaction:
        """`async with app.transaction(pool) as t:` has what the program writes by `t.connection` and what the app puts
        meanwhile committed together, or not at all. In a thread, with a driver for threads: `with`, where `t.put`,
        `t.put_group` and `t.cancel` block.

        It returns when the messages are there. To leave it raises what the database refuses with (CommitRefusedError),
        MQError OUTCOME_PENDING (2124) where it has not answered in time: then it is decided later, by itself. To enter
        it raises DatabaseAwayError, DatabaseUnusableError, and RuntimeError inside another one.
        """
        from triggers.transactions.transaction import AppTransaction

        return AppTransaction(self, database)

    def _known_database(self, options: HandlerOptions) -> HandlerOptions:
        """The options of a handler, whose database is one of the app's."""
        if options.get("database") is None:
            return options
        return {**options, "database": self.database(options["database"])}

    def every(
        self,
        interval: float | timedelta | str,
        *,
        offset: float | timedelta | str = 0.0,
        now: bool = False,
        missed: Missed = "one",
        overlap: Overlap = "skip",
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Function], Function]:
        """Run a function again and again: `@app.every("5m")`.

        `interval` is a number of seconds, a timedelta, or text such as "30s", "1h 30m", "1d"; at least a second. The
        instants are its multiples since 1970 UTC plus `offset`. `now`: a schedule that is new begins with a run.
        However many workers have the function, one of them runs it. It is given, by annotation, a `Tick`, and what a
        handler is given; `options` are those of a handler.

        `missed` says what becomes of instants at which nobody served it: "one" run for all, "all" for one each, up to
        1,000, "none". `overlap` says what becomes of a run that is due while the one before has not ended: "skip",
        "queue" for one after the other, "parallel". Raises what `handler` does, ValueError for what is no interval.
        """
        every, shift = seconds(interval), seconds(offset)
        names = caller_names(1)
        options = self._known_database(options)

        def declare(function: Function) -> Function:
            schedule = Schedule(self.name, function_name(function), every, shift, missed=missed, overlap=overlap)
            self._repeat(periodic(function, schedule, options, at_once=now, names=names))
            return function

        return declare

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        missed: Missed = "one",
        overlap: Overlap = "skip",
        **options: Unpack[HandlerOptions],
    ) -> Callable[[Function], Function]:
        """Run a function at the instants of a cron expression: `@app.cron("0 3 * * *", tz="Europe/Berlin")`.

        As `every` otherwise. Five fields as in crontab(5), or `@daily` and its kin, in a zone of the IANA database. A
        time that the clock leaves out is run at the first instant after the gap, one that it shows twice, once; with a
        `*` or a step in minute or hour, elapsed time counts. Raises ValueError, also for what never comes.
        """
        names = caller_names(1)
        options = self._known_database(options)
        Cron(expression, tz)

        def declare(function: Function) -> Function:
            schedule = Schedule(
                self.name, function_name(function), cron=expression, tz=tz, missed=missed, overlap=overlap
            )
            self._repeat(periodic(function, schedule, options, names=names))
            return function

        return declare

    def _repeat(self, work: Periodic) -> None:
        self.add(work.run)
        self.add(work.schedule_handler)
        self.periodic.append(work)

    def add(self, handler: Handler) -> None:
        """Serve a queue with this handler when the app runs. Raises ValueError when it has one."""
        first = self.handlers.setdefault(handler.q_name, handler)
        if first is not handler:
            raise ValueError(f"queue {handler.q_name} has two handlers: {first.place} and {handler.place}")

    def serve_only(self, q_names: Collection[str]) -> None:
        """Serve these queues alone when the app runs; of periodic work that whose schedule queue is among them."""
        self.periodic = [work for work in self.periodic if work.schedule_handler.q_name in q_names]
        kept = {*q_names, *(work.run.q_name for work in self.periodic)}
        self.handlers = {name: handler for name, handler in self.handlers.items() if name in kept}

    @property
    def session(self) -> AppSession:
        """The running app. Raises RuntimeError when it does not run, and while it starts."""
        session = bound.get(_NO_SESSIONS).get(self) or self.running_session
        if session is None:
            raise RuntimeError(
                f"the app {self.name} does not run: async with app.running(): ..., or app.running(handlers=False) "
                "where workers serve its queues"
            )
        if not session.may_put:
            raise RuntimeError(f"the app {self.name} does not run yet: it still connects, or defines its queues")
        return session

    def running(self, *, handlers: bool = True, grace: float = GRACE, wait: bool = False) -> AppSession:
        """`async with app.running():` connects, defines queues that are missing, and serves the handlers.

        With handlers=False nothing is served here: for a program that puts and requests, while workers handle. When it
        is left, nothing more is taken, and handlers that run have `grace` seconds to end; then they are cancelled, and
        their messages returned. `wait`: a queue manager that cannot be reached is waited for, for ever; otherwise that
        is an MQError, such as HOST_NOT_AVAILABLE (2538). Raises NotServableError for a queue that is there and cannot
        be served as it is, RuntimeError when the app runs already.
        """
        return AppSession(self, self.source, handlers=handlers, grace=grace, wait=wait)

    async def start(self, *, handlers: bool = True, grace: float = GRACE, wait: bool = False) -> None:
        """Run as `running` does, from now until `stop`, which may be called in another task: for frameworks and
        notebooks that have no block to enter. Raises what entering `running` raises. An app that is never stopped ends
        with its event loop, and warns with the line that has started it (ResourceWarning).
        """
        opened_at = caller()
        await self.running(handlers=handlers, grace=grace, wait=wait).open(opened_at)

    async def stop(self) -> None:
        """Stop, as leaving `running` does, in any task of its event loop. Harmless when the app does not run. Raises
        what has failed in it meanwhile, once.
        """
        session, self.failed_session = self.running_session or self.failed_session, None
        if session is not None:
            await session.close()

    async def close(self) -> None:
        """Stop, as `stop` does."""
        await self.stop()

    def complete_handlers(self) -> list[Handler]:
        """The handlers, with all that they name. Raises TypeError for a name that is not defined."""
        return [each.complete() for each in self.handlers.values()]

    def test(self, seed: int = 0, *, databases: Mapping[Any, Any] | None = None) -> AppTest:
        """`async with app.test() as t:` runs the app in a test: on a queue manager of its own in memory, with its
        workers in the test's event loop, on a clock that stands until the test moves it. See `triggers.testing`.

        All chance comes from the seed. The app's own source is not used; an app of a module may run in many tests at a
        time. A database that is a path is SQLite in memory, a fresh one (`t.sqlite(db)`); `databases` says what another
        one is in this test: {db: ":memory:"}, or {db: pool}.
        """
        from triggers.testing import AppTest  # with the queue manager, which clients do not load

        return AppTest(self, seed, databases=databases)

    @verb
    async def put(self, q_name: str, body: object, **options: Unpack[PutOptions]) -> PutResult:
        """Put a message: bytes, str, dict, list, a dataclass or a pydantic model. Persistent, unless persistence=False.

        Inside a handler the put is part of its unit of work: the message is there when the handler has returned, or
        never. Outside, it is durable when this returns. In the thread of a handler that is a plain `def` it blocks, and
        is done when it returns, without `await`: so do `put_group`, `cancel`, `release` and `request`. For type
        checkers, and for other threads, `app.sync` has the same calls. `PutOptions` describes the options. Raises
        TypeError and ValueError for a body that has no form, before anything is sent; MQError: UNKNOWN_OBJECT_NAME
        (2085), Q_FULL (2053), HCONN_ERROR (2018) from a handler whose outcome is decided, and others.
        """
        session = self.session
        return await session.portal.across(session.puts.put(q_name, body, options))

    @verb
    async def put_group(self, q_name: str, bodies: Sequence[object], **options: Unpack[PutOptions]) -> list[PutResult]:
        """Put a message group, all of it or nothing, in the order of `bodies`. As `put`."""
        session = self.session
        return await session.portal.across(session.puts.put_group(q_name, bodies, options))

    @verb
    async def cancel(self, put: PutResult) -> bool:
        """Remove a delayed message. False when it is not delayed any more: it was handed out, or will
        be. Inside a handler this is part of its unit of work.
        """
        session = self.session
        return await session.portal.across(session.puts.cancel(put))

    @verb
    async def release(self, put: PutResult) -> bool:
        """Deliver a delayed message now. False when it is not delayed any more."""
        session = self.session
        return await session.portal.across(session.puts.release(put))

    @overload
    async def request(self, q_name: str, body: object, *, timeout: float) -> Any: ...
    @overload
    async def request(self, q_name: str, body: object, *, timeout: float, type: type[T]) -> T: ...
    @verb
    async def request(self, q_name: str, body: object, *, timeout: float, type: Any = Any) -> Any:
        """Put a request and wait for its reply, at most for `timeout` seconds. Return the reply as `type` says, by
        default as its JSON says, or its bytes.

        It is no part of any unit of work. It waits in that time for a queue manager that is away. Raises TimeoutError;
        RequestError when nobody could handle the request; UnreadableError for a reply that is not of `type`; MQError,
        CONNECTION_BROKEN (2009) when the connection is lost meanwhile: nothing is sent again.
        """
        session = self.session
        return await session.portal.across(session.request(q_name, body, timeout, type))

    @overload
    async def result(
        self, put: PutResult | bytes, timeout: float | None = None, *, queue: str | None = None
    ) -> MessageResult[Any]: ...
    @overload
    async def result(
        self, put: PutResult | bytes, timeout: float | None = None, type: type[T] = ..., *, queue: str | None = None
    ) -> MessageResult[T]: ...
    @verb
    async def result(
        self, put: PutResult | bytes, timeout: float | None = None, type: Any = Any, *, queue: str | None = None
    ) -> MessageResult[Any]:
        """Wait until a message of a handler with `history=` has ended, at most for `timeout` seconds (0: look once;
        None: for ever). Return what has become of it.

        `put` is the result of its put, also of a duplicate, or its MsgId: then `queue` names its queue; without it all
        queues are looked at whose handlers in this app have a history. `type` is that of `.value`. It is no part of any
        unit of work, and waits for a queue manager that is away. Raises TimeoutError; LookupError where the queue has
        no history; MQError.
        """
        session = self.session
        return await session.portal.across(session.results.result(put, timeout, type, queue))

    @verb
    async def status(self, put: PutResult | bytes, *, queue: str | None = None) -> JobStatus:
        """Return what has become of a message until now, at once: `state` is "waiting", "delayed" (`until`), "running"
        (`where`, `since`), "in_doubt", "dead" (`reason`), "done" or "gone". A handler with `history=` leaves "done",
        and how it has ended; what has left its queue without a history is "gone".

        `put` is the result of its put, or its MsgId: then `queue` names its queue. Raises LookupError without a queue,
        MQError; no error for any state. It waits for a queue manager that is away.
        """
        session = self.session
        return await session.portal.across(session.results.status(put, queue))

    @property
    def sync(self) -> SyncApp:
        """The calls of the app, blocking, for threads while it runs: `app.sync.put("ORDERS", order)`."""
        return SyncApp(self)


_NO_SESSIONS: Mapping[App, AppSession] = {}


def _module_name(names: Mapping[str, Any]) -> str:
    """The name of a module, of a program that of its file."""
    name = str(names.get("__name__", "app"))
    return PurePath(str(names.get("__file__", "app"))).stem if name == "__main__" else name
