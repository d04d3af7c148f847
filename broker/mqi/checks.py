"""Check the arguments of calls: the one place for all of them, whichever way a call has come.

A value that its field cannot hold (the wrong type, more than 32 bits, an identifier of another length) is the error of
its structure: MD_ERROR (2026), PMO_ERROR (2173), GMO_ERROR (2186), OD_ERROR (2044). What a field can hold and must not
mean is found where it is used, and has a reason of its own.

Characters come out without the blanks and NULs that pad them, and whatever holds bytes as `bytes`. A structure in which
that changes nothing comes out as it is; of another a copy does, since the caller's is never changed. Programs use few
combinations of values, so what is right is remembered, all but identifiers.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from broker.mqi.constants.options import MQGMO, MQMO
from broker.mqi.errors import MQError
from broker.mqi.names import NAME_LENGTH
from broker.mqi.reasons import MQRC
from broker.mqi.structures import (
    DESCRIPTOR_FIELDS,
    DESCRIPTOR_SIZES,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
    ObjectRecord,
    PutMessageOptions,
    PutMessageRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Kind: TypeAlias = Callable[[Any], Any]
    Changes: TypeAlias = tuple[tuple[str, Any], ...]
    Rules: TypeAlias = Callable[..., tuple[Changes, int]]

PADDING: Final = " \0"
"""The characters that are not part of a text at its end."""

TOKEN_LENGTH: Final = 16
ID_LENGTH: Final = 24
_USER_LENGTH: Final = 12
_SELECTION_LENGTH: Final = 10_240
_RECORDS_MAX: Final = 65_535

_LONG_MIN: Final = -(2**31)
_LONG_MAX: Final = 2**32 - 1

_REMEMBERED: Final = 1024

_CONVERT: Final = MQGMO.CONVERT.value
_PLACE: Final = (MQMO.MATCH_MSG_SEQ_NUMBER | MQMO.MATCH_OFFSET).value


# What a field may hold. Each raises ValueError, which says what it may.


_PATH_MAX: Final = 4096


class _TooLongError(ValueError):
    """A text of the right type that does not fit its field."""


def _long(value: Any) -> Any:
    """MQLONG. Its highest bit may be a flag: numbers are taken with a sign and without."""
    if not isinstance(value, int) or isinstance(value, bool) or not _LONG_MIN <= value <= _LONG_MAX:
        raise ValueError("an integer of 32 bits")
    return value


def _text(longest: int) -> Kind:
    """MQCHARn."""

    def text(value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError("a text (str)")
        if len(value) > longest:
            raise _TooLongError(f"at most {longest} characters")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError("a text that can be encoded as UTF-8") from None
        return value.rstrip(PADDING) if value.endswith(tuple(PADDING)) else value

    return text


def _path(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise ValueError("the absolute path of a directory (str)")
    if len(value) > _PATH_MAX:
        raise ValueError(f"at most {_PATH_MAX} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("a text that can be encoded as UTF-8") from None
    return value


def _bytes(shortest: int, longest: int) -> Kind:
    """MQBYTEn."""
    sizes = f"{longest}" if shortest == longest else f"at most {longest}"

    def data(value: Any) -> Any:
        if not isinstance(value, bytes | bytearray | memoryview) or not shortest <= len(value) <= longest:
            raise ValueError(f"{sizes} bytes")
        return value if type(value) is bytes else bytes(value)

    return data


_identifier: Final = _bytes(ID_LENGTH, ID_LENGTH)
_accounting_token: Final = _bytes(0, DESCRIPTOR_SIZES["accounting_token"])


def _descriptor_kind(name: str) -> Kind:
    default = getattr(MessageDescriptor(), name)
    if isinstance(default, str):
        return _text(DESCRIPTOR_SIZES[name])
    return _accounting_token if isinstance(default, bytes) else _long


_IDENTIFIERS: Final = dict.fromkeys(("msg_id", "correl_id", "group_id"), _identifier)
_WANTED_FIELDS: Final = ("encoding", "coded_char_set_id", "msg_seq_number", "offset", "version")
_OTHERS: Final = {name: _descriptor_kind(name) for name in DESCRIPTOR_FIELDS if name not in _IDENTIFIERS}
_WANTED: Final = {name: _OTHERS[name] for name in _WANTED_FIELDS}
_PUT: Final = {"options": _long, "version": _long, "context": _long}
_GET: Final = {"options": _long, "wait_interval": _long, "match_options": _long, "version": _long}
_OBJECT: Final = {
    "object_name": _text(NAME_LENGTH),
    "object_type": _long,
    "object_q_mgr_name": _text(NAME_LENGTH),
    "dynamic_q_name": _text(NAME_LENGTH),
    "alternate_user_id": _text(_USER_LENGTH),
    "selection_string": _text(_SELECTION_LENGTH),
}
_RECORD: Final = {
    "msg_id": _identifier,
    "correl_id": _identifier,
    "group_id": _identifier,
    "feedback": _long,
    "accounting_token": _bytes(DESCRIPTOR_SIZES["accounting_token"], DESCRIPTOR_SIZES["accounting_token"]),
}
_OBJECT_RECORD: Final = dict.fromkeys(("object_name", "object_q_mgr_name"), _text(sys.maxsize))  # one may be no name

_OTHER_REASONS: Final = {
    "wait_interval": MQRC.WAIT_INTERVAL_ERROR,
    "context": MQRC.CONTEXT_HANDLE_ERROR,
}
"""Of fields that have a reason of their own for a value that they cannot hold."""

_TOO_LONG_REASONS: Final = {
    "object_name": MQRC.UNKNOWN_OBJECT_NAME,
    "object_q_mgr_name": MQRC.UNKNOWN_OBJECT_Q_MGR,
    "dynamic_q_name": MQRC.DYNAMIC_Q_NAME_ERROR,
    "selection_string": MQRC.SELECTION_STRING_ERROR,
}
"""A name that is too long is no name of anything."""


# Structures.


def descriptor(md: MessageDescriptor) -> MessageDescriptor:
    """MQMD. Raises MD_ERROR (2026)."""
    md = _identified(md)
    changes: Changes = _remembered(_descriptor, _other_values(md))
    return _with(md, changes) if changes else md


def descriptor_for_put(md: MessageDescriptor, rules: Rules, *, remote: bool) -> tuple[MessageDescriptor, int]:
    """MQMD, and the reason of a warning that `rules` finds for it: `remembered_rules` of what a put insists on. Raises
    MD_ERROR (2026) and what they raise.
    """
    md = _identified(md)
    changes, warning = _remembered(rules, (remote, *_other_values(md)))
    return _with(md, changes) if changes else md, warning


def remembered_rules(rules: Callable[..., int]) -> Rules:
    """Return a check of all fields of a put's descriptor but identifiers; it remembers its recent answers."""

    @lru_cache(_REMEMBERED, typed=True)
    def found(remote: bool, *values: Any) -> tuple[Changes, int]:  # it is part of the key
        changes = _descriptor.__wrapped__(*values)
        md = _with(MessageDescriptor(), zip(_OTHERS, values, strict=True))
        return changes, rules(_with(md, changes), remote=remote)

    return found


