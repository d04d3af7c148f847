"""The arguments of a handler, by the annotations of its parameters (handlers rules 8.1, 8.2).

The first parameter that is none of `Message`, `Connection`, `SyncConnection`, `Attempt`, `Tick`, `TriggerMessage` and
`App` is the body. All is worked out once, at the decorator; what names something that is defined later, when the app
starts.
"""

from __future__ import annotations

import sys
from functools import partial
from inspect import Parameter, iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, get_origin, get_type_hints

from broker import Connection, Message, SyncConnection
from triggers.bodies.annotations import FORMS, bare
from triggers.bodies.bodies import UnreadableError, grouped, listed, reader
from triggers.monitor.process import TriggerMessage
from triggers.schedule.tick import Tick
from triggers.serving.attempt import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from triggers.bodies.bodies import Reader


class HandledDelivery(Protocol):
    """A delivery under a handler, from which arguments are made."""

    @property
    def messages(self) -> Sequence[Message]: ...
    @property
    def trigger(self) -> TriggerMessage: ...
    @property
    def attempt(self) -> Attempt: ...
    @property
    def connection(self) -> Connection | SyncConnection: ...
    @property
    def app(self) -> object: ...
    @property
    def database_connection(self) -> Any: ...

    def unreadable(self, place: int, error: UnreadableError) -> None:
        """The message at this place of a batch cannot be read: it fails alone."""


Binder: TypeAlias = "Callable[[HandledDelivery], Any]"

_NO_ANNOTATION: Final = Parameter.empty
_LEFT_OUT: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)

TAKES: Final = f"""a handler takes, by annotation:
    its body ({FORMS}),
    list[T] with batch=N, Group[T], any of Message, Connection, SyncConnection, Attempt, Tick, TriggerMessage, App,
    with database= the type of its connection or session"""


def _connection(delivery: HandledDelivery) -> Connection | SyncConnection:
    return delivery.connection


def _attempt(delivery: HandledDelivery) -> Attempt:
    return delivery.attempt


def _trigger(delivery: HandledDelivery) -> TriggerMessage:
    return delivery.trigger


def _app(delivery: HandledDelivery) -> object:
    return delivery.app


def _database_connection(delivery: HandledDelivery) -> Any:
    return delivery.database_connection


def _first(delivery: HandledDelivery) -> Message:
    return delivery.messages[0]


class Arguments(NamedTuple):
    """The binders that make the arguments of a function from a delivery. `groups`: it takes whole groups. `connects`:
    it takes the connection, which has to be made before.
    """

    positional: tuple[Binder, ...]
    named: Mapping[str, Binder]
    groups: bool = False
    connects: bool = False


def arguments_of(
    function: Callable[..., Any],
    batch: int | None,
    names: Mapping[str, Any],
    tick: Binder | None = None,
    gives: tuple[type, ...] = (),
) -> Arguments:
    """Return the binders for the arguments of a function. `names` are those known where it is defined, beside those of
    its module. `tick`, for periodic work, makes its Tick; such a function need not look at its message. `gives` are the
    types of connections that its database gives.

    Raises TypeError, whose text begins with the place, and NameError for what is not defined yet.
    """
    try:
        return _Signature(function, batch, names, tick, gives).arguments()
    except TypeError as error:
        raise TypeError(f"{place(function)}: {error}") from None


