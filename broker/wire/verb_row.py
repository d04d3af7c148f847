"""The row of a verb: all that the wire knows of a call.

The client packs the arguments of a call by its row (`VerbRow.items`), the queue manager reads them and makes the call
on a port (`start`); the answer goes back by `VerbRow.result`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.wire.fields import SENT, Field, read
from broker.wire.frames import Frame, Verb, WireError
from broker.wire.structures import sendable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.interface.port import Call, Port
    from broker.wire.arguments import Earlier
    from broker.wire.results import Result


class VerbKind(Enum):
    """Whom a call needs while it is under way."""

    CALL = auto()
    """Nobody: it has its effect, whoever waits for the answer."""

    READ = auto()
    """Somebody who waits for the answer: without them it is broken off."""

    WAIT = auto()
    """As READ, and perhaps another call, which ends its wait."""

    RECEIVE = auto()
    """As WAIT, and what it brings is the queue manager's until the client says TAKEN."""


class _Form(NamedTuple):
    """A length that a frame may have: the fields in it, the names of the arguments, and a field for each item."""

    fields: tuple[Field, ...]
    names: tuple[str, ...]
    items: tuple[Field, ...]


def _form(fields: Sequence[Field]) -> _Form:
    items = [part for each in fields for part in each.parts or (each,)]
    return _Form(tuple(fields), tuple([each.name for each in fields]), tuple(items))


@dataclass(slots=True, eq=False)
class VerbRow:
    """A call: its verb, the port's method, its arguments in the order of the frame, and its result."""

    verb: Verb
    name: str
    fields: tuple[Field, ...]
    result: Result
    right: str
    """The right that the user of its program needs (security 7)."""

    kind: VerbKind = VerbKind.CALL
    by_hand: Callable[[Port, Frame, Earlier], Call[Any]] | None = None
    """Makes the call of a frame that no fields can tell."""

    pack: Callable[..., Sequence[Any]] | None = None
    """Makes the items of such a frame, where the port that forwards the call knows no better."""

    join: Callable[[dict[str, Any]], None] | None = None
    """Completes an argument that needs another one."""

    forms: dict[int, _Form] = field(init=False)
    """By the number of items that a frame may have."""

    start: Callable[[Port, Frame, Earlier], Call[Any]] = field(init=False)
    """Makes the call that a frame asks for. The function given finds the PUT_MANY of a number, for one that comes after
    it. Raises WireError, or MQError for what is wrong with an argument.
    """

    plain: bool = field(init=False)
    """The arguments are the items of the frame."""

    def __post_init__(self) -> None:
        shorter = [each for each in self.fields if each.default is SENT]
        self.forms = {3 + len(form.items): form for form in map(_form, (self.fields, shorter))}
        self.start = self.by_hand or self._start
        unpacked = not (self.pack or any(each.pack or each.parts for each in self.fields))
        self.plain = unpacked and shorter == list(self.fields)

    def _start(self, port: Port, frame: Frame, _: object) -> Call[Any]:
        make: Callable[..., Call[Any]] = getattr(port, self.name)
        match frame:
            case [_, _, _] if not self.fields:
                return make()
        return make(**self.arguments(frame))

    def arguments(self, frame: Frame) -> dict[str, Any]:
        """Return the arguments in a frame, by their names. Raises WireError or MQError."""
        form = self.forms.get(len(frame))
        if form is None:
            raise WireError(f"{self.verb.name} has {len(frame)} items, not {min(self.forms)}")
        found = dict(zip(form.names, read(form.fields, frame, 3), strict=True))
        if self.join is not None:
            self.join(found)
        return found

    def items(self, values: Sequence[Any]) -> list[Any]:
        """Return the items of a frame for these arguments, in the order of the row. Raises TypeError."""
        if self.pack is not None:
            return list(self.pack(*values))
        items: list[Any] = []
        for each, value in zip(self.fields, values, strict=True):
            if each.default is SENT or value != each.default:
                item = value if each.pack is None else each.pack(value)
                items += item if each.parts else (item,)
        return items

    def sendable(self, items: Sequence[Any]) -> list[Any]:
        """Return the items of a frame that could not be packed; what a program has chosen as something that can."""
        fields = self.forms[3 + len(items)].items
        return [item if each.reason is None else sendable(item) for each, item in zip(fields, items, strict=True)]
