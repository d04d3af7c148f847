"""The frames that are taken apart by hand, at the queue manager's end: PUT and GET, which cost little, PUT_MANY, whose
messages are checked one by one, and those that need no answer.

A structure of the wrong shape is an MQError, which answers the call. Values that a program chooses go through as they
are: the port checks them, for the programs in the queue manager's own process too (`broker.mqi.checks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from broker.interface.port import PUT_MANY_MAX
from broker.mqi.checks import TOKEN_LENGTH
from broker.mqi.reasons import MQRC
from broker.wire.delivery_wire import put_extras
from broker.wire.fields import LONG_MAX, LONG_MIN, Field, flag, read
from broker.wire.frames import CALL_MAX, IDS_MAX, Frame, Verb, WireError
from broker.wire.structures import descriptor, get_options, put_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.interface.answers import PlacedMany
    from broker.interface.port import Call, Port
    from broker.mqi.structures import MessageDescriptor

    Earlier: TypeAlias = Callable[[int], Call[PlacedMany] | None]
    """Finds the PUT_MANY of a number."""

PUT_MANY_HEAD: Final = 6
"""The number of items of a PUT_MANY before the messages."""

AS_BEFORE: Final = True
"""In the place of a descriptor: that of the message before it in the frame."""

HANDLE: Final = Field("hobj", int, "the handle", MQRC.HOBJ_ERROR, LONG_MIN, LONG_MAX)
DATA: Final = Field("data", bytes, "the data of the message", MQRC.BUFFER_ERROR)
_DELAYED: Final = (flag("delayed", "whether delayed messages are seen"),)


def put(port: Port, frame: Frame, _: object) -> Call[Any]:
    """Make the call of a PUT. Raises WireError or MQError."""
    extras = None
    match frame[3:]:
        case [hobj, md, options, data]:
            pass
        case [hobj, md, options, extras, data]:
            extras = put_extras(extras)
        case _:
            raise WireError(f"PUT has {len(frame)} items, not 7")
    if type(hobj) is not int:
        raise HANDLE.wrong(hobj)
    if type(data) is not bytes:
        raise DATA.wrong(data)
    md = None if md is None else descriptor(md)
    if extras is None:
        return port.put(hobj, md, put_options(options), data)
    return port.put(hobj, md, put_options(options), data, extras)


def get(port: Port, frame: Frame, _: object) -> Call[Any]:
    """Make the call of a GET. Raises WireError or MQError."""
    delayed = None
    match frame[3:]:
        case [hobj, md, options, max_length]:
            pass
        case [hobj, md, options, max_length, delayed]:
            (delayed,) = read(_DELAYED, [delayed])
        case _:
            raise WireError(f"GET has {len(frame)} items, not 7")
    if type(hobj) is not int:
        raise HANDLE.wrong(hobj)
    md = None if md is None else descriptor(md)
    if delayed is None:
        return port.get(hobj, md, get_options(options), max_length)
    return port.get(hobj, md, get_options(options), max_length, delayed)


def put_many(port: Port, frame: Frame, earlier: Earlier) -> Call[Any]:
    """Make the call of a PUT_MANY. Raises WireError or MQError."""
    count, rest = divmod(len(frame) - PUT_MANY_HEAD, 2)
    if rest or not 1 <= count <= PUT_MANY_MAX:
        raise WireError(f"PUT_MANY has {len(frame)} items, not {PUT_MANY_HEAD} and 1 to {PUT_MANY_MAX} pairs")
    hobj, options, after = frame[3:PUT_MANY_HEAD]
    if type(after) is not int:
        raise WireError("the call that PUT_MANY comes after is not an integer")
    if type(hobj) is not int:
        raise HANDLE.wrong(hobj)
    return port.put_many(hobj, _messages(frame), put_options(options), earlier(after))


def _messages(frame: Frame) -> Iterator[tuple[MessageDescriptor | None, bytes]]:
    """The messages of a PUT_MANY, each checked when its turn comes: those before a wrong one are put."""
    md = None
    for index in range(PUT_MANY_HEAD, len(frame), 2):
        packed, data = frame[index : index + 2]
        if packed is not AS_BEFORE:
            md = descriptor(packed)
        if type(data) is not bytes:
            raise DATA.wrong(data)
        yield md, data


# Frames that need no answer.


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
