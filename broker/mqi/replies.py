"""The reply of the command server to one MQSC command."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """The reply to a command.

    `code` is the AMQ message id ("AMQ8006I"); `text` is the whole reply as runmqsc prints it, without the echo of the
    command. `syntax_error` tells a command that was never run from one that failed. `attributes` holds, for DISPLAY,
    one dictionary an object: MQSC keywords in upper case, numbers as int, flags such as TRIGGER as bool. `warnings` are
    lines of `text` about attributes that the command has set and that are kept without being acted on; the command did
    its work all the same. Each is told once a script.
    """

    code: str
    text: str
    ok: bool = True
    syntax_error: bool = False
    attributes: tuple[dict[str, int | str | bool], ...] = field(default=())
    warnings: tuple[str, ...] = ()


def joined(parts: Sequence[CommandReply]) -> CommandReply:
    """The reply that came in parts, at least one: their texts one below the other, and all their attributes."""
    if len(parts) == 1:
        return parts[0]
    text = "\n".join(part.text for part in parts)
    return replace(parts[0], text=text, attributes=tuple(each for part in parts for each in part.attributes))


class ReplyPart(NamedTuple):
    """A reply on its way, or a part of one: that of a DISPLAY may be long. `continues`: it belongs to the reply that
    the part before it belongs to.
    """

    reply: CommandReply
    continues: bool = False


def replies_of(parts: Iterable[ReplyPart]) -> list[CommandReply]:
    """The replies that came in these parts."""
    whole: list[list[CommandReply]] = []
    for reply, continues in parts:
        if continues and whole:
            whole[-1].append(reply)
        else:
            whole.append([reply])
    return list(map(joined, whole))
