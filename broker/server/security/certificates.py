"""The certificates of the listener, and their reload: new ones serve new lines once they are proved, else the old do.

1. The files are looked at every 10 seconds, through links. A change is taken when two looks in a row see the same, so
   not between the replacement of a certificate and that of its key.
2. An order (SIGHUP, REFRESH CONFIG, REFRESH SECURITY TYPE(SSL)) is followed at once. The first two may name others.
3. A new context is made and tried in a thread. What is wrong is logged and keeps the old; it is tried again when a file
   has changed once more.
4. The end of the certificate is told 30, 7 and 1 days before it.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from broker.server.errors import ReloadError, StartError
from broker.server.security.tls import CertificateError, context_of, line_security

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from broker.clock import Clock
    from broker.config import TlsConfig
    from broker.engine.security.login import Certificate
    from broker.server.security.lines import LineSecurity

    Look: TypeAlias = tuple[tuple[int, ...] | None, ...]

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
WARNED_DAYS: Final = (1, 7, 30)
_DAY: Final = 86_400.0
_OTHERS_MAY_READ: Final = 0o004


class Certificates:
    """The certificates of a listener. `context` is for the sockets that are accepted now."""

    context: ssl.SSLContext

    def __init__(self, config: TlsConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._tried: Look = ()
        self._warned: int | None = None  # the days before the end that the last warning was for
        self._own: Certificate
        self._reloads = anyio.Lock()

    async def start(self) -> None:
        """Load them. Raises StartError where they cannot be used."""
        try:
            await self._load()
        except CertificateError as error:
            raise StartError(str(error)) from error
        self._warn_of_key()
        self.warn_of_end()

    async def reload(self) -> bool:
        """Load them again, for new lines. False if they cannot be used: then the old ones go on."""
        async with self._reloads:
            try:
                await self._load()
            except CertificateError as error:
                logger.error(
                    "certificate not reloaded: %s; the old one goes on", error,
                    extra={"event": "certificate_not_reloaded"},
                )  # fmt: skip
                return False
            self._tell_reloaded()
            return True

    async def prepare(self, config: TlsConfig) -> Callable[[], None]:
        """Load the files that other settings name; what is returned takes them for new lines. Raises ReloadError where
        they cannot be used: then the old ones go on.
        """
        if config.certificate is None:
            raise ReloadError("[tls] certificate: there is none, and TLS is served")
        async with self._reloads:
            tried = await anyio.to_thread.run_sync(_look, config, abandon_on_cancel=True)
            try:
                context, own = await anyio.to_thread.run_sync(context_of, config)
            except CertificateError as error:
                raise ReloadError(str(error)) from error

        def take() -> None:
            self._config, self._tried, self.context, self._own = config, tried, context, own
            self._tell_reloaded()

        return take

    async def watch(self) -> None:
        """Reload them when their files have changed, and tell of their end, until cancelled."""
        before = self._tried
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            now = await anyio.to_thread.run_sync(_look, self._config, abandon_on_cancel=True)
            if now == before and now != self._tried:
                await self.reload()
            before = now
            self.warn_of_end()

    def warn_of_end(self) -> None:
        """Tell that the certificate ends soon, once for each of the days at which that is told."""
        left = (self._own.ends - self._clock.time()) / _DAY
        days = next((each for each in WARNED_DAYS if left <= each), None)
        if days is not None and days != self._warned:
            logger.warning(
                "certificate ends in %.1f days serial=%s: replace %s", max(left, 0.0), self._own.serial,
                self._config.certificate, extra={"event": "certificate_ends"},
            )  # fmt: skip
        self._warned = days

    def line_security(self, address: str, transport: asyncio.BaseTransport) -> LineSecurity:
        """Return what the handshake of a line has proved."""
        return line_security(address, transport)

    async def _load(self) -> None:
        self._tried = await anyio.to_thread.run_sync(_look, self._config, abandon_on_cancel=True)
        self.context, self._own = await anyio.to_thread.run_sync(context_of, self._config)

    def _tell_reloaded(self) -> None:
        ends = datetime.fromtimestamp(self._own.ends, UTC).isoformat()
        logger.info(
            "certificate reloaded serial=%s ends=%s", self._own.serial, ends, extra={"event": "certificate_reloaded"}
        )
        self._warn_of_key()
        self._warned = None
        self.warn_of_end()

    def _warn_of_key(self) -> None:
        path = self._config.key or self._config.certificate
        assert path is not None
        try:
            open_to_all = path.stat().st_mode & _OTHERS_MAY_READ
        except OSError:
            return  # it was there a moment ago, and the next look tells
        if open_to_all:
            logger.warning(
                "private key readable by every user of this machine path=%s: chmod o= %s", path, path,
                extra={"event": "key_readable"},
            )  # fmt: skip


def _look(config: TlsConfig) -> Look:
    files = (config.certificate, config.key, config.key_password_file, config.ca, config.crl)
    return tuple(None if path is None else _look_at(path) for path in files)


def _look_at(path: Path) -> tuple[int, ...]:
    """Return figures that differ when a file, or a link to it, has changed."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
