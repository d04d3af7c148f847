"""A handler as it was declared: the function, its arguments, and how its messages are to be handled."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict

from broker.mqi import ServiceOptions, check_seconds
from triggers.app.arguments import Arguments, arguments_of, in_thread, named, place
from triggers.app.verdicts import DEFAULT_RETRY, Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from broker import Database
    from triggers.app.arguments import Binder

CONCURRENCY: Final = 100
"""Deliveries of one queue that a worker has at a time, unless it says otherwise (handlers rule 6.1)."""

HISTORY_VALUE: Final = 4096
HISTORY_VALUE_MAX: Final = 65_536
"""The bytes of JSON that are kept of a returned value at most, unless a handler says otherwise, and ever."""

"""Behind the name of a queue: its dead-letter queue, where nothing else names one."""

_Q_NAME: Final = re.compile(r"[A-Za-z0-9%/_.]{1,48}")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)/([smh])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}


class HandlerOptions(TypedDict, total=False):
    """The options of a handler.

    - `retry`: a `Retry`, or the number of retries; without it BOTHRESH of the queue where it is above 0, else
      `Retry(17, backoff=(0.5, 600))`.
    - `dead_letter`: the queue for what cannot be handled; without it BOQNAME, else DEADQ of the queue manager, else the
      queue's own name with `.DEAD` behind it.
    - `concurrency`: how many deliveries this process has at a time, 100; `total`: all processes; `rate`: how many begin
      in a second ("100/s", "5/m", "20/h" or a number), for all processes, with up to `burst` at once.
    - `timeout`: seconds that an attempt may take.
    - `order_by`: the name of a message property; messages with one value of it are handled one after the other. Also
      "correl_id", "group_id" and "*", the whole queue. Without it members of a message group keep their order.
    - `batch`: the handler takes up to so many messages at a time, waiting `batch_wait` seconds for as many.
    - `traceback`: how many bytes of the traceback a dead letter bears; 0 for none.
    - `retry_unreadable`: what cannot be read is tried again like any failure, and no dead letter at once.
    - `history`: for how long a record is kept of what has become of each message, "7d" or a number of seconds, on the
      queue's own name with `.HISTORY` behind it; None: there is none. `history_value`: up to how many bytes of JSON of
      what the handler returns are in it, 4096.
    - `database`: the program's own database, a `broker.Database` or what that takes: each attempt is in a transaction
      of it, committed with what the handler puts or not at all. By annotation the handler is given the connection.
    """

    retry: Retry | int | None
    dead_letter: str | None
    concurrency: int
    total: int | None
    rate: str | float | None
    burst: int | None
    timeout: float | None
    order_by: str | None
    batch: int | None
    batch_wait: float
    traceback: int
    retry_unreadable: bool
    history: str | float | timedelta | None
    history_value: int
    database: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """The function that handles the messages of a queue. Make it with `handler`.

    `arguments` is None until the names of its annotations are all defined.
    """

    function: Callable[..., Any]
    q_name: str
    retry: Retry
    options: ServiceOptions
    """As they are sent, but for what only the arguments tell."""
    dead_letter: str | None
    concurrency: int
    timeout: float | None
    batch: int | None
    arguments: Arguments | None
    names: Mapping[str, Any] = field(default_factory=dict)
    tick: Binder | None = None
    threaded: bool = False
    """It is a plain function, which runs in a thread."""
    database: Database | None = None
    """The program's own database, in whose transactions it runs."""
    user: str = ""
    """The user whose its calls are, in the queue manager's own process; empty: its owner's, or the monitor's."""

    @property
    def name(self) -> str:
        """Its name in records and with dead letters: `shop.orders:ship`."""
        return self.options.handler

    @property
    def place(self) -> str:
        """The place of its function, for people."""
        return place(self.function)

    @property
    def awaits_database(self) -> bool:
        """True if its arguments are known when its database is open: until then nobody knows what that gives."""
        return self.arguments is None and self.database is not None and self.database.threaded is None

    def complete(self) -> Handler:
        """The handler with its arguments, now that the program is there. Raises TypeError for a name in its annotations
        that is not defined even now.
        """
        if self.arguments is not None or self.awaits_database:
            return self
        return self._completed(() if self.database is None else self.database.gives)

    def completed_with(self, gives: tuple[type, ...], *, threaded: bool) -> Handler:
        """The handler with its arguments, now that its database is open, whose connections are of these types. Raises
        TypeError, also for a function that is not of the kind of its database.
        """
        if self.arguments is not None:
            return self
        check_kind(self, threaded=threaded)
        return self._completed(gives)

    def _completed(self, gives: tuple[type, ...]) -> Handler:
        try:
            return _with_arguments(self, arguments_of(self.function, self.batch, self.names, self.tick, gives))
        except NameError as error:
            raise TypeError(
                f"{self.place}: {error}: an annotation of a handler is read when the program runs, so import what it "
                "names outside `if TYPE_CHECKING:`"
            ) from None


