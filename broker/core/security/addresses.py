"""Patterns of network addresses, as rules of channels have them (security 4.5).

A pattern is an address any of whose parts may be a range (`192.0.2.1-8`) or `*`, which stands for one part, or for all
that are missing (`192.*`, `192.*.2`, `2001:*:1`); `*` alone is for any address. An IPv6 address that maps one of IPv4
is that one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

_Range: TypeAlias = "tuple[int, int] | None"
"""The lowest and the highest number of a part; None for `*`."""

_REMEMBERED: Final = 4096
_HOST_NAME: Final = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9.*_-]+")
_MAPPED: Final = ((0, 0),) * 5 + ((0xFFFF, 0xFFFF),)
_PARTS: Final = {4: 4, 6: 8}


class AddressPattern(NamedTuple):
    """A pattern that was taken apart. The version is 4 or 6; 0 fits any address."""

    version: int
    parts: tuple[_Range, ...] = ()


class _NoPatternError(ValueError):
    """The text is no pattern; the exception says why."""


def check(text: str, *, host_names: bool = True) -> str | None:
    """Return the error in a pattern, as a text; None if it has none. A host name is none where one is allowed, and fits
    no address.
    """
    if host_names and is_host_name(text):
        return None
    try:
        parse(text)
    except _NoPatternError as error:
        return f"{text!r} is no address pattern, {error}: give one as 192.0.2.7, 192.0.2.1-8, 192.0.2.* or *"
    return None


def is_host_name(text: str) -> bool:
    """True if the text can be the name of a host, and no address."""
    return _HOST_NAME.fullmatch(text) is not None


def matches(pattern: str, address: str) -> bool:
    """True if the pattern fits an address. Host names and what else is no pattern fit none; but `*` fits whatever the
    other side gives as its address.
    """
    wanted, given = _parsed(pattern), _parsed(address)
    if wanted is None or wanted.version == 0 or given is None:
        return wanted is not None and wanted.version == 0
    return wanted.version == given.version and _fit(wanted.parts, given.parts)


def rank(pattern: str) -> tuple[tuple[int, int], ...]:
    """Return a key by which patterns that fit one address are sorted, the most specific first.

    They are compared from the left: a number comes before a range, a narrower range before a wider one, these before
    `*`, and the longer pattern before its own beginning. The empty pattern, which asks for nothing, comes last.
    """
    parsed = _parsed(pattern)
    if parsed is None:
        return ((4, 0),)
    parts = parsed.parts or (None,)
    ranks = ((2, 0) if each is None else (int(each[0] < each[1]), each[1] - each[0]) for each in parts)
    return (*ranks, (3, 0))


def is_loopback(address: str) -> bool:
    """True if the address is one of this very machine."""
    return matches("127.*", address) or matches("::1", address)


@lru_cache(_REMEMBERED)
def _parsed(text: str) -> AddressPattern | None:
    try:
        return parse(text)
    except _NoPatternError:
        return None


def parse(text: str) -> AddressPattern:
    """Take a pattern apart, or an address, which is one without wildcards; `ValueError` says why it is none."""
    if text == "*":
        return AddressPattern(0)
    if ":" in text:
        parts = _ipv6(text.partition("%")[0])
        numbers = [each[0] for each in parts[6:] if each is not None and each[0] == each[1]]
        if parts[:6] == _MAPPED and len(numbers) == 2:
            return AddressPattern(4, tuple((byte, byte) for each in numbers for byte in divmod(each, 256)))
        return AddressPattern(6, parts)
    return AddressPattern(4, _ipv4(text))


def _ipv4(text: str) -> tuple[_Range, ...]:
    parts = tuple(_part(each, 10, 255) for each in text.split("."))
    _check_length(parts, _PARTS[4])
    return parts


def _ipv6(text: str) -> tuple[_Range, ...]:
    head, double, tail = text.partition("::")
    if "::" in tail or (double and text.endswith("*")):
        raise _NoPatternError("what :: stands for is not clear in it")
    parts = [_groups(head), _groups(tail)]
    if double:
        left = _PARTS[6] - sum(map(len, parts))
        if left < 1:
            raise _NoPatternError(f"it has more than {_PARTS[6]} parts")
        parts.insert(1, ((0, 0),) * left)
    joined = tuple(each for some in parts for each in some)
    _check_length(joined, _PARTS[6])
    return joined


def _groups(text: str) -> tuple[_Range, ...]:
    """The parts between colons; an IPv4 address at the end is two of them."""
    if not text:
        return ()
    *before, last = text.split(":")
    if "." in last:
        numbers = [each[0] for each in _ipv4(last) if each is not None and each[0] == each[1]]
        if len(numbers) != _PARTS[4]:
            raise _NoPatternError("an IPv4 address at its end has wildcards")
        a, b, c, d = numbers
        ends: tuple[_Range, ...] = ((a << 8 | b,) * 2, (c << 8 | d,) * 2)
    else:
        ends = (_part(last, 16, 0xFFFF),)
    return (*(_part(each, 16, 0xFFFF) for each in before), *ends)


def _part(text: str, base: int, highest: int) -> _Range:
    if text == "*":
        return None
    first, hyphen, last = text.partition("-")
    low, high = _number(first, base), _number(last if hyphen else first, base)
    if not low <= high <= highest:
        raise _NoPatternError(f"part {text!r} is not a number or a range up to {highest:{'x' if base == 16 else 'd'}}")
    return (low, high)


def _number(text: str, base: int) -> int:
    digits = "0123456789abcdef"[:base]
    if not 0 < len(text) <= 4 or not set(text.lower()) <= set(digits):
        raise _NoPatternError(f"{text!r} is no part of an address")
    return int(text, base)


def _check_length(parts: tuple[_Range, ...], length: int) -> None:
    if len(parts) > length:
        raise _NoPatternError(f"it has more than {length} parts")
    if len(parts) < length and None not in parts:
        raise _NoPatternError(f"it has fewer than {length} parts, and no *")
    if parts[-2:] == (None, None):
        raise _NoPatternError("it ends in two asterisks, where one is enough")


def _fit(wanted: tuple[_Range, ...], given: tuple[_Range, ...]) -> bool:
    """True if the parts of a pattern fit those of an address, each `*` for one or more."""
    if not wanted or len(given) < len(wanted):
        return not wanted and not given
    first, rest = wanted[0], wanted[1:]
    if first is None:
        return any(_fit(rest, given[taken:]) for taken in range(1, len(given) - len(rest) + 1))
    number = given[0]
    return number is not None and first[0] <= number[0] <= number[1] <= first[1] and _fit(rest, given[1:])
