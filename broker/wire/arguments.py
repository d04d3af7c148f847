"""The arguments of calls as fields of frames, at the queue manager's end.

`start` takes a frame apart and makes the call on a port. A frame of the wrong shape is a WireError, which ends the
line; a structure of the wrong shape is an MQError, which answers the call. Values that a program chooses go through as
they are: the port checks them, for the programs in the queue manager's own process too (`broker.mqi.checks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from broker.interface.port import PUT_MANY_MAX
from broker.mqi.checks import PADDING, TOKEN_LENGTH
from broker.mqi.errors import MQError
from broker.mqi.names import NAME_LENGTH
from broker.mqi.reasons import MQRC
from broker.wire import claims, handling
from broker.wire.frames import CALL_MAX, IDS_MAX, Frame, Verb, WireError
from broker.wire.structures import descriptor, get_options, object_descriptor, put_options
from broker.wire.values import data, flag, long, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.interface.port import Call, PlacedMany, Port
    from broker.mqi.structures import MessageDescriptor

    Earlier: TypeAlias = Callable[[int], Call[PlacedMany] | None]

_LABEL_MAX: Final = 256
_LEASES_MAX: Final = 10_000
_PUT_MANY: Final = Verb.PUT_MANY.value
_SETTLE: Final = Verb.SETTLE.value
PUT_MANY_HEAD: Final = 6
"""How many items of a PUT_MANY come before the messages."""

AS_BEFORE: Final = True
"""In the place of a descriptor: that of the message before it in the frame."""


def _handle(value: object) -> int:
    """An integer: the port knows which of them are handles."""
    return value if type(value) is int else long(value, MQRC.HOBJ_ERROR, "the handle")


# Calls.


def _open(port: Port, od: Any, options: Any) -> Call[Any]:
    return port.open(object_descriptor(od), options)


def _close(port: Port, hobj: Any, options: Any) -> Call[Any]:
    return port.close(_handle(hobj), options)


def _put(port: Port, hobj: Any, md: Any, options: Any, body: Any, *behind: Any) -> Call[Any]:
    md = None if md is None else descriptor(md)
    hobj = hobj if type(hobj) is int else _handle(hobj)
    if behind:  # what weighs a frame looks at its last item
        return port.put(hobj, md, put_options(options), data(*behind), handling.put_terms(body))
    return port.put(hobj, md, put_options(options), body if type(body) is bytes else data(body))


def _put1(port: Port, od: Any, md: Any, options: Any, body: Any, *behind: Any) -> Call[Any]:
    if behind:
        terms = handling.put_terms(body)
        return port.put1(object_descriptor(od), descriptor(md), put_options(options), data(*behind), terms)
    return port.put1(object_descriptor(od), descriptor(md), put_options(options), data(body))


def _get(port: Port, hobj: Any, md: Any, options: Any, max_length: Any, *behind: Any) -> Call[Any]:
    md = None if md is None else descriptor(md)
    hobj = hobj if type(hobj) is int else _handle(hobj)
    if behind:
        (waiting,) = behind
        return port.get(hobj, md, get_options(options), max_length, flag(waiting, "GET", "to see messages that wait"))
    return port.get(hobj, md, get_options(options), max_length)


def _get_many(port: Port, hobj: Any, md: Any, options: Any, count: Any) -> Call[Any]:
    return port.get_many(_handle(hobj), descriptor(md), get_options(options), count)


def _inquire(port: Port, hobj: Any, selectors: Any) -> Call[Any]:
    if type(selectors) is not list:
        raise MQError(MQRC.SELECTOR_ERROR, "the selectors are not a list")
    return port.inquire(_handle(hobj), selectors)


def _set(port: Port, hobj: Any, values: Any) -> Call[Any]:
    if type(values) is not list or any(type(pair) is not list or len(pair) != 2 for pair in values):
        raise MQError(MQRC.SELECTOR_ERROR, "the values are not pairs of a selector and an integer or a text")
    for selector, _ in values:
        long(selector, MQRC.SELECTOR_ERROR, "a selector")  # what a dictionary has for a key
    return port.set(_handle(hobj), dict(values))


def _mqsc(port: Port, *items: Any) -> Call[Any]:
    *checks, text = items  # what weighs a frame looks at its last item
    check = checks[0] if checks else False
    if type(text) is not str:
        raise WireError("the text of MQSC is not a text")
    if type(check) is not bool:
        raise WireError("MQSC says neither to end at a failure nor not to")
    return port.mqsc(text, check=True) if check else port.mqsc(text)


def _explain(port: Port, q_name: Any, msg_id: Any, correl_id: Any, group_id: Any) -> Call[Any]:
    return port.explain(q_name, msg_id, correl_id, group_id)


def _backup(port: Port, path: Any) -> Call[Any]:
    return port.backup(path)


def _trigger_wait(port: Port, posts: Any) -> Call[Any]:
    if type(posts) is not int:
        raise WireError("the number of posts is not an integer")
    return port.trigger_wait(posts)


def _trigger_take(port: Port, q_name: Any, limit: Any) -> Call[Any]:
    wanted = long(limit, MQRC.OPTIONS_ERROR, "the limit")
    return port.trigger_take(text(q_name, NAME_LENGTH, MQRC.OBJECT_NAME_ERROR, "the name"), min(wanted, _LEASES_MAX))


def _serialize(port: Port, options: Any, tag: Any) -> Call[Any]:
    if type(tag) is not bytes:
        raise WireError("the tag of SERIALIZE is not a byte string")
    return port.serialize(long(options, MQRC.OPTIONS_ERROR, "the options"), tag)


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
    Verb.GET_MANY: (7, _get_many),
    Verb.SERIALIZE: (5, _serialize),
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
    Verb.TRIGGER_SWEEP: (3, lambda port: port.trigger_sweep()),
    Verb.EXPLAIN: (7, _explain),
    Verb.BACKUP: (4, _backup),
    **claims.MAKERS,
    **handling.MAKERS,
}

_OPTIONAL: Final = {int(Verb.PUT): 1, int(Verb.PUT1): 1, int(Verb.GET): 1, int(Verb.MQSC): 1}
"""How many items more it may have."""

STARTED: Final = frozenset([*_MAKERS, Verb.PUT_MANY, Verb.SETTLE])
"""The verbs that `start` makes a call of."""


def start(port: Port, frame: Frame, earlier: Earlier) -> Call[Any]:
    """Make the call that a frame asks for. `earlier` finds the PUT_MANY of a number, for one that comes after it.

    Raises WireError, or MQError for what is wrong with an argument.
    """
    if frame[0] == _PUT_MANY:
        return _put_many(port, frame, earlier)
    if frame[0] == _SETTLE:
        return handling.settle(port, frame)
    length, make = _MAKERS[frame[0]]
    if len(frame) != length and len(frame) != length + _OPTIONAL.get(frame[0], 0):
        raise WireError(f"{Verb(frame[0]).name} has {len(frame)} items, not {length}")
    return make(port, *frame[3:])


def _put_many(port: Port, frame: Frame, earlier: Earlier) -> Call[Any]:
    count, rest = divmod(len(frame) - PUT_MANY_HEAD, 2)
    if rest or not 1 <= count <= PUT_MANY_MAX:
        raise WireError(f"PUT_MANY has {len(frame)} items, not {PUT_MANY_HEAD} and 1 to {PUT_MANY_MAX} pairs")
    hobj, options, after = frame[3:PUT_MANY_HEAD]
    if type(after) is not int:
        raise WireError("the call that PUT_MANY comes after is not an integer")
    return port.put_many(_handle(hobj), _messages(frame), put_options(options), earlier(after))


def _messages(frame: Frame) -> Iterator[tuple[MessageDescriptor | None, bytes]]:
    """The messages of a PUT_MANY, each checked when its turn comes: those before a wrong one are put."""
    md = None
    for index in range(PUT_MANY_HEAD, len(frame), 2):
        packed = frame[index]
        if packed is not AS_BEFORE:
            md = descriptor(packed)
        yield md, data(frame[index + 1])


def connect_arguments(frame: Frame) -> tuple[str, str, str]:
    """The queue manager's name, the application's and the user's of a CONNECT. Raises WireError or MQError."""
    if len(frame) != 6:
        raise WireError(f"CONNECT has {len(frame)} items, not 6")
    return (
        text(frame[3], NAME_LENGTH, MQRC.Q_MGR_NAME_ERROR, "the name of the queue manager").rstrip(PADDING),
        text(frame[4], _LABEL_MAX, MQRC.OPTIONS_ERROR, "the name of the application"),
        text(frame[5], _LABEL_MAX, MQRC.OPTIONS_ERROR, "the name of the user"),
    )


def numbers(frame: Frame) -> list[int]:
    """The numbers of calls or leases in a TAKEN, TRIGGER_DONE or TRIGGER_RETURN. Raises WireError."""
    if len(frame) != 4 or type(frame[3]) is not list:
        raise WireError(f"{Verb(frame[0]).name} has no list of numbers")
    found: list[int] = frame[3]
    if any(type(number) is not int or not 0 <= number <= CALL_MAX for number in found):
        raise WireError(f"{Verb(frame[0]).name} has something else among its numbers")
    return found


def given_back(frame: Frame) -> tuple[int, list[bytes], bytes]:
    """The handle, the tokens and the last token of a GIVE_BACK. Raises WireError."""
    match frame[3:]:
        case [int(hobj), list(tokens), bytes(last)] if len(tokens) <= IDS_MAX and all(map(_is_token, [*tokens, last])):
            return hobj, tokens, last
    raise WireError("GIVE_BACK has other items than a handle, a list of tokens and a token")


def _is_token(value: object) -> bool:
    return type(value) is bytes and len(value) == TOKEN_LENGTH
