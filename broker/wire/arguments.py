"""The arguments of calls as fields of frames.

The client's side is small: a structure becomes the tuple of its fields. The queue manager's side, `start`, takes a
frame apart, checks everything in it and makes the call on a port. A frame of the wrong shape is a WireError, which ends
the line; a value that a program could have got wrong is an MQError, which answers the call. So the engine sees only the
types that the programs in its own process would give it, and integers of 32 bits. Whether the texts of a descriptor fit
their fields it sees to itself, for those programs too.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

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
from broker.wire.frames import CALL_MAX, Frame, Verb, WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.interface.port import Call, Port

_LONG_MIN: Final = -(2**31)
_LONG_MAX: Final = 2**32 - 1  # flags may use the highest bit of their field
_NAME_MAX: Final = 48
_USER_MAX: Final = 12
_LABEL_MAX: Final = 256
_ID_LENGTH: Final = 24
_LEASES_MAX: Final = 10_000
_RECORDS_MAX: Final = 65_535

R = TypeVar("R")


# The client's side.


def descriptor_fields(md: MessageDescriptor | None) -> tuple[Any, ...] | None:
    """MQMD as a frame carries it; None where the call was given none."""
    return None if md is None else md.to_tuple()


def object_fields(od: ObjectDescriptor) -> tuple[Any, ...]:
    """MQOD as a frame carries it; the records of a distribution list come last, where there are any."""
    fields = (
        od.object_name, od.object_type, od.object_q_mgr_name, od.selection_string, od.dynamic_q_name,
        od.alternate_user_id,
    )  # fmt: skip
    if not od.records:
        return fields
    return *fields, [(record.object_name, record.object_q_mgr_name) for record in od.records]


def put_fields(options: PutMessageOptions) -> tuple[Any, ...]:
    """MQPMO as a frame carries it; what is for distribution lists comes last, where there is any."""
    fields = options.options, options.context, options.version
    return (*fields, options.record_fields, list(map(_record_values, options.records))) if options.records else fields


def get_fields(options: GetMessageOptions) -> tuple[Any, ...]:
    """MQGMO as a frame carries it."""
    return options.options, options.wait_interval, options.match_options, options.msg_token, options.version


_PUT_RECORD_FIELDS: Final = tuple(PutMessageRecord.__dataclass_fields__)
_record_values: Final = attrgetter(*_PUT_RECORD_FIELDS)


# The queue manager's side: values and structures.


def _long(value: object, reason: MQRC, what: str) -> int:
    if type(value) is not int or not _LONG_MIN <= value <= _LONG_MAX:
        raise MQError(reason, f"{what} is not an integer of 32 bits")
    return value


def _text(value: object, longest: int, reason: MQRC, what: str) -> str:
    if type(value) is not str or len(value) > longest:
        raise MQError(reason, f"{what} is not a text of at most {longest} characters")
    return value


def _identifier(value: object, reason: MQRC, what: str) -> bytes | None:
    if value is None:
        return None
    if type(value) is not bytes or len(value) != _ID_LENGTH:
        raise MQError(reason, f"{what} is not {_ID_LENGTH} bytes")
    return value


def _data(value: object) -> bytes:
    if type(value) is not bytes:
        raise MQError(MQRC.BUFFER_ERROR, "the data of the message is not bytes")
    return value


def _types(fields: object) -> tuple[type, ...] | None:
    return tuple(map(type, fields)) if type(fields) is list else None


def _structure(fields: Any, types: tuple[type, ...], reason: MQRC, what: str) -> list[Any]:
    """The fields of a structure, of the right types, its integers of 32 bits."""
    if _types(fields) != types:
        raise MQError(reason, f"{what}: a field is missing or of the wrong type")
    checked: list[Any] = fields
    for value in checked:
        if type(value) is int:
            _long(value, reason, f"{what}: a field")
    return checked


def _plain(value: object) -> type:
    """The type that a default value has once it has been through msgpack, which knows no enums."""
    return next(kind for kind in (int, str, bytes) if isinstance(value, kind))


_DESCRIPTOR_TYPES: Final = tuple(_plain(value) for value in MessageDescriptor().to_tuple())
_LONGS: Final = itemgetter(*(index for index, kind in enumerate(_DESCRIPTOR_TYPES) if kind is int))


def _descriptor(fields: Any) -> MessageDescriptor | None:
    """MQMD. On the way of every put that names one: so a few passes over the fields, and no call a field."""
    if fields is None:
        return None
    if _types(fields) != _DESCRIPTOR_TYPES:
        raise MQError(MQRC.MD_ERROR, "a field of the descriptor is missing or of the wrong type")
    longs = _LONGS(fields)
    if min(longs) < _LONG_MIN or max(longs) > _LONG_MAX:
        raise MQError(MQRC.MD_ERROR, "a field of the descriptor is not an integer of 32 bits")
    return MessageDescriptor.from_tuple(fields)


_PUT_RECORD_TYPES: Final = tuple(_plain(value) for value in _record_values(PutMessageRecord()))
_OBJECT_TYPES: Final = (str, int, str, str, str, str)


def _object(fields: Any) -> ObjectDescriptor:
    fields, records = _apart(fields, len(_OBJECT_TYPES))
    name, kind, q_mgr_name, selection, dynamic_q_name, user = _structure(fields, _OBJECT_TYPES, MQRC.OD_ERROR, "MQOD")
    return ObjectDescriptor(
        object_name=_text(name, _NAME_MAX, MQRC.OBJECT_NAME_ERROR, "ObjectName"),
        object_type=kind,
        object_q_mgr_name=_text(q_mgr_name, _NAME_MAX, MQRC.OBJECT_Q_MGR_NAME_ERROR, "ObjectQMgrName"),
        selection_string=selection,
        dynamic_q_name=_text(dynamic_q_name, _NAME_MAX, MQRC.DYNAMIC_Q_NAME_ERROR, "DynamicQName"),
        alternate_user_id=_text(user, _USER_MAX, MQRC.OD_ERROR, "AlternateUserId"),
        records=() if records is None else _records(records, _object_record),
    )


def _object_record(fields: Any) -> ObjectRecord:
    name, q_mgr_name = _structure(fields, (str, str), MQRC.OBJECT_RECORDS_ERROR, "MQOR")
    return ObjectRecord(
        _text(name, _NAME_MAX, MQRC.OBJECT_NAME_ERROR, "ObjectName"),
        _text(q_mgr_name, _NAME_MAX, MQRC.OBJECT_Q_MGR_NAME_ERROR, "ObjectQMgrName"),
    )


def _put_options(fields: Any) -> PutMessageOptions:
    fields, records = _apart(fields, len(_PUT_TYPES))
    if records is not None:
        return _put_options_of_list(fields, records)
    options, context, version = _structure(fields, _PUT_TYPES[:3], MQRC.PMO_ERROR, "MQPMO")
    return PutMessageOptions(options=options, context=context, version=version)


def _put_options_of_list(fields: Any, records: Any) -> PutMessageOptions:
    options, context, version, used = _structure(fields, _PUT_TYPES, MQRC.PMO_ERROR, "MQPMO")
    found = _records(records, _put_record)
    return PutMessageOptions(options=options, context=context, version=version, record_fields=used, records=found)


_PUT_TYPES: Final = (int, int, int, int)  # the last only before records


def _put_record(fields: Any) -> PutMessageRecord:
    values = _structure(fields, _PUT_RECORD_TYPES, MQRC.PUT_MSG_RECORDS_ERROR, "MQPMR")
    return PutMessageRecord(**dict(zip(_PUT_RECORD_FIELDS, values, strict=True)))


def _apart(fields: Any, length: int) -> tuple[Any, Any]:
    """The fields of a structure, and the records behind them; None where there are none."""
    if type(fields) is list and len(fields) == length + 1:
        return fields[:-1], fields[-1]
    return fields, None


def _records(records: Any, record: Callable[[Any], R]) -> tuple[R, ...]:
    if type(records) is not list or len(records) > _RECORDS_MAX:
        raise MQError(MQRC.RECS_PRESENT_ERROR, f"the records are not a list of at most {_RECORDS_MAX}")
    return tuple(map(record, records))


def _get_options(fields: Any) -> GetMessageOptions:
    options, interval, match, token, version = _structure(fields, (int, int, int, bytes, int), MQRC.GMO_ERROR, "MQGMO")
    if len(token) != 16:
        raise MQError(MQRC.MSG_TOKEN_ERROR, f"MsgToken has {len(token)} bytes: a token has 16")
    return GetMessageOptions(
        options=options, wait_interval=interval, match_options=match, msg_token=token, version=version
    )


def _handle(value: object) -> int:
    return _long(value, MQRC.HOBJ_ERROR, "the handle")


def _options(value: object) -> int:
    return _long(value, MQRC.OPTIONS_ERROR, "the options value")


# The queue manager's side: calls.


def _open(port: Port, od: Any, options: Any) -> Call[Any]:
    return port.open(_object(od), _options(options))


def _close(port: Port, hobj: Any, options: Any) -> Call[Any]:
    return port.close(_handle(hobj), _options(options))


def _put(port: Port, hobj: Any, md: Any, options: Any, data: Any) -> Call[Any]:
    return port.put(_handle(hobj), _descriptor(md), _put_options(options), _data(data))


def _put1(port: Port, od: Any, md: Any, options: Any, data: Any) -> Call[Any]:
    return port.put1(_object(od), _descriptor(md), _put_options(options), _data(data))


def _get(port: Port, hobj: Any, md: Any, options: Any, max_length: Any) -> Call[Any]:
    if max_length is not None:
        _long(max_length, MQRC.BUFFER_LENGTH_ERROR, "max_length")
    return port.get(_handle(hobj), _descriptor(md), _get_options(options), max_length)


def _inquire(port: Port, hobj: Any, selectors: Any) -> Call[Any]:
    if type(selectors) is not list:
        raise MQError(MQRC.SELECTOR_ERROR, "the selectors are not a list")
    return port.inquire(_handle(hobj), [_long(each, MQRC.SELECTOR_ERROR, "a selector") for each in selectors])


def _set(port: Port, hobj: Any, values: Any) -> Call[Any]:
    if type(values) is not list or any(_types(pair) not in _PAIRS for pair in values):
        raise MQError(MQRC.SELECTOR_ERROR, "the values are not pairs of a selector and an integer or a text")
    for selector, value in values:
        _long(selector, MQRC.SELECTOR_ERROR, "a selector")
        if type(value) is int:
            _long(value, MQRC.INT_ATTRS_ARRAY_ERROR, "the value of an attribute")
    return port.set(_handle(hobj), dict(values))


_PAIRS: Final = ((int, int), (int, str))


def _mqsc(port: Port, text: Any) -> Call[Any]:
    if type(text) is not str:
        raise WireError("the text of MQSC is not a text")
    return port.mqsc(text)


def _explain(port: Port, q_name: Any, msg_id: Any, correl_id: Any, group_id: Any) -> Call[Any]:
    return port.explain(
        _text(q_name, _NAME_MAX, MQRC.OBJECT_NAME_ERROR, "the name"),
        _identifier(msg_id, MQRC.MSG_ID_ERROR, "MsgId"),
        _identifier(correl_id, MQRC.CORREL_ID_ERROR, "CorrelId"),
        _identifier(group_id, MQRC.GROUP_ID_ERROR, "GroupId"),
    )


def _trigger_wait(port: Port, posts: Any) -> Call[Any]:
    if type(posts) is not int:
        raise WireError("the number of posts is not an integer")
    return port.trigger_wait(posts)


def _trigger_take(port: Port, q_name: Any, limit: Any) -> Call[Any]:
    wanted = _long(limit, MQRC.OPTIONS_ERROR, "the limit")
    return port.trigger_take(_text(q_name, _NAME_MAX, MQRC.OBJECT_NAME_ERROR, "the name"), min(wanted, _LEASES_MAX))


def _disconnect(port: Port, commit: Any) -> Call[Any]:
    if type(commit) is not bool:
        raise WireError("DISCONNECT says neither to commit nor not to")
    return port.disconnect(commit=commit)


_Maker: TypeAlias = "Callable[..., Call[Any]]"

_MAKERS: Final[dict[int, tuple[int, _Maker]]] = {  # by verb: how many items its frame has, and what makes the call
    Verb.DISCONNECT: (4, _disconnect),
    Verb.OPEN: (5, _open),
    Verb.CLOSE: (5, _close),
    Verb.PUT: (7, _put),
    Verb.PUT1: (7, _put1),
    Verb.GET: (7, _get),
    Verb.BEGIN: (3, lambda port: port.begin()),
    Verb.COMMIT: (3, lambda port: port.commit()),
    Verb.BACKOUT: (3, lambda port: port.backout()),
    Verb.INQUIRE: (5, _inquire),
    Verb.SET: (5, _set),
    Verb.MQSC: (4, _mqsc),
    Verb.STATUS: (3, lambda port: port.status()),
    Verb.TRIGGER_PENDING: (3, lambda port: port.trigger_pending()),
    Verb.TRIGGER_WAIT: (4, _trigger_wait),
    Verb.TRIGGER_TAKE: (5, _trigger_take),
    Verb.EXPLAIN: (7, _explain),
}

STARTED: Final = frozenset(verb for verb in _MAKERS)
"""The verbs that `start` makes a call of."""


def start(port: Port, frame: Frame) -> Call[Any]:
    """Make the call that a frame asks for. Raises WireError, or MQError for what is wrong with an argument."""
    length, make = _MAKERS[frame[0]]
    if len(frame) != length:
        raise WireError(f"{Verb(frame[0]).name} has {len(frame)} items, not {length}")
    return make(port, *frame[3:])


def connect_arguments(frame: Frame) -> tuple[str, str, str]:
    """The queue manager's name, the application's and the user's of a CONNECT. Raises WireError or MQError."""
    if len(frame) != 6:
        raise WireError(f"CONNECT has {len(frame)} items, not 6")
    return (
        _text(frame[3], _NAME_MAX, MQRC.Q_MGR_NAME_ERROR, "the name of the queue manager"),
        _text(frame[4], _LABEL_MAX, MQRC.OPTIONS_ERROR, "the name of the application"),
        _text(frame[5], _LABEL_MAX, MQRC.OPTIONS_ERROR, "the name of the user"),
    )


def numbers(frame: Frame) -> list[int]:
    """The numbers of calls or leases in a TAKEN, TRIGGER_DONE or TRIGGER_RETURN. Raises WireError."""
    if len(frame) != 4 or type(frame[3]) is not list:
        raise WireError(f"{Verb(frame[0]).name} has no list of numbers")
    found: list[int] = frame[3]
    if any(type(number) is not int or not 0 <= number <= CALL_MAX for number in found):
        raise WireError(f"{Verb(frame[0]).name} has something else among its numbers")
    return found
