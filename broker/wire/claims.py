"""The byte strings of the calls about claims and prepared units: records, little-endian, of which there may be many."""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from broker.interface.claims.claims import Cut, UnitName, Winner
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable

ATTEMPT_BYTES: Final = 16
_UNIT: Final = Struct(f"<hqi{ATTEMPT_BYTES}s")  # place of its sink, batch, partition, attempt
_WINNER: Final = Struct(f"<qi{ATTEMPT_BYTES}sq")  # batch, partition, attempt, rows
_CUT: Final = Struct("<qqq")


def packed_cuts(cuts: Iterable[Cut]) -> bytes:
    """Cuts as PIN and BROWSE_CUTS answer them."""
    return b"".join([_CUT.pack(*cut) for cut in cuts])


def cuts(packed: bytes) -> list[Cut]:
    """The cuts in a byte string. Raises struct.error."""
    return list(map(Cut._make, _CUT.iter_unpack(packed)))


def packed_winners(winners: Iterable[Winner]) -> bytes:
    """Winners as PUBLISH carries them, which names their sink once."""
    return b"".join([_packed(_WINNER, *winner.unit[1:], winner.rows) for winner in winners])


def name_winners(arguments: dict[str, Any]) -> None:
    """Make the winners of a PUBLISH of their byte string, with the name of its sink. Raises OPTIONS_ERROR (2046)."""
    sink, records = arguments["sink"], _records(_WINNER, arguments["winners"], "the winners")
    arguments["winners"] = [Winner(UnitName(sink, *unit), rows) for *unit, rows in records]


def packed_units(units: Iterable[UnitName]) -> tuple[list[str], bytes]:
    """Units as DISCARD carries them: the sinks, and the units, each with the place of its sink among them."""
    sinks: dict[str, int] = {}
    packed = [_packed(_UNIT, sinks.setdefault(sink, len(sinks)), *others) for sink, *others in units]
    return list(sinks), b"".join(packed)


def units(sinks: list[str], packed: Any) -> list[UnitName]:
    """The units of a DISCARD. Raises OPTIONS_ERROR (2046)."""
    records = _records(_UNIT, packed, "the units")
    if any(not 0 <= place < len(sinks) for place, *_ in records):
        raise MQError(MQRC.OPTIONS_ERROR, "a unit is of none of the sinks that are named")
    return [UnitName(sinks[place], *unit) for place, *unit in records]


def _packed(record: Struct, *fields: Any) -> bytes:
    try:
        return record.pack(*fields)
    except struct.error as cause:
        raise TypeError(f"{fields} cannot name a prepared unit: {cause}") from cause


def _records(record: Struct, packed: Any, what: str) -> list[tuple[Any, ...]]:
    if type(packed) is not bytes or len(packed) % record.size:
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} must be a byte string of {record.size} bytes each")
    return list(record.iter_unpack(packed))
