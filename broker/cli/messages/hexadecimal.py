"""A message in full, in the manner of amqsbcg: its descriptor, the headers before its data by their fields, its data in
hexadecimal digits beside its characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.mqi.structures import DESCRIPTOR_FIELDS
from broker.presentation.dump import dump
from broker.presentation.headers import headers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from broker import Message

_WIDTH: Final = 18


def in_full(message: Message, number: int) -> Iterator[str]:
    """The lines that show a message, the `number`-th."""
    yield f"message number {number}, reason {int(message.reason)}"
    yield from _structure("Message descriptor", {name: getattr(message.md, name) for name in DESCRIPTOR_FIELDS})
    for header in headers(message.md, message.data):
        yield from _structure(header.name, header.fields)
    yield "****   Message      ****"
    yield f" length - {len(message.data)} of {message.length} bytes"
    yield from dump(message.data)


def _structure(title: str, fields: Mapping[str, Any]) -> Iterator[str]:
    yield f"****   {title:<12} ****"
    for name, value in fields.items():
        yield f"  {_mq_name(name):<{_WIDTH}}: {_shown(value)}"


def _mq_name(name: str) -> str:
    """The name as MQ writes it: `ReplyToQMgr`."""
    return "".join(word.capitalize() for word in name.split("_"))


def _shown(value: object) -> str:
    match value:
        case bytes():
            return f"X'{value.hex().upper()}'"
        case str():
            return f"'{value}'"
        case int():
            return str(int(value))
        case _:
            return str(value)
