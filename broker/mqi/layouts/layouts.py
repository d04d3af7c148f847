"""Structures that stand in the data of messages, as values with a form in bytes.

MQTM is the trigger message that waits on an initiation queue, MQTMC2 the form of it that a program is given; MQDLH is
the header that says why a message is on the dead-letter queue, MQXQH the one that says where a message on a
transmission queue is to go. Characters are `str` without padding; those beyond the size of their field are cut off on
the way to bytes.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Final, Self

from broker.mqi.layouts.fields import LONG, Fields
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from broker.mqi.layouts.fields import ByteOrder

_TRIGGER_FIELDS: Final = {
    "q_name": 48,
    "process_name": 48,
    "trigger_data": 64,
    "appl_type": LONG,
    "appl_id": 256,
    "env_data": 128,
    "user_data": 128,
}
_TRIGGER_CHARACTERS: Final = _TRIGGER_FIELDS | {"appl_type": 4}
_BLANK_APPL_TYPE: Final = ""

_MQTM: Final = Fields("MQTM", "TM", 1, **_TRIGGER_FIELDS)
_MQTMC: Final = Fields("MQTMC", "TMC", "   1", **_TRIGGER_CHARACTERS)
_MQTMC2: Final = Fields("MQTMC2", "TMC", "   2", **_TRIGGER_CHARACTERS, q_mgr_name=48)


@dataclass(frozen=True, slots=True)
class MQTM:
    """The trigger message on an initiation queue: it names the queue, and the process definition that serves it.

    `appl_type` is an `MQAT`, UNKNOWN where no process is named.
    """

    SIZE: ClassVar[int] = _MQTM.size

    q_name: str
    process_name: str = ""
    trigger_data: str = ""
    appl_type: int = 0
    appl_id: str = ""
    env_data: str = ""
    user_data: str = ""

    def to_bytes(self, byteorder: ByteOrder = "little") -> bytes:
        """The 684 bytes of the message, characters beyond a field's size cut off."""
        return _MQTM.pack(astuple(self), byteorder)

    @classmethod
    def from_bytes(cls, data: bytes, byteorder: ByteOrder = "little") -> Self:
        """The trigger message that is the whole of `data`; `ValueError` where it is anything else."""
        _check_size(data, _MQTM)
        return cls(*_MQTM.unpack(data, byteorder))

    def to_tmc2(self, q_mgr_name: str) -> MQTMC2:
        """The form for a program, with the queue manager that owns the queue; the application type is lost."""
        return MQTMC2(
            q_name=self.q_name,
            process_name=self.process_name,
            trigger_data=self.trigger_data,
            appl_id=self.appl_id,
            env_data=self.env_data,
            user_data=self.user_data,
            q_mgr_name=q_mgr_name,
        )


