"""Sessions of the database: with TLS or without, with a password or without, by a pool or not.

What a session is called is told as it begins; a pool, such as PgBouncer, passes that on. All else is set when it has
begun, which a pool that gives each client a session of its own lets through as any statement.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio.to_thread
import asyncpg
from asyncpg.exceptions import ClientConfigurationError

from broker.secret_files import SecretFileError, read_secret
from broker.sharing.database.pools import check_pool
from broker.sharing.database.sessions import CONNECT_SECONDS, DatabaseSession

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

_UNREADABLE: Final = (
    "the dsn cannot be read: characters of a user or a password that have a meaning in URLs are written as %40 and so "
    "on; better have the password in dsn_password_file"
)


class GroupAddress(Protocol):
    """Where the database of a group is, and how long a lease lasts there (`QueueSharingGroup`)."""

    @property
    def name(self) -> str: ...

    @property
    def dsn(self) -> str: ...

    @property
    def schema(self) -> str: ...

    @property
    def lease(self) -> float: ...

    @property
    def dsn_password_file(self) -> Path | None: ...


class Connector:
    """Makes the sessions of one member."""

    def __init__(self, group: GroupAddress) -> None:
        self._group = group
        self._warned_of = {""}  # peers, "" among them

    async def session(self, name: str, settings: Mapping[str, str], *, first: bool) -> DatabaseSession:
        """A session with this name and these settings. `first`: there is none yet, so see what is in between. Raises
        what LOST has, also for a dsn or a file of its password that is of no use; UnsuitableError.
        """
        session = await self._connected(name)
        try:
            if first:
                await check_pool(session, partial(self._connected, name))
            await session.execute(_setting(settings), timeout=CONNECT_SECONDS)
        except BaseException:
            session.terminate()
            raise
        return session

    async def _connected(self, name: str) -> DatabaseSession:
        file = self._group.dsn_password_file
        try:
            password = None if file is None else await anyio.to_thread.run_sync(_secret_of, file)
            session = await asyncpg.connect(
                self._group.dsn,
                password=None if password is None else password.decode("utf-8", "surrogateescape"),
                timeout=CONNECT_SECONDS,
                server_settings={"application_name": name},
                connection_class=DatabaseSession,
            )
        except (asyncpg.InterfaceError, OSError):  # some of both are a ValueError
            raise
        except ValueError:  # whose text may have a part of a password
            raise ClientConfigurationError(_UNREADABLE) from None
        assert isinstance(session, DatabaseSession)
        if (peer := session.peer_in_the_clear) not in self._warned_of:
            self._warned_of.add(peer)
            logger.warning(
                "database_without_tls peer=%s: the password of the database, and messages, can be read on the way: "
                "add sslmode=verify-full to the dsn",
                peer,
                extra={"event": "database_without_tls", "peer": peer},
            )
        return session


def _secret_of(file: Path) -> bytes:
    try:
        return read_secret(file)
    except (SecretFileError, OSError) as error:
        raise ClientConfigurationError(f"dsn_password_file: {error}") from None


def _setting(settings: Mapping[str, str]) -> str:
    """Return the statement that gives a session these settings, none of which has a quote."""
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
