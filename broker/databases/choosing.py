"""The choice of an adapter: by the module of the class of what a program gives, so that no other driver is loaded."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from broker.databases.adapter import MEMBERS, Adapter

if TYPE_CHECKING:
    from collections.abc import Callable

_ADAPTERS: Final = {
    "sqlite3": ("sqlite", "SQLiteAdapter"),
    "aiosqlite": ("aiosqlite", "AiosqliteAdapter"),
    "asyncpg": ("asyncpg", "AsyncpgAdapter"),
    "psycopg": ("psycopg", "psycopg_adapter"),
    "psycopg_pool": ("psycopg", "psycopg_adapter"),
    "sqlalchemy": ("sqlalchemy", "sqlalchemy_adapter"),
    "django": ("django", "DjangoAdapter"),
}
"""The package that an object comes from, to the module of its adapter and what makes it."""

_TAKEN: Final = (
    "a path or a function that opens a connection (sqlite3), a function that opens one (aiosqlite), a Pool or "
    "Connection (asyncpg), an AsyncConnectionPool, ConnectionPool or connection (psycopg 3), an Engine, AsyncEngine, "
    'sessionmaker, session or connection (SQLAlchemy 2), "django" or "django:ALIAS" (Django), or an adapter of your '
    f"own, with the members {', '.join(MEMBERS)} (broker.databases.adapter)"
)


class DatabaseSource(NamedTuple):
    """A source, as an adapter gets it."""

    source: Any
    pool_wait: float
    function: Callable[[], Any] | None = None
    """The function that made the source, or that opens connections of SQLite."""


def adapter_of(given: DatabaseSource) -> Adapter:
    """Return the adapter for a source that is no function. Raises TypeError for what none takes."""
    source = given.source
    if isinstance(source, Adapter) and not isinstance(source, type):
        return source
    module, name = _ADAPTERS[package_of(source)]
    made = getattr(import_module(f"broker.databases.adapters.{module}"), name)(given)
    return cast("Adapter", made)


def package_of(source: Any) -> str:
    """Return the package whose adapter takes a source. Raises TypeError."""
    if isinstance(source, Path):
        return "sqlite3"
    if isinstance(source, str):
        return _package_of_text(source)
    found = library_of(source)
    if found is None or found == "django":
        raise TypeError(f"no adapter takes {_article(type(source))}. A database is {_TAKEN}")
    if found == "sqlite3":
        raise TypeError(
            "a connection of sqlite3 is bound to its thread: give a path, or a function that opens a connection, "
            'such as Database("orders.db")'
        )
    return found


def library_of(source: Any) -> str | None:
    """Return the library that an object comes from, of those that have an adapter."""
    packages = (each.__module__.partition(".")[0] for each in type(source).__mro__)
    return next((each for each in packages if each in _ADAPTERS), None)


def _package_of_text(source: str) -> str:
    if source == "django" or source.startswith("django:"):
        return "django"
    if "://" in source and not source.startswith("file:"):  # it may have a password: it is not shown
        raise TypeError(
            f"a text is the path of an SQLite database, and this one is a URL. Give what your program works with, such "
            f"as asyncpg.create_pool(dsn) in a function, or {_TAKEN}"
        )
    return "sqlite3"


def _article(kind: type) -> str:
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
