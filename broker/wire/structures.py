"""The structures of calls as frames carry them.

MQMD, MQPMO and MQGMO travel packed, each as one byte string: the msgpack of the tuple of its fields. Programs make most
calls with the same few of them, so the queue manager takes a byte string apart and checks it once, and then knows it
again. What it makes of it is shared by all calls that name it, since the library changes no structure that a call was
given. MQOD is rarer, and travels as the tuple.

Here it is only seen to that a structure has all its fields. What is in them is checked where the call is made, as for a
program in the queue manager's own process (`broker.mqi.checks`). So a value that no frame can carry travels as another
that is as wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgpack

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import (
    DESCRIPTOR_FIELDS,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
    ObjectRecord,
    PutMessageOptions,
    PutMessageRecord,
)
from broker.wire.unpacking import unpack_careful

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import _lru_cache_wrapper

_PACKED_BYTES_MAX: Final = 64 * 1024
_KNOWN_BYTES_MAX: Final = 1024  # of a byte string worth remembering
_RECORDS_MAX: Final = 1000
_KNOWN_MAX: Final = 256  # byte strings remembered, of each structure

_pack: Final = msgpack.Packer().pack

R = TypeVar("R")


# The client's side.


class DescriptorPacker:
    """Packs descriptors. One with the fields of the one before it costs little."""

    def __init__(self) -> None:
        self._fields: tuple[Any, ...] = ()
        self._kinds: tuple[type, ...] = ()
        self._packed = b""

    def pack(self, md: MessageDescriptor | None) -> bytes | None:
        """MQMD as a frame carries it; None where the call was given none."""
        if md is None:
            return None
        fields = md.to_tuple()
        kinds = tuple(map(type, fields))
        if fields == self._fields and kinds == self._kinds:  # True equals 1, and is not packed as one
            return self._packed
        packed = _packed(fields)
        if bytearray not in kinds and memoryview not in kinds:  # which may change and stay equal to themselves
            self._fields, self._kinds, self._packed = fields, kinds, packed
        return packed


def packed_descriptor(md: MessageDescriptor | None) -> bytes | None:
    """MQMD as a frame carries it; None where the call was given none."""
    return None if md is None else _packed(md.to_tuple())


def packed_put_options(options: PutMessageOptions) -> bytes:
    """MQPMO as a frame carries it; what is for distribution lists comes last, where there is any."""
    fields: tuple[Any, ...] = _put_values(options)
    if options.records:
        fields = (*fields, options.record_fields, _each(options.records, PutMessageRecord, _record_values))
    return _packed(fields)


def packed_get_options(options: GetMessageOptions) -> bytes:
    """MQGMO as a frame carries it."""
    return _packed(_get_values(options))


def object_fields(od: ObjectDescriptor) -> tuple[Any, ...]:
    """MQOD as a frame carries it; the records of a distribution list come last, where there are any."""
    fields: tuple[Any, ...] = _object_values(od)
    if od.records:
        fields = (*fields, _each(od.records, ObjectRecord, _object_record_values))
    return fields


def sendable(value: object) -> object:
    """An argument as a frame carries it: itself, unless no frame can carry it."""
    try:
        _pack(value)
    except (TypeError, ValueError, OverflowError):
        if isinstance(value, list | tuple):
            return list(map(sendable, value))
        return [f"<{type(value).__qualname__}>"]  # no argument may be a list of texts
    return value


def _packed(fields: tuple[Any, ...]) -> bytes:
    try:
        packed: bytes = _pack(fields)
    except (TypeError, ValueError, OverflowError):
        packed = _pack(sendable(fields))
    return packed


def _each(records: object, kind: type, values: Callable[[Any], tuple[Any, ...]]) -> object:
    """The records of a distribution list, each as its fields. What is no such list, or more than a frame takes, goes as
    something that is none.
    """
    if not isinstance(records, Sequence) or len(records) > _RECORDS_MAX:
        return False
    return [values(record) if isinstance(record, kind) else sendable(record) for record in records]


_PUT_FIELDS: Final = ("options", "context", "version")
_GET_FIELDS: Final = ("options", "wait_interval", "match_options", "msg_token", "version")
_OBJECT_FIELDS: Final = (
    "object_name", "object_type", "object_q_mgr_name", "selection_string", "dynamic_q_name", "alternate_user_id",
)  # fmt: skip
_PUT_RECORD_FIELDS: Final = tuple(PutMessageRecord.__dataclass_fields__)
_OBJECT_RECORD_FIELDS: Final = tuple(ObjectRecord.__dataclass_fields__)

_put_values: Final = attrgetter(*_PUT_FIELDS)
_get_values: Final = attrgetter(*_GET_FIELDS)
_object_values: Final = attrgetter(*_OBJECT_FIELDS)
_record_values: Final = attrgetter(*_PUT_RECORD_FIELDS)
_object_record_values: Final = attrgetter(*_OBJECT_RECORD_FIELDS)


# The queue manager's side.


def descriptor(packed: object) -> MessageDescriptor | None:
    """MQMD, or None. Raises MD_ERROR (2026)."""
    if packed is None:
        return None
    if type(packed) is bytes and len(packed) <= _KNOWN_BYTES_MAX:
        return _descriptor(packed)
    return _unknown(packed, _descriptor, MQRC.MD_ERROR, "MQMD")


def put_options(packed: object) -> PutMessageOptions:
    """MQPMO. Raises PMO_ERROR (2173), RECS_PRESENT_ERROR (2154)."""
    if type(packed) is bytes and len(packed) <= _KNOWN_BYTES_MAX:
        return _put_options(packed)
    return _unknown(packed, _put_options, MQRC.PMO_ERROR, "MQPMO")


def get_options(packed: object) -> GetMessageOptions:
    """MQGMO. Raises GMO_ERROR (2186)."""
    if type(packed) is bytes and len(packed) <= _KNOWN_BYTES_MAX:
        return _get_options(packed)
    return _unknown(packed, _get_options, MQRC.GMO_ERROR, "MQGMO")


def object_descriptor(fields: Any) -> ObjectDescriptor:
    """MQOD. Raises OD_ERROR (2044), RECS_PRESENT_ERROR (2154)."""
    fields, records = _apart(fields, len(_OBJECT_FIELDS))
    od = ObjectDescriptor(**_named(_OBJECT_FIELDS, fields, MQRC.OD_ERROR, "MQOD"))
    if records is not None:
        od.records = _records(records, ObjectRecord, _OBJECT_RECORD_FIELDS)
    return od


def _unknown(packed: object, remembered: _lru_cache_wrapper[R], reason: MQRC, what: str) -> R:
    """Return the structure of a byte string that is too long to be remembered."""
    if type(packed) is not bytes or len(packed) > _PACKED_BYTES_MAX:
        raise MQError(reason, f"{what} is not a byte string of at most {_PACKED_BYTES_MAX} bytes")
    return remembered.__wrapped__(packed)


@lru_cache(_KNOWN_MAX)
def _descriptor(packed: bytes) -> MessageDescriptor:
    fields = _unpacked(packed, MQRC.MD_ERROR, "MQMD")
    if type(fields) is not list or len(fields) != len(DESCRIPTOR_FIELDS):
        raise _incomplete(MQRC.MD_ERROR, "MQMD")
    return MessageDescriptor.from_tuple(fields)


@lru_cache(_KNOWN_MAX)
def _put_options(packed: bytes) -> PutMessageOptions:
    fields, records = _apart(_unpacked(packed, MQRC.PMO_ERROR, "MQPMO"), len(_PUT_FIELDS) + 1)
    if records is None:
        return PutMessageOptions(**_named(_PUT_FIELDS, fields, MQRC.PMO_ERROR, "MQPMO"))
    options = PutMessageOptions(**_named((*_PUT_FIELDS, "record_fields"), fields, MQRC.PMO_ERROR, "MQPMO"))
    options.records = _records(records, PutMessageRecord, _PUT_RECORD_FIELDS)
    return options


@lru_cache(_KNOWN_MAX)
def _get_options(packed: bytes) -> GetMessageOptions:
    return GetMessageOptions(**_named(_GET_FIELDS, _unpacked(packed, MQRC.GMO_ERROR, "MQGMO"), MQRC.GMO_ERROR, "MQGMO"))


def _unpacked(packed: bytes, reason: MQRC, what: str) -> Any:
    try:
        return unpack_careful(packed)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise MQError(reason, f"{what}: {error}") from error


def _apart(fields: Any, length: int) -> tuple[Any, Any]:
    """The fields of a structure, and the records behind them; None where there are none."""
    if type(fields) is list and len(fields) == length + 1:
        return fields[:-1], fields[-1]
    return fields, None


def _named(names: tuple[str, ...], fields: Any, reason: MQRC, what: str) -> dict[str, Any]:
    """The fields of a structure by their names."""
    if type(fields) is not list or len(fields) != len(names):
        raise _incomplete(reason, what)
    return dict(zip(names, fields, strict=True))


def _incomplete(reason: MQRC, what: str) -> MQError:
    return MQError(reason, f"{what}: it has not the fields that it should have")


def _records(records: Any, kind: Callable[..., Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    """The records of a distribution list; one that is nothing of the kind stays what it is."""
    if type(records) is not list:
        raise MQError(MQRC.RECS_PRESENT_ERROR, f"the records are no list of at most {_RECORDS_MAX}")
    return tuple(
        kind(**dict(zip(names, each, strict=True))) if type(each) is list and len(each) == len(names) else each
        for each in records
    )
