"""The fields of calls: what may stand for an argument in a frame.

A wrong value is an MQError, which answers its call; one that no program can have chosen is a WireError, which ends the
line.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from sys import float_info
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.mqi.checks import ID_LENGTH
from broker.mqi.errors import MQError
from broker.mqi.names import NAME_LENGTH
from broker.mqi.reasons import MQRC
from broker.wire.frames import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONG_MIN: Final = -(2**31)
LONG_MAX: Final = 2**32 - 1
NUMBER_MAX: Final = 2**63 - 1
LABEL_MAX: Final = 256
"""The longest name of an application, a user, a handler."""

SENT: Final = object()
"""The default of an argument that every frame has."""

_FORMS: Final[dict[type, str]] = {
    bool: "true or false",
    int: "an integer of {0.low} to {0.high}",
    float: "a number of seconds",
    str: "a text of {0.low} to {0.high} characters",
    bytes: "a byte string of {0.low} to {0.high} bytes",
    list: "a list of {0.low} to {0.high} items",
}
_SIZED: Final = frozenset({str, bytes, list})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Field:
    """An argument of a call: in its frame a value of `kind` from `low` to `high`; these count the characters of a text,
    the bytes of a byte string, the items of a list.
    """

    name: str
    """The parameter of the port's method."""

    kind: type = object
    """object: any value, which the port checks, for programs in the queue manager's own process too."""

    what: str = ""
    """The argument, for people."""

    reason: MQRC | None = MQRC.OPTIONS_ERROR
    """The error of the call when the value is wrong; None: the line ends."""

    low: float = 0
    high: float = NUMBER_MAX
    optional: bool = False
    """None stands for itself."""

    make: Callable[..., Any] | None = None
    """Makes the argument of the value, or of the `parts`."""

    pack: Callable[[Any], Any] | None = None
    """Makes the value of the argument, or the values of the `parts`."""

    parts: tuple[Field, ...] = ()
    """The values in the frame, where they are more than one."""

    default: object = SENT
    """An argument that equals it is not in the frame."""

    def wrong(self, value: object) -> MQError | WireError:
        """Return the error of a wrong value."""
        if self.kind is float and type(value) in (int, float):
            text = f"{self.what} is {value}: a number of seconds is 0 or more, and finite"
        else:
            text = f"{self.what} must be {_FORMS[self.kind].format(self)}"
        return WireError(text) if self.reason is None else MQError(self.reason, text)


def read(fields: Sequence[Field], items: Sequence[Any], place: int = 0) -> list[Any]:
    """Return the arguments that the items from this place on stand for. Raises MQError or WireError for the first wrong
    one.
    """
    arguments = []
    for field in fields:
        kind, make = field.kind, field.make
        if field.parts:
            assert make is not None
            arguments.append(make(*read(field.parts, items, place)))
            place += len(field.parts)
            continue
        value: Any = items[place]
        place += 1
        if value is not None or not field.optional:
            if kind is not object:
                found = type(value)
                if found is not kind and not (kind is float and found is int):
                    raise field.wrong(value)
                if not field.low <= (len(value) if kind in _SIZED else value) <= field.high:
                    raise field.wrong(value)
            if make is not None:
                value = make(value)
        arguments.append(value)
    return arguments


def list_of(field: Field) -> Callable[[list[Any]], list[Any]]:
    """Return what makes the arguments of a list of values, all of one field. Raises what `read` raises."""
    return lambda values: read([field] * len(values), values)


def structure(
    kind: Callable[..., T], what: str, fields: Sequence[Field], least: int | None = None
) -> Callable[[Any], T]:
    """Return what makes a structure of the list of its fields, all of them or the first `least`. Raises OPTIONS_ERROR
    (2046), or the error of a field.
    """
    lengths = {len(fields): fields, **({} if least is None else {least: fields[:least]})}

    def make(value: Any) -> T:
        if type(value) is not list or len(value) not in lengths:
            raise MQError(MQRC.OPTIONS_ERROR, f"{what} must have {' or '.join(map(str, sorted(lengths)))} fields")
        return kind(*read(lengths[len(value)], value))

    return make


def name(parameter: str, what: str) -> Field:
    """The name of an object."""
    return Field(parameter, str, what, MQRC.OBJECT_NAME_ERROR, high=NAME_LENGTH)


def seconds(parameter: str, what: str = "") -> Field:
    """A number of seconds."""
    return Field(parameter, float, what, high=float_info.max, make=float)


def flag(parameter: str, what: str) -> Field:
    """A truth value, which no program chooses."""
    return Field(parameter, bool, what, None)


def integer(parameter: str, what: str) -> Field:
    """An integer, which no program chooses."""
    return Field(parameter, int, what, None, -inf, inf)


def identifier(parameter: str, reason: MQRC) -> Field:
    """MsgId, CorrelId or GroupId, or None."""
    return Field(parameter, bytes, parameter, reason, ID_LENGTH, ID_LENGTH, optional=True)
