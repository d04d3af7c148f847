"""Puts with a key onto shared queues (handlers rule 4): a second one within the window is answered as made.

The keys are rows of the group, so that it does not matter at which member a put is made. Each such put is a transaction
of its own: it finds out who has the key, alone with it, and puts only if nobody has. A put that comes while another
with its key is being made waits for it, and is made itself if that one could not be. There is no limit to the number of
keys.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from broker.core.calls.puts.keying import Duplicate, in_use
from broker.core.queues.keys import KeyHolder, digest_of
from broker.engine.calls.answers import repeated
from broker.mqi import checks
from broker.mqi.constants.options import MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from uuid import UUID

    from broker.core.calls.puts.put import Put
    from broker.engine.conversation import Conversation
    from broker.interface.answers import Placed
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember
    from broker.sharing.puts.put_batch import GatheredPut, PutBatch

_SYNCPOINT: Final = MQPMO.SYNCPOINT.value
_TIDIED_AFTER: Final = 1000
"""Puts of a member with keys that are kept as long as their messages."""


def is_keyed(put: GatheredPut) -> bool:
    """True if a put has a key."""
    return put.step.put is not None and bool(put.step.put.extras.key)


async def write_keyed(member: GroupMember, conversation: Conversation, batch: PutBatch, gathered: GatheredPut) -> None:
    """Make the one put of a batch, which has a key, unless it was made before: then its answer says so.

    Raises OBJECT_IN_USE (2042) when a unit of work that has not ended has put with the key, OPTIONS_ERROR (2046).
    """
    put = gathered.step.put
    assert put is not None
    q_name, extras = put.route.queue.name, put.extras
    hashed = blake2b(extras.key, digest_size=16, key=member.group.schema.encode()).digest()
    joined = bool(int(checks.put_options(put.pmo).options) & _SYNCPOINT)

    async def work(session: DatabaseSession) -> None:
        row = await session.fetchrow(
            "SELECT * FROM find_key($1, $2, $3)", q_name, hashed, _unit(conversation, joined=joined)
        )
        if row is None:
            place = await batch.write_in(session)
            if batch.mixed is not None:
                raise MQError(
                    MQRC.OPTIONS_ERROR,
                    "outside syncpoint a put with a key cannot reach shared and private queues: put it under syncpoint",
                )
            if gathered.error is None:
                msg_id, digest = gathered.answer.msg_id, digest_of(put.data)
                values = q_name, hashed, _unit(conversation, joined=joined), place, msg_id, digest, extras.window
                await session.execute("SELECT keep_key($1, $2, $3, $4, $5, $6, $7)", *values)
            return
        if gathered.step.judge is not None:  # also who is answered that it was made before
            gathered.step.judge()
            await batch.check_rights(session)
        if row["busy"]:
            raise in_use(q_name)
        same_data = row["its_digest"] == digest_of(put.data)
        gathered.answer = _answer(conversation, put, row["its_msg_id"], same_data=same_data)
        gathered.answer = gathered.answer._replace(deliver_at=row["its_not_before"])
        batch.made = [gathered]

    await member.database.transact(work, batch.restore)
    if extras.window is None:
        member.puts.kept += 1
        if member.puts.kept % _TIDIED_AFTER == 0:
            await member.database.transact(_tidy)


def _unit(conversation: Conversation, *, joined: bool) -> UUID | None:
    """The unit of work that a put under syncpoint is in."""
    unit = conversation.hconn.unit if joined else None
    return None if unit is None or unit.shared is None else unit.shared.id


def _answer(conversation: Conversation, put: Put, msg_id: bytes, *, same_data: bool) -> Placed:
    holder = KeyHolder(0, 0.0, b"", msg_id)
    duplicate = Duplicate(put.route.queue, b"", holder, None, msg_id, awaited=False)
    duplicate.same_data = same_data
    return repeated(put, duplicate, conversation.core.ids, conversation.context.clock.time())


async def _tidy(session: DatabaseSession) -> None:
    await session.execute("SELECT tidy_keys()")
