"""The options of a put beyond the options of the MQI: when the message is available, and the key that tells a repeated
put from a new one (`docs/rules/handlers.md`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import repeat
from math import inf
from typing import TYPE_CHECKING, TypedDict

from broker.clock import Clock
from broker.mqi.delivery_fields import KEY_BYTES, NO_EXTRAS, SECONDS_MAX, WINDOW, PutExtras, check_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class PutArguments(TypedDict, total=False):
    """Of `delay` (seconds, or a timedelta) and `deliver_at` (a datetime with a zone, or seconds since 1970) at most one
    is given; an instant that has come means at once. `key` has 1 to 255 bytes; within `window` seconds of the delivery
    instant of the first message with it, or with None for as long as that is on its queue, a put with the same key is
    answered as made, and nothing is put.
    """

    delay: float | timedelta | None
    deliver_at: float | datetime | None
    key: str | bytes | None
    window: float | None


def put_extras(given: PutArguments) -> PutExtras:
    """Return the extra options of a put. Raises ValueError for both `delay` and `deliver_at`, a datetime without a
    zone, more than ten years, a key or a window that cannot be; TypeError for another kind of value.
    """
    if not given:
        return NO_EXTRAS
    unknown = given.keys() - PutArguments.__optional_keys__
    if unknown:
        raise TypeError(f"{sorted(unknown)[0]}= is no option of a put")
    delay, deliver_at = given.get("delay"), given.get("deliver_at")
    if delay is not None and deliver_at is not None:
        raise ValueError("delay= and deliver_at= are given: one of them says when the message is to be available")
    key, window = _key(given.get("key")), given.get("window", WINDOW)
    if "window" in given and not key:
        raise ValueError("window= is given without key=, whose window it is")
    if window is not None and not 0 < _number(window, "window") <= SECONDS_MAX:
        raise ValueError(f"window={window}: a number of seconds above 0, at most ten years, or None")
    extras = PutExtras(_delay(delay), _instant(deliver_at), key, window)
    return NO_EXTRAS if extras == NO_EXTRAS else extras


def each_put_extras(given: PutArguments, keys: Iterable[str | bytes | None] | None) -> Iterator[PutArguments]:
    """Yield the extra options of each put of a batch, whose messages have these keys."""
    return repeat(given) if keys is None else (PutArguments(**{**given, "key": key}) for key in keys)


def _delay(delay: float | timedelta | None) -> float:
    if delay is None:
        return 0.0
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else _number(delay, "delay")
    if seconds <= 0:
        return 0.0
    check_seconds("delay={}", seconds)
    return seconds


def _instant(deliver_at: float | datetime | None) -> float:
    if deliver_at is None:
        return 0.0
    if isinstance(deliver_at, datetime):
        if deliver_at.utcoffset() is None:
            raise ValueError(f"deliver_at={deliver_at} has no zone: it could be any of forty instants")
        seconds = deliver_at.timestamp()
    else:
        seconds = _number(deliver_at, "deliver_at")
    if not seconds <= Clock.time() + SECONDS_MAX:
        raise ValueError(
            f"deliver_at={seconds}: an instant, as a datetime or in seconds since 1970, at most ten years from now"
        )
    return max(seconds, 0.0)


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a number of seconds, not {value!r}")
    try:
        return float(value)
    except OverflowError:  # an integer that is longer than any float
        return inf if value > 0 else -inf


def _key(key: str | bytes | None) -> bytes:
    if key is None:
        return b""
    if not isinstance(key, str | bytes):
        raise TypeError(f"key is text or bytes, not {key!r}")
    encoded = key.encode() if isinstance(key, str) else key
    if not 0 < len(encoded) <= KEY_BYTES:
        raise ValueError(f"key has {len(encoded)} bytes: 1 to {KEY_BYTES}")
    return encoded
