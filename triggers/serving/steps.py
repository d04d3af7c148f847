"""Steps of an attempt: what a handler finishes is kept with its message (transactions rules 7.1 to 7.3).

What a step's function puts with the app is in no unit of work: the step stays finished though the attempt fails, and
so must what it has put.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from contextvars import copy_context
from functools import partial
from inspect import isawaitable, iscoroutinefunction, unwrap
from typing import TYPE_CHECKING, Any, Final, cast, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import anyio
from anyio import to_thread

from broker import Portal, portal_here
from broker.mqi import MQRC, STEPS_MAX, MQError, check_step_name
from triggers.app.arguments import place
from triggers.app.unawaited import Watched, attempt
from triggers.app.verdicts import StepError
from triggers.bodies.converters import converter
from triggers.bodies.misfits import Misfit
from triggers.bodies.plain_json import plain_json
from triggers.serving.run import current

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType

    from triggers.serving.run import Run

_AWAITABLES: Final = ("Awaitable", "Coroutine", "Future", "Task")


def step(
    run: Run | None,
    caller: FrameType,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A step of an attempt: in the thread of a plain handler what it came to, else a coroutine for that."""
    portal = portal_here()
    if portal is not None and run is not None:
        return _done_here(run, portal, name, function, args, kwargs)
    steps = AttemptSteps.of(run)
    made: Any = steps.step(steps.begin(name), partial(function, *args, **kwargs), function)
    made.__qualname__ = "Attempt.step"
    return Watched(attempt.get(), made, caller)


