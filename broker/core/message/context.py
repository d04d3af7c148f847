"""Message context: who put a message, and from where (semantics 1.4).

Identity context is UserIdentifier, AccountingToken and ApplIdentityData; origin context is PutApplType, PutApplName,
PutTime and ApplOriginData. A put fills them in by default, leaves them blank, takes them from the descriptor, or
passes on those of the message got last through a handle that saves context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgpack

from broker.mqi.constants.options import MQOO, MQPMO
from broker.mqi.errors import MQError
from broker.mqi.layouts.packing import PACKED_FIELDS
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ACCOUNTING_TOKEN

if TYPE_CHECKING:
    from broker.core.identifiers import Identifiers
    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Handle, Hconn
    from broker.mqi.structures import MessageDescriptor

_NO_CONTEXT = MQPMO.NO_CONTEXT.value
_PASS_IDENTITY = MQPMO.PASS_IDENTITY_CONTEXT.value
_PASS_ALL = MQPMO.PASS_ALL_CONTEXT.value
_SET_IDENTITY = MQPMO.SET_IDENTITY_CONTEXT.value
_SET_ALL = MQPMO.SET_ALL_CONTEXT.value
_SPECIAL = _NO_CONTEXT | _PASS_IDENTITY | _PASS_ALL | _SET_IDENTITY | _SET_ALL

_OPEN_SET_ALL = MQOO.SET_ALL_CONTEXT
_OPEN_SET_IDENTITY = MQOO.SET_IDENTITY_CONTEXT | _OPEN_SET_ALL
_OPEN_PASS_ALL = MQOO.PASS_ALL_CONTEXT | _OPEN_SET_ALL
_OPEN_PASS_IDENTITY = MQOO.PASS_IDENTITY_CONTEXT | MQOO.PASS_ALL_CONTEXT | _OPEN_SET_IDENTITY
_NEEDED = (
    (_PASS_IDENTITY, _OPEN_PASS_IDENTITY, MQRC.NOT_OPEN_FOR_PASS_IDENT),
    (_PASS_ALL, _OPEN_PASS_ALL, MQRC.NOT_OPEN_FOR_PASS_ALL),
    (_SET_IDENTITY, _OPEN_SET_IDENTITY, MQRC.NOT_OPEN_FOR_SET_IDENT),
    (_SET_ALL, _OPEN_SET_ALL, MQRC.NOT_OPEN_FOR_SET_ALL),
)
"""A context option of MQPUT, the options of MQOPEN that allow it, and the reason when none of them was given."""

_IDENTITY = PACKED_FIELDS.index("user_identifier")
_ORIGIN = PACKED_FIELDS.index("put_appl_type")


class Context(NamedTuple):
    """The context of a message. `origin` None is that of the put itself, `identity` None that of the connection."""

    identity: tuple[str, bytes, str] | None = None
    origin: tuple[int, str, str, str, str] | None = None


_BLANK = Context(("", NO_ACCOUNTING_TOKEN, ""), (0, "", "", "", ""))
DEFAULT = Context()


def for_put(hconn: Hconn, handle: Handle | None, options: int, source: int, md: MessageDescriptor) -> Context:
    """The context that a put names. `source` is the handle (PMO.Context) that saved the one to pass on.

    Raises NOT_OPEN_FOR_PASS_IDENT (2094) and its kin, CONTEXT_HANDLE_ERROR (2097), CONTEXT_NOT_AVAILABLE (2098).
    """
    if not options & _SPECIAL:
        return DEFAULT
    if options & _NO_CONTEXT:
        return _BLANK
    if handle is not None:
        for option, allowed, reason in _NEEDED:
            if options & option and not handle.options & allowed:
                raise MQError(reason, f"{handle.name} was opened without any of {MQOO(allowed)!r}")
    if options & (_PASS_IDENTITY | _PASS_ALL):
        saved = _saved(hconn, source)
        return saved if options & _PASS_ALL else Context(saved.identity)
    identity = (md.user_identifier[:12], md.accounting_token, md.appl_identity_data[:32])
    if options & _SET_IDENTITY:
        return Context(identity)
    origin = (md.put_appl_type, md.put_appl_name[:28], md.put_date, md.put_time, md.appl_origin_data[:4])
    return Context(identity, origin)


def of(entry: Entry) -> Context:
    """The context of a message, which a destructive get saves in the position of a handle that `saves_context`."""
    fields = msgpack.unpackb(entry.packed_md)
    return Context(tuple(fields[_IDENTITY:_ORIGIN]), tuple(fields[_ORIGIN:]))


def pack(md: MessageDescriptor, context: Context, stamp: tuple[str, str], hconn: Hconn, ids: Identifiers) -> bytes:
    """The fields that the queue only keeps (`broker.mqi.layouts.packing.PACKED_FIELDS`), with this context."""
    identity = context.identity or (hconn.user, NO_ACCOUNTING_TOKEN, "")
    origin = context.origin or (hconn.appl_type, hconn.appl_name, *stamp, "")
    packed: bytes = msgpack.packb(
        (
            md.report, md.msg_type, md.feedback, md.encoding, md.coded_char_set_id or ids.coded_char_set_id, md.format,
            md.reply_to_q, md.reply_to_q_mgr or (ids.q_mgr_name if md.reply_to_q else ""), *identity, *origin,
        )
    )  # fmt: skip
    return packed


def _saved(hconn: Hconn, source: int) -> Context:
    handle = hconn.handles.get(source)
    if handle is None or not handle.saves_context:
        raise MQError(MQRC.CONTEXT_HANDLE_ERROR, "context= is not a queue opened with MQOO_SAVE_ALL_CONTEXT")
    saved = handle.position.saved_context
    if saved is None:
        raise MQError(
            MQRC.CONTEXT_NOT_AVAILABLE, f"no message was got through {handle.name}, or the last one was browsed"
        )
    return saved