@dataclass(frozen=True, slots=True)
class MQTMC2:
    """The trigger message for a program that is started: characters only, so that it can be an argument of a
    command.

    Its ApplType is always blank and therefore no field here. `bytes(message)` is the structure.
    """

    SIZE: ClassVar[int] = _MQTMC2.size

    q_name: str
    process_name: str = ""
    trigger_data: str = ""
    appl_id: str = ""
    env_data: str = ""
    user_data: str = ""
    q_mgr_name: str = ""

    def __bytes__(self) -> bytes:
        q_name, process_name, trigger_data, *others = astuple(self)
        return _MQTMC2.pack((q_name, process_name, trigger_data, _BLANK_APPL_TYPE, *others))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The structure that is the whole of `data`; `ValueError` where it is anything else.

        Version 1, which ends before the name of the queue manager, is accepted; it is never written.
        """
        fields = _MQTMC if data[4:8] == b"   1" else _MQTMC2
        _check_size(data, fields)
        q_name, process_name, trigger_data, _appl_type, *others = fields.unpack(data)
        return cls(q_name, process_name, trigger_data, *others)


def _check_size(data: bytes, fields: Fields) -> None:
    """A trigger message has no data after it: a longer one is something else."""
    if len(data) != fields.size:
        raise ValueError(f"{fields.name} has {fields.size} bytes, not {len(data)}")


_MQDLH: Final = Fields(
    "MQDLH",
    "DLH",
    1,
    reason=LONG,
    dest_q_name=48,
    dest_q_mgr_name=48,
    encoding=LONG,
    coded_char_set_id=LONG,
    format=8,
    put_appl_type=LONG,
    put_appl_name=28,
    put_date=8,
    put_time=8,
)


@dataclass(frozen=True, slots=True)
class MQDLH:
    """The header that stands before the data of a message on the dead-letter queue.

    `reason` is an `MQRC` or an `MQFB`. `encoding`, `coded_char_set_id` and `format` are those of the data after the
    header: what the message's own descriptor said before. `put_date` is `YYYYMMDD` and `put_time` `HHMMSSTH`, both GMT,
    of the put to the dead-letter queue.
    """

    SIZE: ClassVar[int] = _MQDLH.size

    reason: int
    dest_q_name: str = ""
    dest_q_mgr_name: str = ""
    encoding: int = 0
    coded_char_set_id: int = 0
    format: str = ""
    put_appl_type: int = 0
    put_appl_name: str = ""
    put_date: str = ""
    put_time: str = ""

    def to_bytes(self, byteorder: ByteOrder = "little") -> bytes:
        """The 172 bytes of the header, characters beyond a field's size cut off."""
        return _MQDLH.pack(astuple(self), byteorder)

    @classmethod
    def from_bytes(cls, data: bytes, byteorder: ByteOrder = "little") -> Self:
        """The header at the head of `data`, with the message after it; `ValueError` where there is none."""
        return cls(*_MQDLH.unpack(data, byteorder))


_BYTES_24: Final = -24
_BYTES_32: Final = -32
_DESCRIPTOR_FIELDS: Final = {
    "report": LONG,
    "msg_type": LONG,
    "expiry": LONG,
    "feedback": LONG,
    "encoding": LONG,
    "coded_char_set_id": LONG,
    "format": 8,
    "priority": LONG,
    "persistence": LONG,
    "msg_id": _BYTES_24,
    "correl_id": _BYTES_24,
    "backout_count": LONG,
    "reply_to_q": 48,
    "reply_to_q_mgr": 48,
    "user_identifier": 12,
    "accounting_token": _BYTES_32,
    "appl_identity_data": 32,
    "put_appl_type": LONG,
    "put_appl_name": 28,
    "put_date": 8,
    "put_time": 8,
    "appl_origin_data": 4,
}
_MQMD1: Final = Fields("MQMD", "MD", 1, **_DESCRIPTOR_FIELDS)
_MQXQH: Final = Fields("MQXQH", "XQH", 1, remote_q_name=48, remote_q_mgr_name=48)
_md_values = attrgetter(*_DESCRIPTOR_FIELDS)


@dataclass(frozen=True, slots=True)
class MQXQH:
    """The header that stands before the data of a message on a transmission queue: where it is to go, and the
    descriptor with which it will arrive there. That is of version 1; group and segment fields stand behind the header
    in an MQMDE.
    """

    SIZE: ClassVar[int] = _MQXQH.size + _MQMD1.size

    remote_q_name: str
    remote_q_mgr_name: str
    md: MessageDescriptor

    def to_bytes(self, byteorder: ByteOrder = "little") -> bytes:
        """The 428 bytes of the header, characters beyond a field's size cut off."""
        names = _MQXQH.pack((self.remote_q_name, self.remote_q_mgr_name), byteorder)
        return names + _MQMD1.pack(_md_values(self.md), byteorder)

    @classmethod
    def from_bytes(cls, data: bytes, byteorder: ByteOrder = "little") -> Self:
        """The header at the head of `data`, with the message after it; `ValueError` where there is none."""
        q_name, q_mgr_name = _MQXQH.unpack(data, byteorder)
        values = _MQMD1.unpack(data[_MQXQH.size :], byteorder)
        return cls(
            q_name, q_mgr_name, MessageDescriptor(**dict(zip(_DESCRIPTOR_FIELDS, values, strict=True)), version=1)
        )