def for_get(md: MessageDescriptor | None, gmo: GetMessageOptions) -> tuple[MessageDescriptor | None, GetMessageOptions]:
    """MQGMO, and what a get with these options reads of MQMD: identifiers and version, the place in a group where it
    matches one, and with CONVERT what to convert to. Raises what `get_options` does, and MD_ERROR (2026).
    """
    gmo = get_options(gmo)
    if md is not None:
        md = _identified(md)
        _check("version", md.version, _long, MQRC.MD_ERROR)
        if int(gmo.options) & _CONVERT or int(gmo.match_options) & _PLACE:
            _remembered(_wanted, _wanted_values(md))
    return md, gmo


def _identified(md: MessageDescriptor) -> MessageDescriptor:
    """The descriptor, its identifiers checked."""
    msg_id, correl_id, group_id = md.msg_id, md.correl_id, md.group_id
    if type(msg_id) is type(correl_id) is type(group_id) is bytes and (
        len(msg_id) == len(correl_id) == len(group_id) == ID_LENGTH
    ):
        return md
    return _with(md, _changes(_IDENTIFIERS, (msg_id, correl_id, group_id), MQRC.MD_ERROR))


def put_options(pmo: PutMessageOptions) -> PutMessageOptions:
    """MQPMO, but for its records. Raises PMO_ERROR (2173), CONTEXT_HANDLE_ERROR (2097), RECS_PRESENT_ERROR (2154)."""
    _remembered(_put_options, _put_values(pmo))
    if pmo.records:
        _check_count(pmo.records)
        _check("record_fields", pmo.record_fields, _long, MQRC.PMO_ERROR)
    return pmo


