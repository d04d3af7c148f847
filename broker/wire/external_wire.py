"""The calls about units that a database of a program's own decides, as frames. Names of units stand one behind the
other in a byte string, since all that is neither bytes nor a text in a frame must be short (`broker.wire.unpacking`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from broker.mqi.delivery_fields import SETTLE_MAX
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.wire.delivery_wire import packed_settlements, settlements_of
from broker.wire.fields import LABEL_MAX, Field, flag, read
from broker.wire.frames import Frame, WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.interface.port import Call, Port
    from broker.mqi.delivery_fields import Settlement
    from broker.mqi.external_units import Decision, Doubt, PreparedDelivery

_ID_BYTES: Final = 16
_BACKOUT, _COMMIT, _GIVE_UP, _SETTLED = range(4)
"""What DECIDE says of a unit: the last is a backout with a settlement."""

_DOUBT: Final = struct.Struct(">16sd")

UNIT: Final = Field("unit", bytes, "the name of the unit", low=_ID_BYTES, high=_ID_BYTES)
DATABASE: Final = Field("database", bytes, "the database id", low=_ID_BYTES, high=_ID_BYTES)
DATABASE_NAME: Final = Field("name", str, "the name of the database", high=LABEL_MAX)


def ids(packed: bytes) -> list[bytes]:
    """Take names of units apart. Raises ValueError."""
    if len(packed) % _ID_BYTES:
        raise ValueError(f"the names of units have {_ID_BYTES} bytes each, not {len(packed)} in all")
    return [packed[at : at + _ID_BYTES] for at in range(0, len(packed), _ID_BYTES)]


def _asked(packed: bytes) -> list[bytes]:
    try:
        return ids(packed)
    except ValueError as error:
        raise MQError(MQRC.OPTIONS_ERROR, str(error)) from None


def packed_ids(units: Iterable[bytes]) -> bytes:
    """Return names of units as a frame has them. Raises OPTIONS_ERROR (2046), as they could not be told apart."""
    from broker.mqi.external_units import check_id

    return b"".join([check_id(unit, "unit") for unit in units])


UNITS: Final = Field("units", bytes, "the names of units", high=_ID_BYTES * SETTLE_MAX, make=_asked, pack=packed_ids)
PREPARED: Final = UNIT, DATABASE, DATABASE_NAME
ASKED: Final = DATABASE, flag("wait", "whether to wait")
NAMED: Final = DATABASE, UNITS
_HEAD: Final = DATABASE, DATABASE_NAME, UNITS
_DECISIONS: Final = DATABASE, UNITS, Field("words", bytes, "the decisions", high=SETTLE_MAX)


def packed_deliveries(
    database: bytes, name: str, prepared: Sequence[PreparedDelivery], settlements: Sequence[Settlement]
) -> tuple[Any, ...]:
    """The items of PREPARE_DELIVERIES; `settlements` name the deliveries as the queue manager knows them."""
    return database, name, packed_ids(each.unit for each in prepared), *packed_settlements(settlements)


def prepare_deliveries(port: Port, frame: Frame, _: object) -> Call[Any]:
    """Make the call of a PREPARE_DELIVERIES. Raises WireError or MQError."""
    from broker.mqi.external_units import PreparedDelivery

    if len(frame) < 7:
        raise WireError("PREPARE_DELIVERIES has no settlements")
    database, name, units = read(_HEAD, frame, 3)
    settlements = settlements_of(frame, 6)
    if len(settlements) != len(units):
        raise MQError(MQRC.OPTIONS_ERROR, f"{len(units)} units have {len(settlements)} settlements")
    return port.prepare_deliveries(database, name, list(map(PreparedDelivery, units, settlements)))


def packed_decisions(database: bytes, decisions: Sequence[Decision]) -> tuple[Any, ...]:
    """The items of DECIDE."""
    words = bytes(
        [
            _GIVE_UP if each.commit is None else _COMMIT if each.commit else _SETTLED if each.settlement else _BACKOUT
            for each in decisions
        ]
    )
    settlements = [
        each.settlement for each, word in zip(decisions, words, strict=True) if word == _SETTLED and each.settlement
    ]
    units = packed_ids(each.unit for each in decisions)
    return database, units, words, *(packed_settlements(settlements) if settlements else ())


def decide(port: Port, frame: Frame, _: object) -> Call[Any]:
    """Make the call of a DECIDE. Raises WireError or MQError."""
    from broker.mqi.external_units import Decision

    if len(frame) < 6:
        raise WireError("DECIDE has no decisions")
    database, units, words = read(_DECISIONS, frame, 3)
    settlements = iter(settlements_of(frame, 6) if len(frame) > 6 else ())
    if len(words) != len(units) or any(word > _SETTLED for word in words):
        raise MQError(MQRC.OPTIONS_ERROR, f"{len(units)} units have other decisions than a byte of 0 to 3 each")
    decisions = []
    for unit, word in zip(units, words, strict=True):
        settlement = next(settlements, None) if word == _SETTLED else None
        if word == _SETTLED and settlement is None:
            raise MQError(MQRC.OPTIONS_ERROR, "a decision has no settlement where it should")
        decisions.append(Decision(unit, None if word == _GIVE_UP else word == _COMMIT, settlement))
    return port.decide(database, decisions)


def packed_doubts(doubts: Iterable[Doubt]) -> bytes:
    """Return doubts as an answer has them."""
    return b"".join([_DOUBT.pack(*doubt) for doubt in doubts])


def doubts_of(packed: bytes) -> list[Doubt]:
    """Take doubts apart. Raises struct.error."""
    from broker.mqi.external_units import Doubt

    return [Doubt(*fields) for fields in _DOUBT.iter_unpack(packed)]
