"""The socket of the service manager, to which a service sends notices (sd_notify, without its library)."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

_VARIABLE: Final = "NOTIFY_SOCKET"


class NotifySocket:
    """Sends notices as datagrams. It never waits: what has no room is sent along with the next notice."""

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(0)
        self._unsent: dict[str, str] = {}
        self._failed = False

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Self | None:
        """Return the socket that the environment names, a path or `@` and an abstract name; None without one."""
        address = environ.get(_VARIABLE, "")
        if not address:
            return None
        if address[0] not in "/@":
            logger.warning("service manager not notified: %s=%s is no address of a Unix socket", _VARIABLE, address)
            return None
        return cls(address)

    def send(self, **notices: str | int) -> None:
        """Send notices such as `READY=1`. What fails is logged once, and tried again with the next ones."""
        self._unsent |= {name: str(value).replace("\n", " ") for name, value in notices.items()}
        text = "\n".join(f"{name}={value}" for name, value in self._unsent.items())
        try:
            self._socket.sendto(text.encode(), self._address)
        except OSError as error:
            if not self._failed:
                logger.warning("service manager not notified: %s", error)
            self._failed = True
            return
        self._failed = False
        self._unsent.clear()

    def close(self) -> None:
        """Send nothing any more."""
        self._socket.close()
