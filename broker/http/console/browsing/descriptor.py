"""The descriptor of a message for people: names instead of numbers, instants instead of digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import htpy as h

from broker.dead_letters import stamped
from broker.http.console.elements import shown, when
from broker.mqi import MQAT, MQEI, MQENC, MQFB, MQMF, MQMT, MQPER, MQRC, MQRO
from broker.mqi.structures import DESCRIPTOR_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import IntEnum, IntFlag

    from htpy import Node

    from broker.mqi import MessageDescriptor

_NAMES: Final[dict[str, type[IntEnum]]] = {
    "msg_type": MQMT,
    "persistence": MQPER,
    "put_appl_type": MQAT,
}
_FLAGS: Final[dict[str, type[IntFlag]]] = {"report": MQRO, "msg_flags": MQMF}
_TENTHS: Final = 10
_WORDS: Final = {"version": "Version", "coded_char_set_id": "CodedCharSetId", "msg_id": "MsgId"}


def descriptor_fields(md: MessageDescriptor, now: float) -> Iterator[tuple[Node, Node]]:
    """Yield the fields of a descriptor by MQ's names, with their values in words."""
    for name in DESCRIPTOR_FIELDS:
        if name in ("put_time", "version"):
            continue
        yield h.code[mq_name(name)], _value(md, name, now)


def mq_name(name: str) -> str:
    """The name of a field as MQ writes it: `ReplyToQMgr`."""
    return "".join(word.capitalize() for word in name.split("_"))


def _value(md: MessageDescriptor, name: str, now: float) -> Node:
    value: Any = getattr(md, name)
    if isinstance(value, bytes):
        return h.code[value.hex()] if any(value) else h.span(".none")["–"]
    if isinstance(value, str) and name != "put_date":
        return shown(value) if value.strip() else h.span(".none")["–"]
    if name in _NAMES:
        return named(_NAMES[name], value)
    if name in _FLAGS:
        return flags(_FLAGS[name], value)
    match name:
        case "put_date":
            return [when(stamped(md.put_date, md.put_time), now), " ", shown(f"{md.put_date} {md.put_time}")]
        case "expiry":
            return "unlimited" if value == MQEI.UNLIMITED else f"in {value / _TENTHS:,.1f} s"
        case "feedback":
            return feedback(value)
        case "encoding":
            return f"{value} native" if value == MQENC.NATIVE else str(value)
        case "original_length":
            return "undefined" if value < 0 else f"{value:,}"
        case _:
            return f"{value:,}" if name in ("offset", "backout_count") else str(int(value))


def named(family: type[IntEnum], value: int) -> str:
    """A number of a family of constants by its name, with its number; the number alone where it has none."""
    try:
        return f"{family.__name__}_{family(value).name} ({int(value)})"
    except ValueError:
        return str(int(value))


def flags(family: type[IntFlag], value: int) -> str:
    """The names of the flags that are set, with their sum."""
    names = [each.name for each in family if each and value & each == each and each.name]
    return f"{' + '.join(names)} ({int(value):#x})" if names else f"none ({int(value):#x})"


def feedback(value: int) -> str:
    """A Feedback by its name: one of MQFB, or a reason."""
    for family in (MQFB, MQRC):
        try:
            return f"{family.__name__}_{family(value).name} ({int(value)})"
        except ValueError:
            continue
    return str(int(value))
