"""The commands that a group carries out, or members of it, for a program of this member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.commands.requests import (
    MembersRequest,
    MoveRequest,
    PeerUnitsRequest,
    ResolvePeerUnitRequest,
    ScopedRequest,
)
from broker.sharing.definitions.moving import Moving
from broker.sharing.definitions.orders import Orders
from broker.sharing.definitions.structures import Structures
from broker.sharing.members.display_group import displayed
from broker.sharing.units.peer_units import PeerUnits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.commands.requests import GroupRequest
    from broker.mqi.replies import CommandReply
    from broker.sharing.members.group_member import GroupMember


class GroupCommands:
    """The commands of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._database = member.database
        self.orders = Orders(member)
        self._peer_units = PeerUnits(member.database)
        self._moving = Moving(member)
        self._structures = Structures(member)

    async def carry_out(self, request: ScopedRequest | GroupRequest, user: str | None) -> Sequence[CommandReply]:
        """Return the replies. Raises MQError where the database does not do it."""
        if isinstance(request, ScopedRequest):
            return await self.orders.send(request, user)
        if isinstance(request, PeerUnitsRequest | ResolvePeerUnitRequest):
            return await self._peer_units.carry_out(request)
        if isinstance(request, MembersRequest):
            return await displayed(self._database, request)
        if isinstance(request, MoveRequest):
            return [await self._moving.carry_out(request)]
        return [await self._structures.carry_out(request)]