def blocking_step(
    run: Run | None, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A step of an attempt, done when this returns. Raises RuntimeError but in the thread of a plain handler."""
    portal = portal_here()
    if portal is None or run is None:
        raise RuntimeError(
            "attempt.sync is for the thread of a handler that is a plain def: await attempt.step(...) elsewhere"
        )
    return _done_here(run, portal, name, function, args, kwargs)


def _done_here(
    run: Run,
    portal: Portal,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    steps = AttemptSteps.of(run)
    return steps.step_here(portal, steps.begin(name), partial(function, *args, **kwargs), function)


class SteppingRun:
    """A run as what a step's function does sees it: the same, but that nothing joins its unit of work."""

    __slots__ = ("_run",)
    joins = False

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


class AttemptSteps:
    """The steps of one attempt, those that were kept before and its own. Without a run, as a test may make an attempt,
    nothing is kept.
    """

    def __init__(self, run: Run | None) -> None:
        self._run = run
        self._kept: dict[str, bytes] = {} if run is None else dict(run.delivered.steps or {})
        self._asked: Counter[str] = Counter()  # how often each name was
        self._running = 0

    @staticmethod
    def of(run: Run | None) -> AttemptSteps:
        """The steps of the attempt of a run. Raises RuntimeError in a handler of batches or groups."""
        if run is None:
            return AttemptSteps(None)
        handler = run.server.handler
        if handler.batch is not None or (handler.arguments is not None and handler.arguments.groups):
            raise RuntimeError(f"{handler.name}: steps are for a handler of single messages, not of batches or groups")
        steps: AttemptSteps | None = getattr(run, "steps", None)
        if steps is None:
            steps = run.steps = AttemptSteps(run)
        return steps

    def begin(self, name: str) -> str:
        """A step is called: the name under which it is kept. Raises TypeError and ValueError."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a step is a str, not {name!r}")
        check_step_name(name, numbered=False)
        self._asked[name] += 1
        again = self._asked[name]
        return name if again == 1 else f"{name}#{again}"

    async def step(self, name: str, call: Callable[[], Any], function: Callable[..., Any]) -> Any:
        """Return the value of a step, of now or of an earlier attempt; `call` does it."""
        self._check_open()
        read = _reader(function)
        data = self._kept.get(name)
        if data is not None:
            return _read(name, data, read, function)
        self._check_room(name)
        self._running += 1
        try:
            value = await self._called(call, function)
            data, result = _kept_form(name, value, read, function)
            await self._keep(name, data)
        finally:
            self._running -= 1
        return result

    def step_here(self, portal: Portal, name: str, call: Callable[[], Any], function: Callable[..., Any]) -> Any:
        """As `step`, in the thread of a plain handler."""
        self._check_open()
        read = _reader(function)
        data = self._kept.get(name)
        if data is not None:
            return _read(name, data, read, function)
        self._check_room(name)
        value = copy_context().run(self._called_here, portal, call)
        data, result = _kept_form(name, value, read, function)
        portal.call(self._keep(name, data))
        return result

    def _check_open(self) -> None:
        if self._run is not None:
            self._run.check_open()

    def _check_room(self, name: str) -> None:
        """Raises ValueError before more is done than a message can keep."""
        if len(self._kept) + self._running >= STEPS_MAX:
            raise ValueError(f"step {name!r}: a message has at most {STEPS_MAX} steps")

    async def _keep(self, name: str, data: bytes) -> None:
        """Have a step kept with the message: it is durable when this returns."""
        run = self._run
        if run is None:
            return
        run.check_open()
        try:
            await run.server.keep_step(run.delivered, name, data)
        except MQError as error:
            if error.reason == MQRC.DATA_LENGTH_ERROR:
                raise ValueError(str(error)) from None
            raise
        self._kept[name] = data

    # The function

    async def _called(self, call: Callable[[], Any], function: Callable[..., Any]) -> Any:
        value = call() if iscoroutinefunction(function) else await self._in_thread(call)
        return await self._awaited(value) if isawaitable(value) else value

    async def _awaited(self, value: Awaitable[Any]) -> Any:
        if self._run is None:
            return await value
        token = current.set(_stepping(self._run))
        try:
            return await value
        finally:
            current.reset(token)

    def _called_here(self, portal: Portal, call: Callable[[], Any]) -> Any:
        """In a context of its own."""
        assert self._run is not None
        current.set(_stepping(self._run))
        value = call()
        return portal.call(_result_of(value)) if isawaitable(value) else value

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        """Call a plain function in a thread, which nobody can cancel: this returns when it has ended."""
        run, over = self._run, False

        def check() -> None:
            if run is not None:
                run.check_open()
            if over:
                raise MQError(MQRC.HCONN_ERROR, "nobody waits for this step any more")

        portal = Portal(check, awaitable=True)

        def called() -> tuple[Any, BaseException | None]:
            if run is not None:
                current.set(_stepping(run))
            try:
                with portal.entered():
                    return call(), None
            except BaseException as error:  # SystemExit would leave the task of the thread, and end the event loop
                return None, error

        own = anyio.CapacityLimiter(math.inf)  # how many handlers run bounds it
        thread = asyncio.ensure_future(to_thread.run_sync(called, limiter=own))
        cancelled: asyncio.CancelledError | None = None
        while not thread.done():
            try:
                await asyncio.wait((thread,))
            except asyncio.CancelledError as error:
                cancelled, over = error, True
                portal.end()
        value, raised = thread.result()
        if cancelled is not None:
            raise cancelled
        if raised is not None:
            raise raised
        return value


def _stepping(run: Run) -> Run:
    return cast("Run", SteppingRun(run))


async def _result_of(value: Awaitable[Any]) -> Any:
    return await value


# Values


_readers: WeakKeyDictionary[Any, Callable[[Any], Any]] = WeakKeyDictionary()
"""By function: what reads a kept value by the annotation of its return."""


def _reader(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what reads a kept value back. Raises TypeError for an annotation that has no form."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    inner = getattr(inner, "__func__", inner)
    try:
        known = _readers.get(inner)
    except TypeError:  # it cannot be remembered
        return _made_reader(function, inner)
    if known is None:
        known = _readers[inner] = _made_reader(function, inner)
    return known


def _made_reader(function: Callable[..., Any], inner: Any) -> Callable[[Any], Any]:
    target = unwrap(inner)
    if not hasattr(target, "__annotations__"):
        target = type(target).__call__
    try:
        hints = get_type_hints(target, include_extras=True)
        annotation = hints.get("return", Any)
        if getattr(get_origin(annotation), "__name__", "") in _AWAITABLES:
            annotation = get_args(annotation)[-1]
        return converter(annotation)
    except NameError as error:
        raise TypeError(f"{place(function)}: {error}: the annotation of a step's return is read when it runs") from None
    except TypeError as error:
        raise TypeError(f"{place(function)}: what a step returns is kept as a body is: {error}") from None


def _kept_form(name: str, value: object, read: Callable[[Any], Any], function: Callable[..., Any]) -> tuple[bytes, Any]:
    """Return what a function returned, as it is kept and as it is read back. Raises TypeError and ValueError for what
    has no form, StepError for what is not of the annotation.
    """
    try:
        data = plain_json(value).encode()
    except (TypeError, ValueError) as error:
        raise type(error)(f"step {name!r} of {place(function)}: {error}") from None
    return data, _read(name, data, read, function)


def _read(name: str, data: bytes, read: Callable[[Any], Any], function: Callable[..., Any]) -> Any:
    """Return a kept value as the annotation has it. Raises StepError, whose text has no values."""
    try:
        return read(json.loads(data))
    except Misfit as misfit:
        why = "; ".join(f"{path.removeprefix('.') or 'it'} {text}" for path, text in misfit.errors[:3])
    except ValueError:
        why = "it is no JSON"
    raise StepError(f"what was kept of step {name!r} is not what {place(function)} returns: {why}")
