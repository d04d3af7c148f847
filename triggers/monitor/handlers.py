"""The table of handlers: which coroutine function serves a process definition.

It is made from modules that the user names; an administrator's APPLICID selects among them and can bring in nothing.
"""

from __future__ import annotations

from importlib import import_module
from inspect import iscoroutinefunction, isfunction
from types import ModuleType
from typing import TYPE_CHECKING, Final

from broker.mqi import text_of
from triggers.monitor.process import processes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from triggers.monitor.process import HandlerFunction

_REASON_BYTES: Final = 1024
"""The bytes of an exception's text that are reported."""


class HandlerImportError(ImportError):
    """A module of handlers does not import. `name` is the module; the message is one line with the reason."""


class Handlers:
    """The handlers of some modules, given as module objects or by dotted names, which are imported here.

    Two rules find the handler of a process definition, the first that applies:

    1. A function tagged `@process(name)` with the definition's name, in any of the modules. Case counts.
    2. APPLICID equals, whatever the case, `function` or `module:function`: the name of a coroutine function that is
       tagged, or that is defined in one of the modules (what it only imports does not count) and whose name does not
       begin with an underscore. A name that two functions have selects neither; `module:function` still tells them
       apart. `module` is the one that was given.

    Nothing else is looked up: finding never imports and never evaluates. Raises HandlerImportError for a module that
    does not import, ValueError for two handlers of one process.
    """

    def __init__(self, given: Iterable[ModuleType | str]) -> None:
        self._by_process: dict[str, HandlerFunction] = {}
        self._by_appl_id: dict[str, HandlerFunction | None] = {}
        for each in modules_or_names(given):
            self._collect(imported(each) if isinstance(each, str) else each)

    @property
    def process_names(self) -> list[str]:
        """The names of the process definitions that tagged functions serve, sorted."""
        return sorted(self._by_process)

    def find(self, process_name: str, appl_id: str) -> HandlerFunction | None:
        """The handler of a process definition with this name and APPLICID; None when nobody serves it."""
        return self._by_process.get(process_name) or self._by_appl_id.get(appl_id.strip().casefold())

    def _collect(self, module: ModuleType) -> None:
        for name, function in candidates(module):
            for process_name in processes_of(function):
                first = self._by_process.setdefault(process_name, function)
                if first is not function:
                    raise ValueError(f"process {process_name} has two handlers: {place(first)} and {place(function)}")
            for appl_id in (name, f"{module.__name__}:{name}"):
                first_named = self._by_appl_id.setdefault(appl_id.casefold(), function)
                if first_named is not function:
                    self._by_appl_id[appl_id.casefold()] = None


def modules_or_names(given: Iterable[ModuleType | str]) -> tuple[ModuleType | str, ...]:
    """Return the handlers as they were given. Raises TypeError for what is no list of modules or dotted names."""
    if isinstance(given, str | ModuleType):
        raise TypeError(f"handlers takes a list of modules or dotted names: [{given!r}]")
    modules = tuple(given)
    for each in modules:
        if not isinstance(each, str | ModuleType):
            raise TypeError(f"handlers are given as modules or dotted names, not as {each!r}")
    return modules


def imported(name: str) -> ModuleType:
    """The module of a dotted name."""
    try:
        return import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module that ends the program has not been imported either
        raise HandlerImportError(
            f"the handlers' module {name!r} does not import: {import_failure(error)}", name=name
        ) from error


def import_failure(error: BaseException) -> str:
    """Tell in a line what a module has raised, whatever that is."""
    return " ".join(f"{type(error).__name__}: {text_of(error, _REASON_BYTES)}".split())


def candidates(module: ModuleType) -> Iterator[tuple[str, HandlerFunction]]:
    """The functions of a module that can be handlers, with the names they have there."""
    for name, value in vars(module).items():
        if not isfunction(value):
            continue
        own = iscoroutinefunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        if own or processes_of(value):
            yield name, value


def place(function: HandlerFunction) -> str:
    """Return the place of a function, for people: `shop.orders:on_message (shop/orders.py, line 12)`."""
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
    return f"{function.__module__}:{getattr(function, '__qualname__', function)}{where}"
