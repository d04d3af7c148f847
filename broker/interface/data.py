"""What programs give to a put, on its way to the queue manager: data as bytes, and the descriptor that goes with it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from broker.mqi.checks import PADDING
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Data: TypeAlias = bytes | bytearray | memoryview | str
Item: TypeAlias = Data | tuple[Data, MessageDescriptor | None]
"""A message of a batch: data, or data and a descriptor of its own."""

UTF_8: Final = 1208
"""The coded character set identifier of UTF-8."""


def prepared(
    data: Data, md: MessageDescriptor | None, persistence: int | None
) -> tuple[MessageDescriptor | None, bytes]:
    """The descriptor and the bytes to send."""
    if persistence is None and type(data) is bytes:
        return md, data
    return described(md, persistence, text=isinstance(data, str)), encoded(data)


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
    for each in messages:
        if isinstance(each, tuple):
            data, own = each
            fields = None if own is None else own.to_tuple()
        else:
            data, fields = each, default
        if fields != before:
            before, made = fields, {}
        text = isinstance(data, str)
        if text not in made:
            read = None if fields is None else MessageDescriptor.from_tuple(fields)
            made[text] = described(read, persistence, text=text)
        yield made[text], encoded(data)


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


def encoded(data: Data) -> bytes:
    """The bytes to send: text as UTF-8."""
    if isinstance(data, bytes):
        return data
    return data.encode() if isinstance(data, str) else bytes(data)