def handler(
    function: Callable[..., Any],
    q_name: str,
    options: HandlerOptions,
    names: Mapping[str, Any] | None = None,
    *,
    last_dead_letter: str = "",
    tick: Binder | None = None,
) -> Handler:
    """A function as the handler of a queue. `names` are those known where it is defined, beside those of its module.
    `last_dead_letter` is the queue for dead letters for which nothing else names one; `tick` makes the Tick of periodic
    work.

    Raises TypeError for a function with arguments that it cannot be given, or that is none; ValueError for options out
    of range, TypeError for unknown ones.
    """
    check_name(q_name)
    if not callable(function):
        raise TypeError(f"a handler of {q_name} is a function, not {function!r}")
    unknown = options.keys() - HandlerOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(HandlerOptions.__annotations__)
        raise TypeError(f"{place(function)}: unknown option {', '.join(sorted(unknown))}; there are {known}")
    try:
        made = _made(function, q_name, options)
        if last_dead_letter == q_name:
            raise ValueError(f"queue {q_name} is too long a name to have .DEAD behind it: say dead_letter=")
    except ValueError as error:
        raise ValueError(f"{place(function)}: {error}") from None
    made = replace(made, names=names or {}, tick=tick, options=made.options._replace(last_dead_letter=last_dead_letter))
    if made.database is not None:
        if made.database.threaded is None:
            return made
        check_kind(made, threaded=made.database.threaded)
    gives = () if made.database is None else made.database.gives
    try:
        return _with_arguments(made, arguments_of(function, made.batch, made.names, tick, gives))
    except NameError:
        return made  # something is defined later: `complete`


def check_kind(made: Handler, *, threaded: bool) -> None:
    """Raises TypeError where the transactions of a database are not of the handler's kind, blocking or not."""
    if threaded and not made.threaded:
        raise TypeError(
            f"{made.place}: its database blocks, so that BEGIN would hold the event loop: make it a plain def, which "
            "runs in a thread, or take an asynchronous driver (aiosqlite, asyncpg, AsyncEngine)"
        )
    if made.threaded and not threaded:
        raise TypeError(
            f"{made.place}: its database is asynchronous, and a plain def runs in a thread, where nothing can be "
            "awaited: make it an async def, or take a driver for threads (sqlite3, ConnectionPool, Engine, Django)"
        )


def check_name(q_name: str) -> None:
    """Raises TypeError and ValueError for what is no name of a queue."""
    if not isinstance(q_name, str):
        raise TypeError(f'the name of a queue is a str, as in @app.handler("ORDERS"), not {q_name!r}')
    if not _Q_NAME.fullmatch(q_name):
        raise ValueError(f"{q_name!r} is not a name of a queue: 1 to 48 of A-Z a-z 0-9 % / _ .")


