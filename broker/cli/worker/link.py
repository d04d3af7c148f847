"""A worker process talks to the one above it by lines of JSON on a socket between them, whose end ends the child."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_BYTES = 64 * 1024


class Link:
    """One end. `heard` is called with each thing told, `gone` when the other process has ended."""

    def __init__(
        self, end: socket.socket | int, *, heard: Callable[..., None] | None = None, gone: Callable[[], None]
    ) -> None:
        self._socket = socket.socket(fileno=end) if isinstance(end, int) else end
        self._socket.settimeout(0)
        self._heard = heard
        self._gone = gone
        self._kept = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._read)

    def tell(self, **reported: Any) -> None:
        """Tell the other process. It reads little and at once; what has no room is not told."""
        with suppress(OSError):
            self._socket.sendall(json.dumps(reported).encode() + b"\n")

    def close(self) -> None:
        """Harmless when it is closed."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def finish(self) -> None:
        """Read what the other process, which has ended, has told before, and close."""
        while self._socket.fileno() >= 0 and self._read():
            pass
        self.close()

    def _read(self) -> bool:
        """Read what there is. False if there is nothing."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            self._gone()
            return False
        *lines, self._kept = (self._kept + data).split(b"\n")
        for line in lines:
            if self._heard is not None:
                self._heard(**json.loads(line))
        return True
