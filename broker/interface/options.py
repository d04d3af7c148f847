"""The options of puts and gets: from what a program gives, flags or a structure, to the structure of its call."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from operator import index

from broker.interface.batches.async_puts import ASYNC_RESPONSE
from broker.mqi.constants.options import MQGMO, MQPMO, MQWI
from broker.mqi.structures import GetMessageOptions, PutMessageOptions

_WAIT = MQGMO.WAIT.value
_GET_SYNCPOINT = MQGMO.SYNCPOINT.value
_GET_NOT_IN_UNIT = (
    MQGMO.SYNCPOINT | MQGMO.NO_SYNCPOINT | MQGMO.SYNCPOINT_IF_PERSISTENT | MQGMO.BROWSE_FIRST | MQGMO.BROWSE_NEXT
    | MQGMO.BROWSE_MSG_UNDER_CURSOR | MQGMO.UNLOCK
).value  # fmt: skip
_PUT_SYNCPOINT = MQPMO.SYNCPOINT.value
_PUT_NOT_IN_UNIT = (MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT).value
_FOREVER = float("inf")
_UNLIMITED = MQWI.UNLIMITED.value
_INTERVAL_MAX = 2**31 - 1  # ms: what a LONG holds


def put_options(options: PutMessageOptions | int, *, in_unit: bool) -> PutMessageOptions:
    """The whole structure, under syncpoint inside `unit_of_work()` where it names no syncpoint option."""
    if isinstance(options, PutMessageOptions):
        return _put_structure(options, in_unit=in_unit)
    chosen = options if type(options) is int else flags(options, "MQPMO flags or PutMessageOptions")
    if in_unit and not chosen & _PUT_NOT_IN_UNIT:
        chosen |= _PUT_SYNCPOINT
    return _put_flags_alone(chosen)


def _put_structure(options: PutMessageOptions, *, in_unit: bool) -> PutMessageOptions:
    chosen = int(options.options)
    if in_unit and not chosen & _PUT_NOT_IN_UNIT:
        chosen |= _PUT_SYNCPOINT
    context = getattr(options.context, "hobj", options.context)  # that of an open queue, or of a handle
    if chosen == options.options and context == options.context:
        return options
    return replace(options, options=chosen, context=context)


def flags(options: int, forms: str) -> int:
    """The options of a call as an integer. Raises TypeError, which says what `forms` options have."""
    try:
        if not isinstance(options, bool):
            return int(index(options))  # without the names of flags, which make every look at it slow
    except TypeError:
        pass
    raise TypeError(f"options is {forms}, not {options!r}")


def milliseconds(wait: float) -> int:
    """The WaitInterval for so many seconds. Raises TypeError and ValueError."""
    try:
        if wait == _FOREVER:
            return _UNLIMITED
        interval = round(wait * 1000) if wait >= 0 else -1
    except TypeError:
        raise TypeError(f"wait is a number of seconds, not {wait!r}") from None
    if not 0 <= interval <= _INTERVAL_MAX:
        raise ValueError(f"wait={wait}: 0 to {_INTERVAL_MAX / 1000} seconds, or float('inf') for ever")
    return interval


@lru_cache
def _put_flags_alone(options: int) -> PutMessageOptions:
    """The structure for a put that names flags alone: nobody changes it."""
    return PutMessageOptions(options=options)


@lru_cache
def _get_flags_alone(options: int) -> GetMessageOptions:
    """The structure for a get that names flags alone."""
    return GetMessageOptions(options=options)


def answered_later(pmo: PutMessageOptions) -> PutMessageOptions:
    """The options of an asynchronous put, which they name."""
    return replace(pmo, options=pmo.options | ASYNC_RESPONSE)


def get_options(options: GetMessageOptions | int, wait: float | None, *, in_unit: bool) -> GetMessageOptions:
    """The whole structure, with `wait` and the syncpoint of `unit_of_work()` worked in."""
    if isinstance(options, GetMessageOptions):
        gmo = options
    else:
        gmo = _get_flags_alone(options if type(options) is int else flags(options, "MQGMO flags or GetMessageOptions"))
    chosen, interval = gmo.options, gmo.wait_interval
    if in_unit and not chosen & _GET_NOT_IN_UNIT:
        chosen |= _GET_SYNCPOINT
    if wait is not None:
        if gmo is options and chosen & _WAIT:
            raise ValueError("wait= is given beside options that have WAIT already: use one of them")
        chosen |= _WAIT
        interval = milliseconds(wait)
    if chosen == gmo.options and interval == gmo.wait_interval:
        return gmo
    return GetMessageOptions(
        options=chosen,
        wait_interval=interval,
        match_options=gmo.match_options,
        msg_token=gmo.msg_token,
        version=gmo.version,
    )