def put_record(record: PutMessageRecord) -> PutMessageRecord:
    """MQPMR, of a distribution list. Raises PUT_MSG_RECORDS_ERROR (2159)."""
    checked: PutMessageRecord = _record(record, PutMessageRecord, _RECORD, MQRC.PUT_MSG_RECORDS_ERROR)
    return checked


def get_options(gmo: GetMessageOptions) -> GetMessageOptions:
    """MQGMO. Raises GMO_ERROR (2186), WAIT_INTERVAL_ERROR (2090), MSG_TOKEN_ERROR (2331)."""
    try:
        _get_options(gmo.options, gmo.wait_interval, gmo.match_options, gmo.version)
    except TypeError:  # one of them cannot even be looked up
        _get_options.__wrapped__(*_get_values(gmo))
    token = gmo.msg_token
    if type(token) is bytes and len(token) == TOKEN_LENGTH:
        return gmo
    return replace(gmo, msg_token=_check("msg_token", token, _bytes(TOKEN_LENGTH, TOKEN_LENGTH), MQRC.MSG_TOKEN_ERROR))


def object_descriptor(od: ObjectDescriptor) -> ObjectDescriptor:
    """MQOD with its records. Raises OD_ERROR (2044), RECS_PRESENT_ERROR (2154), OBJECT_RECORDS_ERROR (2155), and for
    names that are too long UNKNOWN_OBJECT_NAME (2085) and others.
    """
    changes = _remembered(_object_descriptor, _object_values(od))
    if od.records:
        _check_count(od.records)
        records = tuple(_record(each, ObjectRecord, _OBJECT_RECORD, MQRC.OBJECT_RECORDS_ERROR) for each in od.records)
        return replace(od, **dict(changes), records=records)
    return replace(od, **dict(changes)) if changes else od


_other_values: Final = attrgetter(*_OTHERS)
_wanted_values: Final = attrgetter(*_WANTED)
_put_values: Final = attrgetter(*_PUT)
_get_values: Final = attrgetter(*_GET)
_object_values: Final = attrgetter(*_OBJECT)


@lru_cache(_REMEMBERED, typed=True)
def _descriptor(*values: Any) -> Changes:
    return _changes(_OTHERS, values, MQRC.MD_ERROR)


@lru_cache(_REMEMBERED, typed=True)
def _wanted(*values: Any) -> Changes:
    return _changes(_WANTED, values, MQRC.MD_ERROR)


@lru_cache(_REMEMBERED, typed=True)
def _put_options(*values: Any) -> Changes:
    return _changes(_PUT, values, MQRC.PMO_ERROR)


@lru_cache(_REMEMBERED, typed=True)
def _get_options(*values: Any) -> Changes:
    return _changes(_GET, values, MQRC.GMO_ERROR)


