"""The names of the users of this machine, by their numbers."""

from __future__ import annotations

import os
import pwd
from typing import Final

import anyio

KEPT_MAX: Final = 1000


class PeerNames:
    """Names of users, each looked up once, in a thread: a directory that is slow does not stop the event loop."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def known(self, uid: int) -> str | None:
        """The name of a user; None if it is not known yet."""
        return self._names.get(uid)

    async def look_up(self, uid: int) -> str:
        """The name of a user, its number where it has none."""
        name = await anyio.to_thread.run_sync(_name_of, uid, abandon_on_cancel=True)
        if len(self._names) >= KEPT_MAX:
            self._names.clear()
        self._names[uid] = name
        return name


def owns_process(uid: int) -> bool:
    """True for the user as which this process runs, and for root."""
    return uid in (0, os.geteuid())


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
