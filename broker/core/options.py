"""Which options go together: the rules of MQOPEN, MQGET and MQPUT that need to know nothing but the options.

Each check raises OPTIONS_ERROR (2046) and names the options at fault. The outcome of a check is remembered, since
programs use few combinations. Options that MQ knows and this version does not offer yet are refused, never ignored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from broker.mqi.errors import MQError
from broker.mqi.options import MQGMO, MQOO, MQPMO
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from enum import IntFlag

_INPUT = MQOO.INPUT_AS_Q_DEF | MQOO.INPUT_SHARED | MQOO.INPUT_EXCLUSIVE
_BINDS = MQOO.BIND_ON_OPEN | MQOO.BIND_NOT_FIXED | MQOO.BIND_ON_GROUP
_READ_AHEADS = MQOO.NO_READ_AHEAD | MQOO.READ_AHEAD
_OPENS = _INPUT | MQOO.BROWSE | MQOO.OUTPUT | MQOO.INQUIRE | MQOO.SET
_OPEN_OFFERED = _OPENS | _BINDS | _READ_AHEADS | MQOO.FAIL_IF_QUIESCING | MQOO.RESOLVE_NAMES | MQOO.RESOLVE_LOCAL_Q

_SYNCPOINTS = MQGMO.SYNCPOINT | MQGMO.NO_SYNCPOINT | MQGMO.SYNCPOINT_IF_PERSISTENT
_BROWSES = MQGMO.BROWSE_FIRST | MQGMO.BROWSE_NEXT | MQGMO.BROWSE_MSG_UNDER_CURSOR
_GET_OFFERED = (
    _SYNCPOINTS | _BROWSES | MQGMO.MSG_UNDER_CURSOR | MQGMO.WAIT | MQGMO.ACCEPT_TRUNCATED_MSG | MQGMO.FAIL_IF_QUIESCING
)

_PUT_OFFERED = (
    MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT | MQPMO.NEW_MSG_ID | MQPMO.NEW_CORREL_ID | MQPMO.DEFAULT_CONTEXT
    | MQPMO.NO_CONTEXT | MQPMO.FAIL_IF_QUIESCING | MQPMO.SYNC_RESPONSE
)  # fmt: skip


@lru_cache(maxsize=1024)
def check_open(options: int) -> None:
    """MQOPEN (messages.md 9.1)."""
    given = MQOO(options)
    _check_offered("MQOO", given, _OPEN_OFFERED)
    if not given & _OPENS:
        raise MQError(MQRC.OPTIONS_ERROR, "an open needs at least one of INPUT_*, BROWSE, OUTPUT, INQUIRE, SET")
    _check_one_of("MQOO", given, _INPUT)
    _check_one_of("MQOO", given, _BINDS)
    _check_one_of("MQOO", given, _READ_AHEADS)


@lru_cache(maxsize=1024)
def check_get(options: int) -> None:
    """MQGET (messages.md 5.2)."""
    given = MQGMO(options)
    _check_offered("MQGMO", given, _GET_OFFERED)
    _check_one_of("MQGMO", given, _SYNCPOINTS)
    _check_one_of("MQGMO", given, _BROWSES | MQGMO.MSG_UNDER_CURSOR)
    if given & _BROWSES and given & (MQGMO.SYNCPOINT | MQGMO.SYNCPOINT_IF_PERSISTENT):
        raise MQError(MQRC.OPTIONS_ERROR, f"{_names('MQGMO', given)}: a browse is never under syncpoint")


@lru_cache(maxsize=1024)
def check_put(options: int) -> None:
    """MQPUT and MQPUT1 (messages.md 1.4, 10)."""
    given = MQPMO(options)
    _check_offered("MQPMO", given, _PUT_OFFERED)
    _check_one_of("MQPMO", given, MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT)
    _check_one_of("MQPMO", given, MQPMO.DEFAULT_CONTEXT | MQPMO.NO_CONTEXT)


def _check_offered(family: str, given: IntFlag, offered: IntFlag) -> None:
    rest = int(given) & ~int(offered)  # ~ of a flag knows nothing of bits that are not defined
    if rest:
        raise MQError(
            MQRC.OPTIONS_ERROR, f"{_names(family, type(given)(rest))}: not defined, or not offered by this version"
        )


def _check_one_of(family: str, given: IntFlag, choices: IntFlag) -> None:
    both = type(given)(given & choices)
    if both & (both - 1):
        raise MQError(MQRC.OPTIONS_ERROR, f"{_names(family, both)}: at most one of these at a time")


def _names(family: str, options: IntFlag) -> str:
    known = [f"{family}_{flag.name}" for flag in options if flag.name and "|" not in flag.name]
    unknown = int(options) & ~sum(int(flag) for flag in type(options))
    return " | ".join([*known, *([f"{unknown:#x}"] if unknown else [])])