@lru_cache(_REMEMBERED // 8, typed=True)
def _object_descriptor(*values: Any) -> Changes:
    return _changes(_OBJECT, values, MQRC.OD_ERROR)


def _remembered(check: Any, values: tuple[Any, ...]) -> Any:
    """The outcome of a check, remembered where all values can be looked up."""
    try:
        return check(*values)
    except TypeError:  # a bytearray, or a value that is wrong anyway
        return check.__wrapped__(*values)


def _changes(kinds: Mapping[str, Kind], values: Iterable[Any], reason: MQRC) -> Changes:
    """The fields that are to have another value than the one given."""
    checked = (
        (name, value, _check(name, value, kind, reason))
        for (name, kind), value in zip(kinds.items(), values, strict=True)
    )
    return tuple((name, held) for name, value, held in checked if held is not value)


def _check(name: str, value: Any, kind: Kind, reason: MQRC) -> Any:
    try:
        return kind(value)
    except ValueError as error:
        reasons = _TOO_LONG_REASONS if isinstance(error, _TooLongError) else _OTHER_REASONS
        raise MQError(reasons.get(name, reason), f"{name}={reprlib.repr(value)}: {error}") from None


def _with(md: MessageDescriptor, changes: Iterable[tuple[str, Any]]) -> MessageDescriptor:
    copy = MessageDescriptor.from_tuple(md.to_tuple())
    for name, value in changes:
        setattr(copy, name, value)
    return copy


def _check_count(records: Any) -> None:
    if not isinstance(records, Sequence) or len(records) > _RECORDS_MAX:
        raise MQError(MQRC.RECS_PRESENT_ERROR, f"records: a sequence of at most {_RECORDS_MAX}")


def _record(record: Any, kind: type, kinds: Mapping[str, Kind], reason: MQRC) -> Any:
    if not isinstance(record, kind):
        raise MQError(reason, f"{reprlib.repr(record)} among the records: each is a {kind.__name__}")
    changes = _changes(kinds, (getattr(record, name) for name in kinds), reason)
    return replace(record, **dict(changes)) if changes else record  # type: ignore[type-var]  # both are dataclasses


# Single arguments.


def options(value: Any) -> int:
    """The options of MQOPEN or MQCLOSE. Raises OPTIONS_ERROR (2046)."""
    return int(_check("options", value, _long, MQRC.OPTIONS_ERROR))


def count(value: Any) -> int:
    """Check the number of messages that a batch of gets is for. Raises OPTIONS_ERROR (2046)."""
    if _check("count", value, _long, MQRC.OPTIONS_ERROR) < 1:
        raise MQError(MQRC.OPTIONS_ERROR, f"count={value}: 1 or more")
    return int(value)


def buffer_length(value: Any) -> int | None:
    """The length of a caller's buffer; None is one that is long enough. Raises BUFFER_LENGTH_ERROR (2005)."""
    if value is None:
        return None
    if _check("max_length", value, _long, MQRC.BUFFER_LENGTH_ERROR) < 0:
        raise MQError(MQRC.BUFFER_LENGTH_ERROR, f"max_length={value}: a length is 0 or more")
    return int(value)


def name(value: Any) -> str:
    """The name of a queue. Raises OBJECT_NAME_ERROR (2152), UNKNOWN_OBJECT_NAME (2085)."""
    return str(_check("object_name", value, _text(NAME_LENGTH), MQRC.OBJECT_NAME_ERROR))


def identifier(value: Any, what: str, reason: MQRC) -> bytes | None:
    """An identifier, or None. Raises `reason`."""
    return None if value is None else bytes(_check(what, value, _identifier, reason))


def path(value: Any) -> str:
    """The path of a directory of the queue manager's machine. Raises FILE_SYSTEM_ERROR (2208)."""
    return str(_check("path", value, _path, MQRC.FILE_SYSTEM_ERROR))


def selectors(values: Iterable[Any]) -> list[int]:
    """The attributes that MQINQ asks for. Raises SELECTOR_ERROR (2067)."""
    return [int(_check("selector", value, _long, MQRC.SELECTOR_ERROR)) for value in values]


def settings(values: Mapping[Any, Any]) -> dict[int, int | str]:
    """Check the values that MQSET gives attributes. Raises SELECTOR_ERROR (2067), INT_ATTRS_ARRAY_ERROR (2023),
    CHAR_ATTRS_ERROR (2007).
    """
    return dict(zip(selectors(values), map(_setting, values.values()), strict=True))


def _setting(value: Any) -> int | str:
    if isinstance(value, str):
        return str(_check("value", value, _text(_SELECTION_LENGTH), MQRC.CHAR_ATTRS_ERROR))
    return int(_check("value", value, _long, MQRC.INT_ATTRS_ARRAY_ERROR))
