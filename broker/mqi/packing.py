"""The packed form of a descriptor: what a queue keeps of it, and what a reply carries.

A queue works with a dozen of a message's fields (identifiers, group fields, priority, expiry, ...). The others it only
keeps: they travel as one byte string, packed once at the put and unpacked when somebody reads them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import msgpack

if TYPE_CHECKING:
    from broker.mqi.structures import MessageDescriptor

KEPT_FIELDS = (
    "report",
    "msg_type",
    "feedback",
    "encoding",
    "coded_char_set_id",
    "format",
    "reply_to_q",
    "reply_to_q_mgr",
    "user_identifier",
    "accounting_token",
    "appl_identity_data",
    "put_appl_type",
    "put_appl_name",
    "put_date",
    "put_time",
    "appl_origin_data",
)

_kept = attrgetter(*KEPT_FIELDS)


def pack_kept(md: MessageDescriptor) -> bytes:
    """The kept fields of `md` as one byte string."""
    packed: bytes = msgpack.packb(_kept(md))
    return packed


def unpack_kept(packed: bytes, md: MessageDescriptor) -> None:
    """Write the fields that `pack_kept` packed into `md`."""
    for name, value in zip(KEPT_FIELDS, msgpack.unpackb(packed), strict=True):
        setattr(md, name, value)
