"""Makes the pages of reason codes and of constants from `broker.mqi`, for the site (`site_pages.py`)."""

from __future__ import annotations

from enum import Enum, Flag
from typing import TYPE_CHECKING

from broker import mqi
from broker.mqi import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable

_REASONS_HEAD = """\
# Reason codes

A call that cannot do its work raises `MQError`. Its `reason` is a member of `broker.mqi.MQRC`, or a plain number where
this table has none; its `completion` is a member of `MQCC`. Printed it begins `MQRC_Q_FULL (2053)`, with what there is
to say about this call behind it; in programs that is `MQRC.Q_FULL`. A call that has done its work with a warning
returns the reason in its result: `message.reason`, `result.reason`. Numbers and names are IBM MQ's. Not all that stand
here can come from a queue manager of EverMQ.

"""

_CONSTANTS_HEAD = """\
# Constants

Each family of IBM MQ's constants is an enumeration in `broker.mqi`: what is `MQGMO_WAIT` in C is `MQGMO.WAIT` here, and
has the same value. Where one line has several names, they are the same constant. Reason codes have
[a page of their own](reasons.md).

"""


def reasons() -> str:
    """The page of reason codes."""
    rows = ((f"{value}", f"{value:#06x}", _names(names)) for value, names in _by_value(MQRC, "MQRC_").items())
    return _REASONS_HEAD + _table(("reason", "hexadecimal", "name"), rows)


def constants() -> str:
    """The page of constants."""
    everything = [getattr(mqi, name) for name in mqi.__all__]
    families = [each for each in everything if isinstance(each, type) and issubclass(each, Enum) and each is not MQRC]
    return _CONSTANTS_HEAD + "\n".join(map(_family, filter(_is_family, families)))


def _is_family(family: type[Enum]) -> bool:
    return family.__name__.startswith("MQ")


def _family(family: type[Enum]) -> str:
    bits = issubclass(family, Flag)
    rows = (
        (_value(value, bits=bits), _names(names)) for value, names in _by_value(family, f"{family.__name__}.").items()
    )
    reported = (family.__doc__ or "").partition("\n\n")[0].replace("\n    ", " ")
    return f"## {family.__name__}\n\n{reported}\n\n{_table(('value', 'name'), rows)}"


def _by_value(family: type[Enum], prefix: str) -> dict[object, list[str]]:
    """The names of each value, aliases behind the name that is printed."""
    found: dict[object, list[str]] = {}
    for name, member in family.__members__.items():
        found.setdefault(member.value, []).append(f"{prefix}{name}")
    return found


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _value(value: object, *, bits: bool) -> str:
    match value:
        case int() if bits:
            return f"{value:#010x}"
        case bytes():
            return f"`{value.hex()}`" if value.strip(b"\0") else f"{len(value)} bytes of zero"
        case str():
            return f"`{value!r}`"
        case _:
            return str(value)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ("---",) * len(head), *rows))
