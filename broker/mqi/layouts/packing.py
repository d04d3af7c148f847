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

PACKED_FIELDS = (
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

_fields_of = attrgetter(*PACKED_FIELDS)


def pack_md(md: MessageDescriptor) -> bytes:
    """The fields of `md` that a queue keeps packed, as one byte string."""
    packed: bytes = msgpack.packb(_fields_of(md))
    return packed


def unpack_md(packed: bytes, md: MessageDescriptor) -> None:
    """Write the fields that `pack_md` packed into `md`."""
    for name, value in zip(PACKED_FIELDS, msgpack.unpackb(packed), strict=True):
        setattr(md, name, value)
