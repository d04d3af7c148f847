"""The definitions that members share for intra-group queuing: the queue on which messages wait, and the members."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from broker.commands.table.attributes import create
from broker.commands.table.structures import DEFAULT
from broker.config import DURABLE
from broker.core.names.definitions import SHARED
from broker.core.names.sharing_group import TRANSMISSION_QUEUE
from broker.mqi.constants.attribute_values import MQIT, MQUS
from broker.mqi.constants.options import MQOO
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from broker.core.names.definitions import Definition
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

MEMBERS_CHANGED: Final = "@members"
"""The notification that the group has one more member. No name of a queue begins so."""

_ATTRIBUTES: Final[dict[str, int | str]] = {
    "DESCR": "intra-group queuing",
    "QSGDISP": SHARED,
    "CFSTRUCT": DEFAULT,
    "USAGE": MQUS.TRANSMISSION.value,
    "INDXTYPE": MQIT.CORREL_ID.value,
    "SHARE": 1,
    "DEFSOPT": MQOO.INPUT_SHARED.value,
    "MAXDEPTH": 999999999,
}


async def join(member: GroupMember) -> None:
    """Define the shared transmission queue if nobody has done so, and let the other members know of this one."""
    definition = _transmission_queue(member)

    async def work(session: DatabaseSession) -> None:
        await session.execute(
            "INSERT INTO object (space, name, disposition, kind, attributes, version) "
            "VALUES ($1, $2, 'SHARED', $3, $4, nextval('object_version')) ON CONFLICT DO NOTHING",
            definition.space,
            definition.name,
            definition.kind,
            json.dumps(definition.attributes),
        )
        await session.execute("INSERT INTO queue (name) VALUES ($1) ON CONFLICT DO NOTHING", definition.name)
        await session.execute("SELECT pg_notify(current_schema(), $1)", MEMBERS_CHANGED)

    await member.database.transact(work)
    await load_members(member)


async def load_members(member: GroupMember) -> None:
    """Learn who is a member, running or not."""
    async with member.database.look() as session:
        members = frozenset(row["name"] for row in await session.fetch("SELECT name FROM member"))
    group = member.core.objects.group
    assert group is not None
    group.members = members


async def hear_of_members(member: GroupMember) -> None:
    """Learn it, where the database can be reached: else it is learned when that is so again (`join`)."""
    try:
        await load_members(member)
    except MQError as away:
        logger.debug("members not known name=%s: %s", member.manager.name, away)


def _transmission_queue(member: GroupMember) -> Definition:
    durable = member.manager.config.queue_manager.defaults == DURABLE
    now = datetime.fromtimestamp(member.manager.clock.time(), UTC)
    return create("QLOCAL", TRANSMISSION_QUEUE, now, **_ATTRIBUTES, DEFPSIST=int(durable))