class _Signature:
    """The parameters of a function, one after the other."""

    def __init__(
        self,
        function: Callable[..., Any],
        batch: int | None,
        names: Mapping[str, Any],
        tick: Binder | None,
        gives: tuple[type, ...],
    ) -> None:
        self._gives = gives
        self._threaded = in_thread(function)
        self._batch = batch
        self._tick = tick
        self._parameters = signature(function).parameters.values()
        target = getattr(function, "__func__", getattr(function, "func", function))
        if not hasattr(target, "__annotations__"):
            target = type(target).__call__
        self._hints = get_type_hints(target, localns=dict(names), include_extras=True)
        self._binders: dict[str, Binder] = {}
        self._injected: Mapping[Any, Binder] = {
            Message: _first,
            Connection: _connection,
            SyncConnection: _connection,
            Attempt: _attempt,
            TriggerMessage: _trigger,
        }
        self._body = ""
        self._groups = False
        self._sees_message = False

    def arguments(self) -> Arguments:
        for parameter in self._parameters:
            if parameter.kind not in _LEFT_OUT:
                self._add(parameter)
        if not (self._body or self._sees_message or self._tick):
            raise TypeError(f"it takes neither a body nor its Message; {TAKES}")
        if self._batch is not None and not self._body:
            raise TypeError(f"batch={self._batch} is for a body of list[T]; {TAKES}")
        positional = self._leading()
        binders = tuple(self._binders[name] for name in positional)
        named = {name: binder for name, binder in self._binders.items() if name not in positional}
        return Arguments(binders, named, self._groups, _connection in self._binders.values())

    def _add(self, parameter: Parameter) -> None:
        name = parameter.name
        annotation = bare(self._hints.get(name, _NO_ANNOTATION))
        if _is_app(annotation):
            self._binders[name] = _app
        elif annotation is Tick:
            if self._tick is None:
                raise TypeError(f"{name}: a Tick is for periodic work, @app.every and @app.cron")
            self._binders[name] = self._tick
        elif self._gives and _is_one_of(annotation, self._gives):
            self._binders[name] = _database_connection
        elif isinstance(annotation, type) and annotation in self._injected:
            self._inject(name, annotation)
        elif self._body and parameter.default is not _NO_ANNOTATION:
            return  # an argument of other callers
        elif self._body:
            raise TypeError(f"it has two bodies, {self._body} and {name}; {TAKES}{self._given()}")
        else:
            self._body = name
            self._binders[name] = self._body_binder(name, annotation)

    def _given(self) -> str:
        """Say what its database gives, where that is known."""
        types = " or ".join(f"{each.__module__}.{each.__qualname__}" for each in self._gives)
        return types and f"; this database gives a {types}"

    def _inject(self, name: str, annotation: type) -> None:
        if annotation is Message:
            self._sees_message = True
            if self._batch is not None:
                raise TypeError(f"{name}: a batch has more than one message: list[Message]")
        if annotation is SyncConnection and not self._threaded:
            raise TypeError(f"{name}: a SyncConnection is for a plain def, which runs in a thread; here Connection")
        self._binders[name] = self._injected[annotation]

    def _body_binder(self, name: str, annotation: Any) -> Binder:
        if annotation is _NO_ANNOTATION:
            raise TypeError(f"{name} has no annotation; {TAKES}")
        group = grouped(annotation)
        try:
            if group is not None:
                return self._group_binder(name, reader(group))
            if self._batch is not None:
                return self._batch_binder(name, annotation)
            if listed(annotation) is Message:
                raise TypeError("list[Message] is a batch: batch=N says of how many")
            return _single(reader(annotation))
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None

    def _group_binder(self, name: str, read: Reader) -> Binder:
        if self._batch is not None:
            raise TypeError("a group is whole, whatever its size: leave out batch")
        self._groups = True
        return _whole(read)

    def _batch_binder(self, name: str, annotation: Any) -> Binder:
        each = listed(annotation)
        if each is None:
            raise TypeError(f"batch={self._batch} is for a body of list[T]")
        return _many(reader(each))

    def _leading(self) -> list[str]:
        """The parameters to give by position: all until one is left out or has to be named."""
        leading = []
        for parameter in self._parameters:
            if parameter.name not in self._binders or parameter.kind is Parameter.KEYWORD_ONLY:
                break
            leading.append(parameter.name)
        return leading


def in_thread(function: Any) -> bool:
    """True if a function is a plain one, which runs in a thread."""
    call = function if iscoroutinefunction(function) or isinstance(function, partial) else type(function).__call__
    return not iscoroutinefunction(function.func if isinstance(function, partial) else call)


def place(function: Any) -> str:
    """Return the place of a function, for people: `shop.orders.ship (shop/orders.py, line 12)`."""
    function = getattr(function, "func", function)
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}{where}"


def named(function: Any) -> str:
    """A function's name in records and with dead letters: `shop.orders:ship`."""
    function = getattr(function, "func", function)
    return f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"


def _is_app(annotation: object) -> bool:
    module = sys.modules.get("triggers.app.app")
    return module is not None and annotation is module.App


def _is_one_of(annotation: Any, kinds: tuple[type, ...]) -> bool:
    """True for one of these classes, a class made of one, and `Connection[Row]` where `Connection` is one."""
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and issubclass(kind, kinds)


def _single(read: Reader) -> Binder:
    return lambda delivery: read(delivery.messages[0])


def _many(read: Reader) -> Binder:
    def bind(delivery: HandledDelivery) -> list[Any]:
        if len(delivery.messages) == 1:
            return [read(delivery.messages[0])]
        bodies = []
        last = UnreadableError()
        for place, message in enumerate(delivery.messages):
            try:
                bodies.append(read(message))
            except UnreadableError as error:
                delivery.unreadable(place, error)
                last = error
        if not bodies:
            raise last
        return bodies

    return bind


def _whole(read: Reader) -> Binder:
    from triggers.bodies.bodies import Group

    return lambda delivery: Group(read(message) for message in delivery.messages)
