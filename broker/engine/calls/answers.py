"""Answer calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from broker.core.calls.puts.distribution import DistributionList
from broker.core.message import context
from broker.interface.answers import Distribution, Opened, Placed
from broker.interface.port import ENDED
from broker.mqi import checks
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from broker.core.calls.puts.keying import Duplicate
    from broker.core.calls.puts.put import Put
    from broker.core.identifiers import Identifiers
    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Handle
    from broker.interface.port import Call
    from broker.mqi.structures import ResponseRecord

T = TypeVar("T")

_DETAILS = {
    int(MQRC.NO_MSG_AVAILABLE): "no suitable message came before the wait interval was over",
    int(MQRC.GET_INHIBITED): "the queue was set to GET(DISABLED)",
    int(MQRC.Q_DELETED): "the queue was deleted",
    int(MQRC.OBJECT_DAMAGED): "the data of the message is damaged: the log of the queue manager names its file",
    int(MQRC.OBJECT_CHANGED): "the way from the name to its queue was changed",
    int(MQRC.HOBJ_ERROR): "the handle was closed while the call was waiting",
    int(MQRC.HCONN_ERROR): ENDED,
    int(MQRC.CONNECTION_BROKEN): "the connection is broken",
    int(MQRC.Q_MGR_QUIESCING): "the queue manager is quiescing",
    int(MQRC.Q_MGR_STOPPING): "the queue manager is stopping",
}


def opened(handle: Handle, q_mgr_name: str) -> Opened:
    """The answer to an open of this handle, on the queue manager of that name."""
    if isinstance(handle, DistributionList):
        return _opened_list(handle)
    route = handle.route
    if route is None:
        return Opened(handle.hobj, handle.name, handle.name, q_mgr_name, 0)
    first = route.first
    read_ahead = int(first.definition.attributes.get("DEFREADA", 0))  # the definition of a remote queue has none
    defaults = first.answers_puts_later, bool(first.default_persistence), read_ahead
    return Opened(handle.hobj, handle.name, route.q_name, route.q_mgr_name, 0, *defaults)


def _opened_list(handle: DistributionList) -> Opened:
    persistent = any(each.route is not None and each.route.first.default_persistence for each in handle.opened)
    found = Distribution(handle.records, handle.unknown_count)
    return Opened(handle.hobj, "", "", "", handle.reason, persistent=persistent, distribution=found)


def placed(entry: Entry, reason: int) -> Placed:
    """The answer to a put of this entry; `reason` is that of a warning, or 0."""
    return Placed(
        entry.packed_md,
        entry.msg_id,
        entry.correl_id,
        entry.group_id,
        entry.msg_seq_number,
        entry.offset,
        entry.original_length,
        entry.priority,
        entry.persistence,
        reason,
        deliver_at=entry.handling.not_before if entry.handling is not None else 0.0,
    )


def repeated(put: Put, duplicate: Duplicate, ids: Identifiers, now: float) -> Placed:
    """The answer to a put that was made before (handlers rule 4.3): the fields that the program gave, as if it had been
    made now, with the MsgId of the first.
    """
    md = MessageDescriptor() if put.md is None else checks.descriptor(put.md)
    entry, route, once = duplicate.entry, put.route, put.handle is None
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


def succeed(call: Call[T], result: T) -> None:
    """Answer a call, unless it has been answered or cancelled."""
    if not call.done():
        call.set_result(result)


def refusal(reason: int, detail: str = "", records: tuple[ResponseRecord, ...] = ()) -> MQError:
    """The error of this reason, with the detail that it has for itself where none is given. `records`: the outcomes of
    the destinations of a list.
    """
    return MQError(reason, detail or _DETAILS.get(int(reason), ""), records=records)


def fail(call: Call[Any], reason: int, detail: str = "", records: tuple[ResponseRecord, ...] = ()) -> None:
    """Answer a call with an error, unless it has been answered or cancelled."""
    if not call.done():
        call.set_exception(refusal(reason, detail, records))


def fail_written(call: Call[Any], error: Exception, full: MQRC) -> None:
    """Answer a call whose rows could not be written, with `full` when there was no room (journal rule 6), or whose unit
    could not be settled.
    """
    if isinstance(error, StoreFullError):
        fail(call, full, f"the store is full: {error}")
    elif isinstance(error, MQError):
        fail(call, error.reason, error.detail)
    else:
        fail(call, MQRC.CONNECTION_BROKEN, "the store failed; the outcome of this call is unknown")


def answer_written(call: Call[T], result: T, full: MQRC, error: Exception | None) -> None:
    """Answer a call whose rows are written: with `result`, or with `full` when there was no room."""
    if error is not None:
        fail_written(call, error, full)
    elif not call.done():
        call.set_result(result)


def nobody(_: Exception | None) -> None:
    """Nobody waits for this outcome."""
