"""A session of the database that breaks off at one of its statements, as where its process is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class CutError(asyncpg.InterfaceError):  # type: ignore[misc]  # asyncpg tells type checkers nothing
    """The session is over."""


class CutSession(asyncpg.Connection):  # type: ignore[misc]  # asyncpg tells type checkers nothing
    """Counts its statements that begin with `words`, BEGIN and COMMIT among them, and does what `cuts` says at number
    `cut_at`: before it is sent, or with `after` when it has had its effect.
    """

    words = ""
    statements = 0
    cut_at: int | None = None
    after = False
    cuts: Callable[[], None]

    def execute(self, query: str, *arguments: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        return self._count(query, super().execute(query, *arguments, **options))

    def fetch(self, query: str, *arguments: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        return self._count(query, super().fetch(query, *arguments, **options))

    def fetchrow(self, query: str, *arguments: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        return self._count(query, super().fetchrow(query, *arguments, **options))

    def fetchval(self, query: str, *arguments: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        return self._count(query, super().fetchval(query, *arguments, **options))

    async def _count(self, query: str, call: Coroutine[Any, Any, Any]) -> Any:
        self.statements += query.startswith(self.words)
        if self.statements != self.cut_at:
            return await call
        if self.after:
            await call
        else:
            call.close()
        self.cuts()
        self.terminate()  # a server that stops just behind the end of a session with new unlogged tables starts no more
        raise CutError("cut")


async def cut_session(
    dsn: str,
    schema: str,
    cut_at: int | None,
    *,
    after: bool = False,
    cuts: Callable[[], None] = lambda: None,
    words: str = "",
) -> CutSession:
    """A session that sees this schema."""
    session = await asyncpg.connect(dsn, server_settings={"search_path": schema}, connection_class=CutSession)
    assert isinstance(session, CutSession)
    session.cut_at, session.after, session.cuts, session.words = cut_at, after, cuts, words
    session.statements = 0
    return session
