"""Prepare the arguments of a put for the queue manager: data as bytes, and the descriptor that goes with it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.mqi.checks import PADDING
from broker.mqi.constants.descriptor import UTF_8
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Data: TypeAlias = bytes | bytearray | memoryview | str
Item: TypeAlias = Data | tuple[Data, MessageDescriptor | None]
"""A message of a batch: data, or data and a descriptor of its own."""


def prepared(
    data: Data, md: MessageDescriptor | None, persistence: int | None
) -> tuple[MessageDescriptor | None, bytes]:
    """The descriptor and the bytes to send."""
    if md is not None and not isinstance(md, MessageDescriptor):
        raise wrong_descriptor(md)
    if persistence is None and type(data) is bytes:
        return md, data
    described_md = described(md, persistence, text=isinstance(data, str))
    return described_md, data if type(data) is bytes else encoded(data)


def each_prepared(
    messages: Iterable[Item], md: MessageDescriptor | None, persistence: int | None
) -> Iterator[tuple[MessageDescriptor | None, bytes]]:
    """The descriptor and the bytes to send of each message; `md` is for those without one of their own.

    A descriptor is read when its message is, so the caller may change it for the next one. Messages that follow one
    another with the same fields are given the same descriptor.
    """
    default = None if md is None else md.to_tuple()
    before: tuple[Any, ...] | None = default
    made: dict[bool, MessageDescriptor | None] = {}
    for number, each in enumerate(messages):
        if isinstance(each, tuple):
            data, own = pair(each, number)
            fields = None if own is None else own.to_tuple()
        else:
            data, fields = each, default
        if fields != before:
            before, made = fields, {}
        text = isinstance(data, str)
        if text not in made:
            made[text] = described(_read(fields), persistence, text=text)
        yield made[text], data if type(data) is bytes else encoded(data, f"messages[{number}]")


def _read(fields: tuple[Any, ...] | None) -> MessageDescriptor | None:
    """The descriptor with these fields: the same for each batch with them, so that its puts are found to be alike."""
    if fields is None:
        return None
    try:
        return _known(fields, tuple(map(type, fields)))
    except TypeError:  # a bytearray among them
        return MessageDescriptor.from_tuple(fields)


@lru_cache(maxsize=16)
def _known(fields: tuple[Any, ...], _types: tuple[type, ...]) -> MessageDescriptor:
    """Equal fields of other types are others: 1.0 is refused where 1 is not."""
    return MessageDescriptor.from_tuple(fields)


def many(messages: Iterable[Item], md: MessageDescriptor | None) -> Iterable[Item]:
    """The messages of a batch. Raises TypeError for one string, which is a message and not many, and for a descriptor
    that is none.
    """
    if isinstance(messages, str | bytes | bytearray | memoryview):
        kind = type(messages).__name__
        raise TypeError(f"put_many takes an iterable of messages, not one {kind}: put(data), or put_many([data])")
    if md is not None and not isinstance(md, MessageDescriptor):
        raise wrong_descriptor(md)
    return messages


def pair(item: tuple[Any, ...], number: int) -> tuple[Data, MessageDescriptor | None]:
    """Data and its own descriptor, as they stand at this place of a batch."""
    if len(item) != 2 or not isinstance(item[1], MessageDescriptor | None):
        what = ", ".join(type(part).__name__ for part in item)
        raise TypeError(f"messages[{number}] is data, or a pair of data and MessageDescriptor, not ({what})")
    return item


def wrong_descriptor(md: object) -> TypeError:
    """The error for what is given as a descriptor."""
    return TypeError(f"md is a MessageDescriptor or None, not {type(md).__name__}")


def described(md: MessageDescriptor | None, persistence: int | None, *, text: bool) -> MessageDescriptor | None:
    """The descriptor to send with data that is `text` or bytes, with this persistence if it is given. The caller's is
    copied before anything in it changes.
    """
    if persistence is None and not text:
        return md
    if md is None:
        return _default(persistence, text=text)
    return _changed(MessageDescriptor.from_tuple(md.to_tuple()), persistence, text=text)


@lru_cache(typed=True)
def _default(persistence: int | None, *, text: bool) -> MessageDescriptor:
    return _changed(MessageDescriptor(), persistence, text=text)


def _changed(md: MessageDescriptor, persistence: int | None, *, text: bool) -> MessageDescriptor:
    if text:
        if isinstance(md.format, str) and not md.format.strip(PADDING):
            md.format = "MQSTR"
        md.coded_char_set_id = md.coded_char_set_id or UTF_8
    if persistence is not None:
        md.persistence = persistence
    return md


def encoded(data: Data, what: str = "data") -> bytes:
    """The bytes to send: text as UTF-8. Raises TypeError for what is neither bytes-like nor str."""
    if isinstance(data, str):
        return data.encode()
    try:
        return bytes(memoryview(data))
    except TypeError:
        kind = type(data).__name__
        raise TypeError(f"{what} is bytes-like or str, not {kind}; json.dumps() makes a str of most objects") from None
