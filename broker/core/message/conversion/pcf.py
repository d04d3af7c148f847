"""Conversion of PCF: commands, their replies, events and statistics, of formats MQADMIN, MQEVENT and MQPCF.

An MQCFH says how many parameters follow it; each says its type and how long it is, and a group how many of those behind
it are its own. Strings may say a character set of their own (0 is the message's). A string that becomes longer than
what it stood in makes its parameter longer.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from broker.core.message.conversion.coding import SOURCE, TARGET, Coding, integers, order_of, strings
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HEADER_SIZE = 36
_COUNT = 8  # the last of the nine integers of MQCFH: ParameterCount
_LENGTH = 1  # StrucLength, everywhere
_LONG_SIZE = 4
_GROUP = 20
_DEFAULT_CCSID = 0


def converted(data: bytes, start: int, source: Coding, target: Coding) -> bytes:
    """The MQCFH at `start` with its parameters, which are the rest of the data. Raises FORMAT_ERROR (2110)."""
    reading, writing = order_of(source, SOURCE), order_of(target, TARGET)
    header = _longs(data, start, 9, reading)
    if header[_LENGTH] != _HEADER_SIZE or header[_COUNT] < 0:
        raise _bad(f"an MQCFH has {header[_LENGTH]} bytes and {header[_COUNT]} parameters")
    pieces = [struct.pack(f"{writing}9i", *header)]
    start += _HEADER_SIZE
    left = header[_COUNT]
    while left:
        kind, length = _longs(data, start, 2, reading)
        layout = _PARAMETERS.get(kind)
        if layout is None or length % _LONG_SIZE or not layout.size <= length <= len(data) - start:
            raise _bad(f"a parameter of type {kind} has {length} bytes, of the {len(data) - start} that are left")
        fields = _longs(data, start, layout.size // _LONG_SIZE, reading)
        pieces.append(layout.convert(layout, fields, data[start + layout.size : start + length], source, target))
        start += length
        left -= 1
        if kind == _GROUP:
            left += _not_negative(fields[-1], "ParameterCount of a group")
    if start != len(data):
        raise _bad(f"{len(data) - start} bytes stand behind the last parameter")
    return b"".join(pieces)


class _Parameter:
    """The layout of a parameter: how many integers begin it, and what converts it with what stands behind them.

    `ccsid_at`: which of the integers is the CodedCharSetId of its strings. The last one is the length of what follows,
    or of each string; in a list how many there are is said by the one that `count_at` names.
    """

    def __init__(
        self,
        longs: int,
        convert: Callable[[_Parameter, Sequence[int], bytes, Coding, Coding], bytes],
        ccsid_at: int | None = None,
        count_at: int | None = None,
    ) -> None:
        self.size = longs * _LONG_SIZE
        self.convert = convert
        self.ccsid_at = ccsid_at
        self.count_at = count_at


def _longs(data: bytes, start: int, count: int, order: str) -> Sequence[int]:
    if start + count * _LONG_SIZE > len(data):
        raise _bad(f"{len(data) - start} bytes are left where a structure of PCF begins")
    return struct.unpack_from(f"{order}{count}i", data, start)


def _written(fields: Sequence[int], behind: bytes, target: Coding) -> bytes:
    """A parameter of these integers, and what stands behind them up to its end."""
    return struct.pack(f"{order_of(target, TARGET)}{len(fields)}i", *fields) + behind


def _plain(_: _Parameter, fields: Sequence[int], behind: bytes, source: Coding, target: Coding) -> bytes:
    """Integers alone."""
    return _written(fields, behind, target)


def _long_list(_: _Parameter, fields: Sequence[int], behind: bytes, source: Coding, target: Coding) -> bytes:
    return _integer_list("i", _LONG_SIZE, fields, behind, source, target)


def _integer64(_: _Parameter, fields: Sequence[int], behind: bytes, source: Coding, target: Coding) -> bytes:
    return _written(fields, integers(_head(behind, 8), "q", source, target) + behind[8:], target)


def _integer64_list(_: _Parameter, fields: Sequence[int], behind: bytes, source: Coding, target: Coding) -> bytes:
    return _integer_list("q", 8, fields, behind, source, target)


def _integer_list(code: str, size: int, fields: Sequence[int], behind: bytes, source: Coding, target: Coding) -> bytes:
    end = _not_negative(fields[-1], "Count") * size
    return _written(fields, integers(_head(behind, end), code, source, target) + behind[end:], target)


def _bytes(_: _Parameter, fields: Sequence[int], behind: bytes, source: Coding, target: Coding) -> bytes:
    """Bytes that stay what they are."""
    _head(behind, _not_negative(fields[-1], "StringLength"))
    return _written(fields, behind, target)


def _strings(layout: _Parameter, fields: Sequence[int], behind: bytes, source: Coding, target: Coding) -> bytes:
    """A string, or a list of strings of one length."""
    assert layout.ccsid_at is not None
    changed = list(fields)
    count = 1 if layout.count_at is None else _not_negative(fields[layout.count_at], "Count")
    end = count * _not_negative(fields[-1], "StringLength")
    own = fields[layout.ccsid_at]
    if own != _DEFAULT_CCSID:
        source = Coding(own, source.encoding)
        changed[layout.ccsid_at] = target.ccsid
    found, changed[-1] = strings(_head(behind, end), fields[-1], source, target)
    if len(found) != end:
        behind = found + bytes(-len(found) % _LONG_SIZE)
        changed[_LENGTH] = layout.size + len(behind)
    else:
        behind = found + behind[end:]
    return _written(changed, behind, target)


def _head(behind: bytes, size: int) -> bytes:
    """The first bytes of what stands behind the integers of a parameter."""
    if size > len(behind):
        raise _bad(f"a parameter is to have {size} bytes of values, and has {len(behind)}")
    return behind[:size]


def _not_negative(number: int, name: str) -> int:
    if number < 0:
        raise _bad(f"{name} is {number}")
    return number


def _bad(why: str) -> MQError:
    return MQError(MQRC.FORMAT_ERROR, why)


_PARAMETERS = {
    3: _Parameter(4, _plain),  # MQCFIN
    4: _Parameter(5, _strings, ccsid_at=3),  # MQCFST
    5: _Parameter(4, _long_list),  # MQCFIL
    6: _Parameter(6, _strings, ccsid_at=3, count_at=4),  # MQCFSL
    9: _Parameter(4, _bytes),  # MQCFBS
    13: _Parameter(5, _plain),  # MQCFIF
    14: _Parameter(6, _strings, ccsid_at=4),  # MQCFSF
    15: _Parameter(5, _bytes),  # MQCFBF
    _GROUP: _Parameter(4, _plain),  # MQCFGR
    23: _Parameter(4, _integer64),  # MQCFIN64
    25: _Parameter(4, _integer64_list),  # MQCFIL64
}
"""By the type that it says (MQCFT)."""
