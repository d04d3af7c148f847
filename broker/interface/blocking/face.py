"""A blocking face: calls of the asynchronous interface, done on an event loop while a thread waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
    from types import TracebackType

    from broker.interface.portal import Portal

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


class Face(Generic[T]):
    """The blocking face of `target`."""

    def __init__(self, target: T, portal: Portal) -> None:
        self._behind = target
        self._portal = portal

    @property
    def _target(self) -> T:
        return self._behind

    def _entered(self) -> None:
        """Enter what is behind it."""
        target: Any = self._target
        self._portal.call(target.__aenter__())

    def _left(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        target: Any = self._target
        self._portal.call(target.__aexit__(kind, error, trace))

    def __enter__(self) -> Self:
        self._entered()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left(kind, error, trace)

    def __repr__(self) -> str:
        return f"<blocking {self._behind!r}>"


class Blocking(Generic[P, R]):
    """A call of a face: that of the same name behind it, done on the event loop while the thread waits."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, face: None, owner: type) -> Blocking[P, R]: ...
    @overload
    def __get__(self, face: Face[Any], owner: type) -> Callable[P, R]: ...
    def __get__(self, face: Face[Any] | None, owner: type) -> Any:
        if face is None:
            return self
        function, portal = self._function, face._portal

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            made = function(face._target, *args, **kwargs)
            return made if portal.gives_coroutines else portal.call(made)

        call.__name__ = call.__qualname__ = function.__name__
        call.__doc__ = self.__doc__
        return call


class Giving(Blocking[P, R], Generic[P, R, S]):
    """A call whose answer is given as its face."""

    def __init__(
        self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], as_face: Callable[[R, Portal], S]
    ) -> None:
        super().__init__(function)
        self._as_face = as_face

    @overload  # type: ignore[override]  # it gives something else
    def __get__(self, face: None, owner: type) -> Giving[P, R, S]: ...
    @overload
    def __get__(self, face: Face[Any], owner: type) -> Callable[P, S]: ...
    def __get__(self, face: Face[Any] | None, owner: type) -> Any:
        if face is None:
            return self
        call, portal = super().__get__(face, owner), face._portal

        def call_and_give(*args: P.args, **kwargs: P.kwargs) -> Any:
            made = call(*args, **kwargs)
            return made if portal.gives_coroutines else self._as_face(made, portal)

        call_and_give.__name__ = call_and_give.__qualname__ = self._function.__name__
        call_and_give.__doc__ = self.__doc__
        return call_and_give


class FaceProperty(Generic[R]):
    """A property of a face: that of the same name behind it."""

    def __init__(self) -> None:
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, face: None, owner: type) -> FaceProperty[R]: ...
    @overload
    def __get__(self, face: Face[Any], owner: type) -> R: ...
    def __get__(self, face: Face[Any] | None, owner: type) -> Any:
        return self if face is None else getattr(face._target, self._name)


class Each(Generic[R]):
    """The steps of an asynchronous iteration, one a call. `begin` begins it on the event loop."""

    def __init__(self, portal: Portal, begin: Callable[[], AsyncIterable[R]]) -> None:
        self._portal = portal
        self._begin = begin
        self._steps: AsyncIterator[R] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        try:
            return self._portal.call(self._next())
        except StopAsyncIteration:
            raise StopIteration from None

    async def _next(self) -> R:
        if self._steps is None:
            self._steps = aiter(self._begin())
        return await anext(self._steps)
