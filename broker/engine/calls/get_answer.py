"""Make the answer to a getter: the descriptor and the data of a message, put together from its segments where it has
several, and converted where it asked for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgpack

from broker.core.message import assembly
from broker.core.message.conversion.coding import Coding
from broker.core.message.conversion.conversion import convert
from broker.core.message.headers import mqmde, properties
from broker.interface.answers import GetAnswer
from broker.mqi.constants.descriptor import MQCCSI, MQENC
from broker.mqi.constants.options import MQGMO
from broker.mqi.layouts.packing import PACKED_FIELDS
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID, NO_TOKEN

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from broker.core.queues.effects import Grant
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor

_CONVERT = MQGMO.CONVERT.value
_OWN_CCSID = (MQCCSI.Q_MGR.value, MQCCSI.APPL.value)
_ENCODING = PACKED_FIELDS.index("encoding")
_CCSID = PACKED_FIELDS.index("coded_char_set_id")
_FORMAT = PACKED_FIELDS.index("format")
_TRUNCATED = (int(MQRC.TRUNCATED_MSG_ACCEPTED), int(MQRC.TRUNCATED_MSG_FAILED))
_TOO_BIG = int(MQRC.CONVERTED_MSG_TOO_BIG)

NOTHING = GetAnswer(b"", NO_ID, NO_ID, NO_ID, 1, 0, 0, -1, 0, 0, -1, 0, NO_TOKEN, b"", 0, 0)
"""The answer to a get that gives no message: UNLOCK."""


class Form(NamedTuple):
    """The form in which the getter wants a message: the length of its buffer, the version of its descriptor, and for
    CONVERT the coding of its data.
    """

    max_length: int | None
    version: int
    coding: Coding | None = None

    @property
    def plain(self) -> bool:
        """True if a message in one piece, without properties, is given as it is."""
        return self.max_length is None and self.version != 1 and self.coding is None


PLAIN = Form(None, 2)
"""The form that most getters want: the message as it is."""


def form_of(md: MessageDescriptor | None, options: GetMessageOptions, max_length: int | None, q_mgr_ccsid: int) -> Form:
    """Return the form of the message for a get with these arguments, which have been checked."""
    if md is None and max_length is None and not options.options & _CONVERT:
        return PLAIN
    coding = _wanted_coding(md, q_mgr_ccsid) if options.options & _CONVERT else None
    return Form(max_length, 2 if md is None else md.version, coding)


def _wanted_coding(md: MessageDescriptor | None, q_mgr_ccsid: int) -> Coding:
    """Return the coding to which a get with CONVERT wants data to be converted."""
    ccsid, encoding = (0, MQENC.NATIVE.value) if md is None else (md.coded_char_set_id, md.encoding)
    return Coding(q_mgr_ccsid if ccsid in _OWN_CCSID else ccsid, encoding)


def delivery(grant: Grant, form: Form, now: float) -> GetAnswer:
    """The answer to a get. All bodies are in memory."""
    entries, reason = grant.entries, grant.reason
    if len(entries) == 1 and (form is PLAIN or form.plain) and not entries[0].properties:
        return _plain(entries[0], reason, now)
    first = entries[0]
    packed = first.properties
    data = assembly.data_of(entries)
    packed_md, item, flags, original_length = (
        first.packed_md,
        first.item,
        assembly.flags_of(entries),
        first.original_length,
    )
    with_mqmde = form.version == 1 and assembly.needs_mqmde(entries)
    headed = bool(packed) and properties.wanted(packed, grant.form)
    if headed:
        data, packed_md = properties.with_header(packed, data, packed_md)
    room = form.max_length
    if form.coding is not None and reason not in _TRUNCATED:
        room_here = None if room is None else room - (mqmde.LENGTH if with_mqmde else 0)
        data, packed_md, unconverted = _converted(data, packed_md, form.coding, room_here, headed=headed)
        reason = reason or unconverted
    if with_mqmde:
        fields = list(msgpack.unpackb(packed_md))
        encoding, ccsid, format = fields[_ENCODING], fields[_CCSID], fields[_FORMAT]
        data = mqmde.packed(item, flags, original_length, encoding, ccsid, format, encoding) + data
        fields[_FORMAT] = mqmde.FORMAT
        packed_md = msgpack.packb(fields)
        item, flags, original_length = mqmde.UNGROUPED, 0, -1
    return _plain(first, reason, now)._replace(
        packed_md=packed_md,
        group_id=item.group_id,
        msg_seq_number=item.msg_seq_number,
        offset=item.offset,
        msg_flags=flags,
        original_length=original_length,
        data=data if room is None or len(data) <= room else data[:room],
        length=len(data),
        properties=properties.in_mapping(packed, grant.form),
    )


def _plain(entry: Entry, reason: int, now: float) -> GetAnswer:
    """The answer where the message is given as it is, which it mostly is."""
    return GetAnswer(
        entry.packed_md,
        entry.msg_id,
        entry.correl_id,
        entry.group_id,
        entry.msg_seq_number,
        entry.offset,
        entry.msg_flags,
        entry.original_length,
        entry.priority,
        entry.persistence,
        -1 if entry.deadline is None else entry.expiry_left(now),
        entry.backout_count,
        entry.token,
        entry.data or b"",
        entry.length,
        reason,
        b"",
        entry.handling.not_before if entry.handling is not None else 0.0,
    )


def _converted(
    data: bytes, packed_md: bytes, target: Coding, room: int | None, *, headed: bool
) -> tuple[bytes, bytes, int]:
    """The data in the getter's coding, with the descriptor that says so, or both as they are and the reason. `headed`:
    the header of its properties was put before it, so that what describes it says nothing of the data behind that.
    """
    fields = list(msgpack.unpackb(packed_md))
    source = Coding(fields[_CCSID], fields[_ENCODING])
    converted = convert(data, fields[_FORMAT], source, target, chain=headed)
    if room is not None and len(converted.data) > room:
        return data, packed_md, _TOO_BIG
    fields[_CCSID], fields[_ENCODING] = converted.coding
    return converted.data, msgpack.packb(fields), converted.reason