def caller_names(depth: int) -> dict[str, Any]:
    """The local names of the function that calls, where it is not a module: classes may be defined there."""
    frame = sys._getframe(depth + 1)
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _made(function: Callable[..., Any], q_name: str, options: HandlerOptions) -> Handler:
    given = options.get("retry")
    retry = Retry(given) if isinstance(given, int) else given or DEFAULT_RETRY
    if not isinstance(retry, Retry):
        raise ValueError(f"retry={given!r}: a Retry, or the number of retries")
    dead_letter = options.get("dead_letter")
    if dead_letter is not None:
        check_name(dead_letter)
        if dead_letter == q_name:
            raise ValueError(f"dead_letter={dead_letter!r}: the queue itself would be given its own dead letters")
    batch = options.get("batch")
    timeout = options.get("timeout")
    concurrency = options.get("concurrency", CONCURRENCY)
    total, burst = options.get("total") or 0, options.get("burst") or 0
    batch_wait, traceback = options.get("batch_wait", 0.05), options.get("traceback", 4096)
    order_by = options.get("order_by")
    _check_integers(1, concurrency=concurrency, batch=1 if batch is None else batch)
    _check_integers(0, total=total, burst=burst, traceback=traceback)
    if timeout is not None and not 0 < timeout < math.inf:
        raise ValueError(f"timeout={timeout}: seconds, above 0, or None")
    if not 0 <= batch_wait < math.inf:
        raise ValueError(f"batch_wait={batch_wait}: seconds, 0 or more")
    sent = ServiceOptions(
        handler=named(function),
        attempts=0 if given is None else None if retry.n is None else retry.n + 1,
        backoff=retry.waits,
        doubles=retry.doubles,
        jitter=retry.jitter,
        crashes=retry.crashes,
        dead_letter=dead_letter or "",
        traceback=traceback,
        batch=batch or 1,
        batch_wait=batch_wait,
        whole=True,
        order_by="" if order_by is None else order_by,
        total=total,
        rate=rate_of(options.get("rate")),
        burst=burst,
        retry_unreadable=options.get("retry_unreadable", False),
        **_history(q_name, options),
    )
    return Handler(
        function=function,
        q_name=q_name,
        retry=retry,
        options=sent,
        dead_letter=dead_letter,
        concurrency=concurrency,
        timeout=timeout,
        batch=batch,
        arguments=None,
        threaded=in_thread(function),
        database=_database(options.get("database")),
    )


def _history(q_name: str, options: HandlerOptions) -> dict[str, Any]:
    """The options of the history as they are sent; none where there is none. Raises ValueError."""
    span = options.get("history")
    if span is None:
        return {}
    from broker.mqi import history_q_name  # most handlers have none
    from triggers.schedule.interval import seconds

    try:
        kept = seconds(span)
    except (TypeError, ValueError) as error:
        raise ValueError(f"history={span!r}: {error}") from None
    if kept <= 0:
        raise ValueError(f"history={span!r}: for how long a record is kept, above 0 and at most ten years")
    check_seconds("history={}", kept)
    value = options.get("history_value", HISTORY_VALUE)
    if type(value) is not int or not 0 <= value <= HISTORY_VALUE_MAX:
        raise ValueError(f"history_value={value!r}: the bytes of a returned value, 0 to {HISTORY_VALUE_MAX}")
    name = history_q_name(q_name)
    if name == q_name:
        raise ValueError(f"queue {q_name} is too long a name to have .HISTORY behind it: it cannot have a history")
    return {"history": name, "history_span": kept, "history_value": value}


def _database(given: Any) -> Database | None:
    """The database that a handler names. Raises TypeError for what no adapter takes."""
    if given is None:
        return None
    from broker.transactions import database_of  # which those do not load that have no database

    return database_of(given)


def _with_arguments(made: Handler, arguments: Arguments) -> Handler:
    # Members of a group keep their order under a handler that takes them one by one (handlers rule 2.6).
    singly = not arguments.groups and made.batch is None
    order_by = made.options.order_by or ("group_id" if singly else "")
    options = made.options._replace(groups=arguments.groups, order_by=order_by)
    return replace(made, arguments=arguments, options=options, names={})


def rate_of(rate: str | float | None) -> float:
    """Deliveries a second: of "100/s", "5/m", "20/h" or a number; 0 for None. Raises ValueError."""
    if rate is None:
        return 0.0
    if isinstance(rate, str):
        match = _RATE.fullmatch(rate.replace(" ", ""))
        rate = float(match[1]) / _SECONDS[match[2]] if match else 0.0
    if not 0 < rate < math.inf:
        raise ValueError('rate: above 0, such as "100/s", "5/m", "20/h", or how many a second')
    return float(rate)


def _check_integers(least: int, **settings: int) -> None:
    for name, value in settings.items():
        if type(value) is not int or value < least:
            raise ValueError(f"{name}={value!r}: an integer of at least {least}")
