"""The structures of calls as frames carry them.

MQMD, MQPMO and MQGMO travel packed, each as one byte string: the msgpack of the tuple of its fields. Programs make most
calls with the same few of them, so the queue manager takes a byte string apart and checks it once, and then knows it
again. What it makes of it is shared by all calls that name it, since the library changes no structure that a call was
given. MQOD is rarer, and travels as the tuple.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgpack

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import (
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
    ObjectRecord,
    PutMessageOptions,
    PutMessageRecord,
)
from broker.wire.unpacking import unpack_careful
from broker.wire.values import LONG_MAX, LONG_MIN, NAME_MAX, TOKEN_LENGTH, structure, text, types

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import _lru_cache_wrapper

_PACKED_BYTES_MAX: Final = 64 * 1024
_KNOWN_BYTES_MAX: Final = 1024  # of a byte string worth remembering
_KNOWN_MAX: Final = 256  # byte strings remembered, of each structure
_RECORDS_MAX: Final = 65_535
_USER_MAX: Final = 12

_pack: Final = msgpack.Packer().pack

R = TypeVar("R")


# The client's side.


class DescriptorPacker:
    """Packs descriptors. One with the fields of the one before it costs little."""

    def __init__(self) -> None:
        self._fields: tuple[Any, ...] = ()
        self._packed = b""

    def pack(self, md: MessageDescriptor | None) -> bytes | None:
        """MQMD as a frame carries it; None where the call was given none."""
        if md is None:
            return None
        fields = md.to_tuple()
        if fields == self._fields:
            return self._packed
        packed: bytes = _pack(fields)
        if _LOOK_LIKE_INTEGERS.isdisjoint(map(type, fields)):
            self._fields, self._packed = fields, packed
        return packed


_LOOK_LIKE_INTEGERS: Final = frozenset({bool, float})  # equal to an integer, but not packed as one


def packed_put_options(options: PutMessageOptions) -> bytes:
    """MQPMO as a frame carries it; what is for distribution lists comes last, where there is any."""
    fields: tuple[Any, ...] = options.options, options.context, options.version
    if options.records:
        fields = (*fields, options.record_fields, list(map(_record_values, options.records)))
    packed: bytes = _pack(fields)
    return packed


def packed_get_options(options: GetMessageOptions) -> bytes:
    """MQGMO as a frame carries it."""
    packed: bytes = _pack(
        (options.options, options.wait_interval, options.match_options, options.msg_token, options.version)
    )
    return packed


def object_fields(od: ObjectDescriptor) -> tuple[Any, ...]:
    """MQOD as a frame carries it; the records of a distribution list come last, where there are any."""
    fields = (
        od.object_name, od.object_type, od.object_q_mgr_name, od.selection_string, od.dynamic_q_name,
        od.alternate_user_id,
    )  # fmt: skip
    if not od.records:
        return fields
    return *fields, [(record.object_name, record.object_q_mgr_name) for record in od.records]


_PUT_RECORD_FIELDS: Final = tuple(PutMessageRecord.__dataclass_fields__)
_record_values: Final = attrgetter(*_PUT_RECORD_FIELDS)


# The queue manager's side.


def descriptor(packed: object) -> MessageDescriptor | None:
    """MQMD, or None. Raises MD_ERROR (2026)."""
    return None if packed is None else _known(packed, _descriptor, MQRC.MD_ERROR, "MQMD")


def put_options(packed: object) -> PutMessageOptions:
    """MQPMO. Raises PMO_ERROR (2173), RECS_PRESENT_ERROR (2154), PUT_MSG_RECORDS_ERROR (2159)."""
    return _known(packed, _put_options, MQRC.PMO_ERROR, "MQPMO")


def get_options(packed: object) -> GetMessageOptions:
    """MQGMO. Raises GMO_ERROR (2186), MSG_TOKEN_ERROR (2331)."""
    return _known(packed, _get_options, MQRC.GMO_ERROR, "MQGMO")


def object_descriptor(fields: Any) -> ObjectDescriptor:
    """MQOD. Raises OD_ERROR (2044), OBJECT_NAME_ERROR (2152) and others."""
    fields, records = _apart(fields, len(_OBJECT_TYPES))
    name, kind, q_mgr_name, selection, dynamic_q_name, user = structure(fields, _OBJECT_TYPES, MQRC.OD_ERROR, "MQOD")
    return ObjectDescriptor(
        object_name=text(name, NAME_MAX, MQRC.OBJECT_NAME_ERROR, "ObjectName"),
        object_type=kind,
        object_q_mgr_name=text(q_mgr_name, NAME_MAX, MQRC.OBJECT_Q_MGR_NAME_ERROR, "ObjectQMgrName"),
        selection_string=selection,
        dynamic_q_name=text(dynamic_q_name, NAME_MAX, MQRC.DYNAMIC_Q_NAME_ERROR, "DynamicQName"),
        alternate_user_id=text(user, _USER_MAX, MQRC.OD_ERROR, "AlternateUserId"),
        records=() if records is None else _records(records, _object_record),
    )


def _known(packed: object, remembered: _lru_cache_wrapper[R], reason: MQRC, what: str) -> R:
    """What a byte string stands for, remembered unless it is long."""
    if type(packed) is not bytes or len(packed) > _PACKED_BYTES_MAX:
        raise MQError(reason, f"{what} is not a byte string of at most {_PACKED_BYTES_MAX} bytes")
    return remembered(packed) if len(packed) <= _KNOWN_BYTES_MAX else remembered.__wrapped__(packed)


def _fields(packed: bytes, reason: MQRC, what: str) -> Any:
    try:
        return unpack_careful(packed)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise MQError(reason, f"{what}: {error}") from error


def _plain(value: object) -> type:
    """The type that a default value has once it has been through msgpack, which knows no enums."""
    return next(kind for kind in (int, str, bytes) if isinstance(value, kind))


_DESCRIPTOR_TYPES: Final = tuple(_plain(value) for value in MessageDescriptor().to_tuple())
_LONGS: Final = itemgetter(*(index for index, kind in enumerate(_DESCRIPTOR_TYPES) if kind is int))
_PUT_TYPES: Final = (int, int, int, int)  # the last only before records
_GET_TYPES: Final = (int, int, int, bytes, int)
_PUT_RECORD_TYPES: Final = tuple(_plain(value) for value in _record_values(PutMessageRecord()))
_OBJECT_TYPES: Final = (str, int, str, str, str, str)


@lru_cache(_KNOWN_MAX)
def _descriptor(packed: bytes) -> MessageDescriptor:
    """A few passes over the fields, no call for each: of messages that all have their own CorrelId none is known."""
    fields = _fields(packed, MQRC.MD_ERROR, "MQMD")
    if types(fields) != _DESCRIPTOR_TYPES:
        raise MQError(MQRC.MD_ERROR, "a field of the descriptor is missing or of the wrong type")
    longs = _LONGS(fields)
    if min(longs) < LONG_MIN or max(longs) > LONG_MAX:
        raise MQError(MQRC.MD_ERROR, "a field of the descriptor is not an integer of 32 bits")
    return MessageDescriptor.from_tuple(fields)


@lru_cache(_KNOWN_MAX)
def _put_options(packed: bytes) -> PutMessageOptions:
    fields, records = _apart(_fields(packed, MQRC.PMO_ERROR, "MQPMO"), len(_PUT_TYPES))
    if records is None:
        options, context, version = structure(fields, _PUT_TYPES[:3], MQRC.PMO_ERROR, "MQPMO")
        return PutMessageOptions(options=options, context=context, version=version)
    options, context, version, used = structure(fields, _PUT_TYPES, MQRC.PMO_ERROR, "MQPMO")
    found = _records(records, _put_record)
    return PutMessageOptions(options=options, context=context, version=version, record_fields=used, records=found)


@lru_cache(_KNOWN_MAX)
def _get_options(packed: bytes) -> GetMessageOptions:
    fields = _fields(packed, MQRC.GMO_ERROR, "MQGMO")
    options, interval, match, token, version = structure(fields, _GET_TYPES, MQRC.GMO_ERROR, "MQGMO")
    if len(token) != TOKEN_LENGTH:
        raise MQError(MQRC.MSG_TOKEN_ERROR, f"MsgToken has {len(token)} bytes: a token has {TOKEN_LENGTH}")
    return GetMessageOptions(
        options=options, wait_interval=interval, match_options=match, msg_token=token, version=version
    )


def _apart(fields: Any, length: int) -> tuple[Any, Any]:
    """The fields of a structure, and the records behind them; None where there are none."""
    if type(fields) is list and len(fields) == length + 1:
        return fields[:-1], fields[-1]
    return fields, None


def _records(records: Any, record: Callable[[Any], R]) -> tuple[R, ...]:
    if type(records) is not list or len(records) > _RECORDS_MAX:
        raise MQError(MQRC.RECS_PRESENT_ERROR, f"the records are not a list of at most {_RECORDS_MAX}")
    return tuple(map(record, records))


def _object_record(fields: Any) -> ObjectRecord:
    name, q_mgr_name = structure(fields, (str, str), MQRC.OBJECT_RECORDS_ERROR, "MQOR")
    return ObjectRecord(
        text(name, NAME_MAX, MQRC.OBJECT_NAME_ERROR, "ObjectName"),
        text(q_mgr_name, NAME_MAX, MQRC.OBJECT_Q_MGR_NAME_ERROR, "ObjectQMgrName"),
    )


def _put_record(fields: Any) -> PutMessageRecord:
    values = structure(fields, _PUT_RECORD_TYPES, MQRC.PUT_MSG_RECORDS_ERROR, "MQPMR")
    return PutMessageRecord(**dict(zip(_PUT_RECORD_FIELDS, values, strict=True)))
