"""The structures of the message queue interface: MQMD, MQGMO, MQPMO and MQOD, and the records of distribution lists.

Fields carry MQ's names in snake case and MQ's units: WaitInterval in milliseconds, Expiry in tenths of a second.
Character fields are `str` without padding; identifiers are 24 `bytes`. The library reads a caller's structures and
never changes them: results carry the completed copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from broker.mqi.constants.descriptor import MQAT, MQEI, MQENC, MQMF, MQMT, MQPER, MQPRI, MQRO
from broker.mqi.constants.identifiers import MQACT_NONE, MQMI_NONE, MQMTOK_NONE
from broker.mqi.constants.objects import MQOT
from broker.mqi.constants.options import MQGMO, MQMO, MQPMO, MQPMRF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.mqi.reasons import MQCC, MQRC

NO_ID = MQMI_NONE
NO_TOKEN = MQMTOK_NONE
NO_ACCOUNTING_TOKEN = MQACT_NONE


@dataclass(slots=True, kw_only=True)
class MessageDescriptor:
    """MQMD version 2: what a message is, apart from its data.

    `version=1` is accepted: the five group and segment fields then keep their defaults on a put.
    """

    report: int = MQRO.NONE.value
    msg_type: int = MQMT.DATAGRAM
    expiry: int = MQEI.UNLIMITED
    feedback: int = 0
    encoding: int = MQENC.NATIVE
    coded_char_set_id: int = 0
    format: str = ""
    priority: int = MQPRI.PRIORITY_AS_Q_DEF
    persistence: int = MQPER.PERSISTENCE_AS_Q_DEF
    msg_id: bytes = NO_ID
    correl_id: bytes = NO_ID
    backout_count: int = 0
    reply_to_q: str = ""
    reply_to_q_mgr: str = ""
    user_identifier: str = ""
    accounting_token: bytes = NO_ACCOUNTING_TOKEN
    appl_identity_data: str = ""
    put_appl_type: int = MQAT.NO_CONTEXT
    put_appl_name: str = ""
    put_date: str = ""
    put_time: str = ""
    appl_origin_data: str = ""
    group_id: bytes = NO_ID
    msg_seq_number: int = 1
    offset: int = 0
    msg_flags: int = MQMF.NONE.value
    original_length: int = -1
    version: int = 2

    def to_tuple(self) -> tuple[Any, ...]:
        """All fields in the order of their declaration."""
        return _descriptor_fields(self)

    @classmethod
    def from_tuple(cls, fields: tuple[Any, ...] | list[Any]) -> Self:
        """The descriptor that `to_tuple` took apart."""
        md = cls.__new__(cls)
        (  # spelled out, because every put that names a descriptor comes by
            md.report, md.msg_type, md.expiry, md.feedback, md.encoding, md.coded_char_set_id, md.format, md.priority,
            md.persistence, md.msg_id, md.correl_id, md.backout_count, md.reply_to_q, md.reply_to_q_mgr,
            md.user_identifier, md.accounting_token, md.appl_identity_data, md.put_appl_type, md.put_appl_name,
            md.put_date, md.put_time, md.appl_origin_data, md.group_id, md.msg_seq_number, md.offset, md.msg_flags,
            md.original_length, md.version,
        ) = fields  # fmt: skip
        return md


DESCRIPTOR_FIELDS: tuple[str, ...] = tuple(MessageDescriptor.__dataclass_fields__)
_descriptor_fields = attrgetter(*DESCRIPTOR_FIELDS)

DESCRIPTOR_SIZES = {
    "format": 8,
    "msg_id": 24,
    "correl_id": 24,
    "reply_to_q": 48,
    "reply_to_q_mgr": 48,
    "user_identifier": 12,
    "accounting_token": 32,
    "appl_identity_data": 32,
    "put_appl_name": 28,
    "put_date": 8,
    "put_time": 8,
    "appl_origin_data": 4,
    "group_id": 24,
}
"""The characters or bytes for which MQMD has room, by field."""


@dataclass(slots=True, kw_only=True)
class GetMessageOptions:
    """MQGMO: how to get a message. `wait_interval` is in milliseconds, -1 (MQWI_UNLIMITED) for ever."""

    options: int = MQGMO.NO_WAIT.value
    wait_interval: int = 0
    match_options: int = (MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID).value
    msg_token: bytes = NO_TOKEN
    version: int = 4


@dataclass(slots=True, kw_only=True)
class PutMessageRecord:
    """MQPMR: what a message has of its own at one destination of a distribution list. Only the fields that
    `record_fields` of MQPMO names count; the others are those of the descriptor.
    """

    msg_id: bytes = NO_ID
    correl_id: bytes = NO_ID
    group_id: bytes = NO_ID
    feedback: int = 0
    accounting_token: bytes = NO_ACCOUNTING_TOKEN


@dataclass(slots=True, kw_only=True)
class PutMessageOptions:
    """MQPMO: how to put a message. `context` is the open queue whose saved context to pass on.

    `records` are for distribution lists: one a destination, in the order of the list. There may be fewer than
    destinations; those beyond their number are not looked at. `record_fields` says which of their fields count.
    """

    options: int = MQPMO.NONE.value
    context: Any = -1
    version: int = 3
    records: Sequence[PutMessageRecord] = ()
    record_fields: int = MQPMRF.NONE.value


@dataclass(slots=True)
class ObjectRecord:
    """MQOR: one destination of a distribution list, a queue that is no model queue."""

    object_name: str = ""
    object_q_mgr_name: str = ""


@dataclass(slots=True, kw_only=True)
class ObjectDescriptor:
    """MQOD: which object to open. A blank queue manager name means the one connected to.

    `dynamic_q_name` names the queue to be made of a model queue; up to 32 characters and an asterisk leave the rest to
    the queue manager. `selection_string` is a selector: messages of which it is not true are not there for this handle.
    `records` make it a distribution list: `object_name` and `object_q_mgr_name` are then blank.
    """

    object_name: str = ""
    object_type: int = MQOT.Q
    object_q_mgr_name: str = ""
    dynamic_q_name: str = "AMQ.*"
    alternate_user_id: str = ""
    selection_string: str = ""
    records: Sequence[ObjectRecord] = ()


class ResponseRecord(NamedTuple):
    """MQRR, with what MQPMR returns: what became of a call at one destination of a distribution list. The identifiers
    are those of the message put there, zeros after an open or where nothing was put.
    """

    completion: MQCC
    reason: MQRC | int
    msg_id: bytes = NO_ID
    correl_id: bytes = NO_ID
    group_id: bytes = NO_ID
