"""BACKUP, RECOVER and RESET CFSTRUCT: structures are saved, fail, and can be used again (queue-sharing 5).

What makes persistent messages durable is the database's own log: BACKUP CFSTRUCT writes down when it was asked for, and
RECOVER CFSTRUCT finds them where they were. Whoever must be able to go back further backs up the database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.commands import errors
from broker.commands.interpreter import refused
from broker.commands.requests import BackUpRequest, FailRequest, RecoverRequest
from broker.commands.selection import generic_match
from broker.mqi.replies import CommandReply
from broker.sharing.definitions.repository_change import SLICE

if TYPE_CHECKING:
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember


class Structures:
    """The commands on structures."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    async def carry_out(self, request: BackUpRequest | RecoverRequest | FailRequest) -> CommandReply:
        """Do it, and let it take effect here. Raises MQError for what the database does not do."""
        pattern = request.pattern if isinstance(request, BackUpRequest) else request.name
        await self._member.repository.reload()
        known = self._member.core.objects.structures
        names = [name for name in sorted(known) if known[name].definition is not None and generic_match(pattern, name)]
        if not names:
            return refused(errors.not_found(pattern))

        for name in names:
            await self._change(request, name)
        await self._member.repository.reload()
        return _done(request, names)

    async def _change(self, request: BackUpRequest | RecoverRequest | FailRequest, name: str) -> None:
        """Change one structure. Its messages go in slices, while it is FAILED and nobody can use it."""
        if isinstance(request, BackUpRequest):
            await self._do("UPDATE structure SET backed_up = now_seconds() WHERE name = $1", name)
            return
        if isinstance(request, FailRequest):
            await self._do("SELECT set_status($1, 'FAILED')", name)
        purge = isinstance(request, RecoverRequest) and request.purge
        if purge or await self._do("SELECT status <> 'ACTIVE' FROM structure WHERE name = $1", name):
            while await self._do("SELECT clear_structure($1, $2, $3)", name, purge, SLICE):
                pass
        if isinstance(request, RecoverRequest):
            await self._do("SELECT set_status($1, 'ACTIVE')", name)

    async def _do(self, statement: str, *arguments: object) -> Any:
        async def work(session: DatabaseSession) -> Any:
            return await session.fetchval(statement, *arguments)

        return await self._member.database.transact(work)


def _done(request: BackUpRequest | RecoverRequest | FailRequest, names: list[str]) -> CommandReply:
    which = ", ".join(names)
    match request:
        case BackUpRequest():
            return CommandReply(code="EMQ0012I", text=f"EMQ0012I: EverMQ structure {which} backed up.")
        case RecoverRequest(_, purge):
            how = "emptied" if purge else "recovered"
            return CommandReply(code="EMQ0013I", text=f"EMQ0013I: EverMQ structure {which} {how}.")
        case FailRequest():
            return CommandReply(code="EMQ0014I", text=f"EMQ0014I: EverMQ structure {which} has failed.")
