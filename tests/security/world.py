"""A queue manager with a few objects and users, whose rights a test gives and takes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from broker import QueueManager
from broker.core.security.facts import SELF, Principal, record_key
from broker.core.security.rights import Q_MGR, Q, Right

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from broker import Connection

OBJECTS: Final = """
DEFINE QLOCAL(Q) DEFPSIST(NO)
DEFINE QLOCAL(OTHER) DEFPSIST(NO)
DEFINE QLOCAL(XQ) USAGE(XMITQ) DEFPSIST(NO)
DEFINE QALIAS(ALIAS) TARGET(OTHER) DEFPSIST(NO)
DEFINE QREMOTE(REMOTE) RNAME(THERE) RQMNAME(QM2) XMITQ(XQ) DEFPSIST(NO)
DEFINE QREMOTE(QM9) RNAME(' ') RQMNAME(QM1) DEFPSIST(NO)
DEFINE QREMOTE(QM8) RNAME(' ') RQMNAME(QM2) XMITQ(XQ) DEFPSIST(NO)
DEFINE QMODEL(MODEL) DEFTYPE(TEMPDYN) DEFPSIST(NO)
DEFINE QMODEL(LASTING) DEFTYPE(PERMDYN) DEFPSIST(NO)
DEFINE PROCESS(WORK)
"""

MANAGER: Final = (Q_MGR, SELF)
"""The queue manager, as what a right is about."""

Rights = dict[tuple[int, str], Right]
"""By type and name of the object."""


def give(manager: QueueManager, user: str, rights: Mapping[tuple[int, str], Right], *, shared: bool = False) -> None:
    """Let a user have these rights, and no others on these objects; `shared`: as its group has it."""
    authority = manager.core.objects.authority
    for (object_type, profile), right in rights.items():
        key = record_key(profile, object_type, Principal.USER, user)
        record: dict[str, int | str] = {
            "PROFILE": profile,
            "OBJTYPE": object_type,
            "ENTTYPE": 1,
            "ENTITY": user,
            "AUTHLIST": int(right),
        }
        for each in (authority, authority.group) if shared else (authority,):
            each.define("AUTHREC", key, record)


class World:
    """`owner` is the connection of the program that has the queue manager."""

    def __init__(self, manager: QueueManager, owner: Connection) -> None:
        self.manager = manager
        self.owner = owner

    def give(self, user: str, rights: Mapping[tuple[int, str], Right]) -> None:
        """Let a user have these rights, and no others on these objects."""
        give(self.manager, user, rights)

    def let_connect(
        self, user: str, q_rights: Mapping[str, Right] | None = None, on_manager: Right = Right.NONE
    ) -> None:
        """Let a user connect, with these rights on queues."""
        rights = {(Q, name): right for name, right in (q_rights or {}).items()}
        self.give(user, rights | {MANAGER: on_manager | Right.CONNECT})

    def connect(self, user: str) -> Connection:
        """A connection whose calls are judged as this user's."""
        return self.manager.connect("program", as_user=user)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """A queue manager in memory with `OBJECTS`."""
    async with QueueManager.open(name="QM1", data=None) as manager, manager.connect("owner") as owner:
        for reply in await owner.mqsc(OBJECTS):
            assert reply.ok, reply.text
        yield World(manager, owner)
