"""The structures of the message queue interface: MQMD, MQGMO, MQPMO and MQOD.

Fields carry MQ's names in snake case and MQ's units: WaitInterval in milliseconds, Expiry in tenths of a second.
Character fields are `str` without padding; identifiers are 24 `bytes`. The library reads a caller's structures and
never changes them: results carry the completed copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

from broker.mqi.descriptor import MQAT, MQEI, MQENC, MQMF, MQMT, MQPER, MQPRI, MQRO
from broker.mqi.identifiers import MQACT_NONE, MQMI_NONE, MQMTOK_NONE
from broker.mqi.objects import MQOT
from broker.mqi.options import MQGMO, MQMO, MQPMO

NO_ID = MQMI_NONE
NO_TOKEN = MQMTOK_NONE
NO_ACCOUNTING_TOKEN = MQACT_NONE


@dataclass(slots=True, kw_only=True)
class MessageDescriptor:
    """MQMD version 2: what a message is, apart from its data.

    `version=1` is accepted: the five group and segment fields then keep their defaults on a put.
    """

    report: int = MQRO.NONE
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
    msg_flags: int = MQMF.NONE
    original_length: int = -1
    version: int = 2

    def to_tuple(self) -> tuple[Any, ...]:
        """All fields in the order of their declaration."""
        return _descriptor_fields(self)

    @classmethod
    def from_tuple(cls, fields: tuple[Any, ...] | list[Any]) -> Self:
        """The descriptor that `to_tuple` took apart."""
        md = cls.__new__(cls)
        for name, value in zip(DESCRIPTOR_FIELDS, fields, strict=True):
            setattr(md, name, value)
        return md


DESCRIPTOR_FIELDS: tuple[str, ...] = tuple(MessageDescriptor.__dataclass_fields__)
_descriptor_fields = attrgetter(*DESCRIPTOR_FIELDS)


@dataclass(slots=True, kw_only=True)
class GetMessageOptions:
    """MQGMO: how to get a message. `wait_interval` is in milliseconds, -1 (MQWI_UNLIMITED) for ever."""

    options: int = MQGMO.NO_WAIT
    wait_interval: int = 0
    match_options: int = MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID
    msg_token: bytes = NO_TOKEN
    version: int = 4


@dataclass(slots=True, kw_only=True)
class PutMessageOptions:
    """MQPMO: how to put a message. `context` is the open queue whose saved context to pass on."""

    options: int = MQPMO.NONE
    context: Any = -1
    version: int = 3


@dataclass(slots=True, kw_only=True)
class ObjectDescriptor:
    """MQOD: which object to open. A blank queue manager name means the one connected to."""

    object_name: str = ""
    object_type: int = MQOT.Q
    object_q_mgr_name: str = ""
