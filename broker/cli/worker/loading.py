"""From `MODULE` and `MODULE:app` to what is to be served. Whatever is wrong there is one line that says what to do."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.cli.program import CannotRunError
from broker.client.address import completed, parse
from triggers import App
from triggers.app.source import UrlSource, source_of
from triggers.monitor.handlers import candidates, import_failure
from triggers.monitor.process import processes_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

_NOBODY: Final[Mapping[str, str]] = {}

_OWN: Final = tuple(Path(__file__).parents[3] / name for name in ("broker", "triggers"))
"""The folders of EverMQ's code."""


class LoadedHandlers(NamedTuple):
    """The things that a worker serves: apps by how they are called, and modules that have functions with @process."""

    apps: dict[str, App]
    modules: list[ModuleType]

    def serve_only(self, q_names: Sequence[str]) -> None:
        """Leave out all other handlers, periodic work among them. Raises CannotRunError for a queue that no app has a
        handler for, and for modules, whose functions with @process are for processes and not for queues.
        """
        there = sorted({q_name for app in self.apps.values() for q_name in app.handlers})
        if self.modules:
            raise CannotRunError(f"--queues is for apps: {self.modules[0].__name__} has functions with @process")
        for q_name in q_names:
            if q_name not in there:
                raise CannotRunError(f"--queues: no app has a handler for {q_name!r}; they have {', '.join(there)}")
        for target, app in list(self.apps.items()):
            app.serve_only(q_names)
            if not app.handlers:
                del self.apps[target]


def load_all(
    targets: Sequence[str], url: str | None, concurrency: int | None, identity: Mapping[str, str] = _NOBODY
) -> LoadedHandlers:
    """Import what is to be served. `url` and `identity`, of who connects, go before what apps name. Raises
    CannotRunError.
    """
    loaded = LoadedHandlers({}, [])
    for target in targets:
        name, _, attribute = target.partition(":")
        module = _imported(name)
        if attribute:
            loaded.apps[target] = _named(module, attribute)
            continue
        apps = {found: app for found, app in vars(module).items() if isinstance(app, App)}
        distinct = {id(app): found for found, app in apps.items()}
        if len(distinct) > 1:
            raise CannotRunError(
                f"{name} has several apps, say which: {' or '.join(f'{name}:{each}' for each in apps)}"
            )
        if any(processes_of(function) for _, function in candidates(module)):
            loaded.modules.append(module)
        elif not distinct:
            raise CannotRunError(
                f"{name} has nothing to serve: no App, and no function with @process ({_file(module)})"
            )
        loaded.apps.update({f"{name}:{found}": apps[found] for found in distinct.values()})
    for target, app in loaded.apps.items():
        _prepare(target, app, url, concurrency, identity)
    return loaded


def _imported(name: str) -> ModuleType:
    if "/" in name or name.endswith(".py"):
        suggested = name.removesuffix(".py").strip("./").replace("/", ".")
        raise CannotRunError(f"{name} is a file: say the module as Python imports it, {suggested}")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CannotRunError(
                f"there is no module {name} in {os.getcwd()}, nor where Python looks for modules"
            ) from error
        raise CannotRunError(_reason(name, error)) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module that ends the program has not been imported either
        raise CannotRunError(_reason(name, error)) from error


def _reason(name: str, error: BaseException) -> str:
    """Return the reason why a module does not import, with the place in the user's code."""
    text = import_failure(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{name} does not import: {text}"
    places = [each for each in traceback.extract_tb(error.__traceback__) if not _is_ours(each.filename)]
    where = f" ({places[-1].filename}, line {places[-1].lineno})" if places else ""
    return f"{name} does not import: {text}{where}"


def _is_ours(file: str) -> bool:
    """True if a file is none that the user would look at: of Python's import, or of EverMQ."""
    return "importlib" in file or any(Path(file).is_relative_to(each) for each in _OWN)


def _named(module: ModuleType, attribute: str) -> App:
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, App):
        return found
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    there = f"it has {', '.join(apps)}" if apps else "it has no App"
    what = "is no App" if found is not None else "is not there"
    raise CannotRunError(f"{module.__name__}:{attribute} {what}: {there} ({_file(module)})")


def _file(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "a package without a file"


def _prepare(target: str, app: App, url: str | None, concurrency: int | None, identity: Mapping[str, str]) -> None:
    if not app.handlers:
        raise CannotRunError(f"{target} has no handlers: declare them with @{target.rpartition(':')[2]}.handler(...)")
    own = app.source if isinstance(app.source, UrlSource) else None
    try:
        if url is not None or own is not None:
            parse(url or str(own))  # a `url` that is none would be taken for a folder
        if url is not None or (own is not None and identity):
            place = completed(url or str(own), **identity)
            app.source = source_of(place) if own is None else own.at(place, identity)
    except ValueError as error:
        raise CannotRunError(str(error)) from None
    if app.source.embedded:
        raise CannotRunError(f"{target} has {app.source}, which a worker cannot reach: say --url, or App('mq://...')")
    if concurrency is not None:
        for q_name, handler in app.handlers.items():
            app.handlers[q_name] = replace(handler, concurrency=concurrency)
    try:
        app.complete_handlers()
    except TypeError as error:
        raise CannotRunError(str(error)) from error


def own_files() -> list[str]:
    """The files of the modules that have been imported and are the user's: not Python's, not installed ones."""
    others = [
        Path(sys.prefix),
        Path(sys.base_prefix),
        *_OWN,
    ]
    found = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        if "site-packages" not in path.parts and not any(path.is_relative_to(other) for other in others):
            found.add(str(path))
    return sorted(found)
