"""The answer to a put that was made before (handlers rule 4.3): as if it had been made now, but that nothing is put."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message import context
from broker.core.message.rows import Rows
from broker.engine.calls.answers import fail, fail_written, succeed
from broker.interface.answers import Placed
from broker.mqi import checks
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from broker.core.calls.puts.keying import Duplicate
    from broker.core.calls.puts.put import Put
    from broker.engine.conversation import Conversation
    from broker.interface.port import Call


def answer(conversation: Conversation, call: Call[Placed], put: Put, duplicate: Duplicate) -> None:
    """Answer a put that was made before: where the first is on its way to the store, when it is there, and with its
    failure if it could not be written.
    """
    made_before = placed(conversation, put, duplicate)
    if not duplicate.awaited:
        call.set_result(made_before)
        return

    def first_settled(error: Exception | None) -> None:
        if error is not None:
            fail_written(call, error, MQRC.STORAGE_MEDIUM_FULL)
        elif duplicate.is_held(conversation.context.clock.time()):
            succeed(call, made_before)
        else:
            fail(call, MQRC.STORAGE_MEDIUM_FULL, "the put with this key that was made first could not be written")

    conversation.call_order.write(Rows(), first_settled, reveals=False)


def placed(conversation: Conversation, put: Put, duplicate: Duplicate) -> Placed:
    """Return the answer to a repeated put: the fields that the program gave, with the MsgId of the first."""
    md = MessageDescriptor() if put.md is None else checks.descriptor(put.md)
    ids, now, route = conversation.core.ids, conversation.context.clock.time(), put.route
    entry = duplicate.entry
    once = put.handle is None
    return Placed(
        context.pack(md, context.DEFAULT, ids.stamp(now), put.hconn, ids),
        duplicate.msg_id,
        md.correl_id,
        md.group_id,
        md.msg_seq_number,
        md.offset,
        md.original_length,
        route.priority(md.priority),
        route.persistence(md.persistence),
        0,
        route.q_name if once else "",
        route.q_mgr_name if once else "",
        deliver_at=entry.handling.not_before if entry is not None and entry.handling is not None else 0.0,
        duplicate=True,
        same_data=duplicate.same_data,
    )
