"""The rules of MQOPEN, MQGET and MQPUT about options that exclude or need each other.

Each check raises OPTIONS_ERROR (2046) and names the options at fault. The outcome of a check is remembered, since
programs use few combinations. Options that MQ knows and this version does not offer yet are refused, never ignored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from broker.mqi.constants.options import MQGMO, MQOO, MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from enum import IntFlag

_INPUT = MQOO.INPUT_AS_Q_DEF | MQOO.INPUT_SHARED | MQOO.INPUT_EXCLUSIVE
_BINDS = MQOO.BIND_ON_OPEN | MQOO.BIND_NOT_FIXED | MQOO.BIND_ON_GROUP
_READ_AHEADS = MQOO.NO_READ_AHEAD | MQOO.READ_AHEAD
_OPENS = _INPUT | MQOO.BROWSE | MQOO.OUTPUT | MQOO.INQUIRE | MQOO.SET
_OUTPUT_CONTEXTS = MQOO.PASS_IDENTITY_CONTEXT | MQOO.PASS_ALL_CONTEXT | MQOO.SET_IDENTITY_CONTEXT | MQOO.SET_ALL_CONTEXT
_OPEN_OFFERED = (
    _OPENS | _BINDS | _READ_AHEADS | _OUTPUT_CONTEXTS | MQOO.SAVE_ALL_CONTEXT | MQOO.CO_OP | MQOO.NO_MULTICAST
    | MQOO.FAIL_IF_QUIESCING | MQOO.RESOLVE_NAMES | MQOO.RESOLVE_LOCAL_Q | MQOO.ALTERNATE_USER_AUTHORITY
)  # fmt: skip

_SYNCPOINTS = MQGMO.SYNCPOINT | MQGMO.NO_SYNCPOINT | MQGMO.SYNCPOINT_IF_PERSISTENT
_BROWSES = MQGMO.BROWSE_FIRST | MQGMO.BROWSE_NEXT | MQGMO.BROWSE_MSG_UNDER_CURSOR
_MARKS = MQGMO.MARK_BROWSE_HANDLE | MQGMO.MARK_BROWSE_CO_OP
_UNMARKS = MQGMO.UNMARK_BROWSE_HANDLE | MQGMO.UNMARK_BROWSE_CO_OP
_ALL_MARKS = _MARKS | _UNMARKS | MQGMO.UNMARKED_BROWSE_MSG
_COMPLETES = MQGMO.COMPLETE_MSG | MQGMO.ALL_MSGS_AVAILABLE | MQGMO.ALL_SEGMENTS_AVAILABLE
_PROPERTIES = (
    MQGMO.PROPERTIES_FORCE_MQRFH2 | MQGMO.NO_PROPERTIES | MQGMO.PROPERTIES_IN_HANDLE | MQGMO.PROPERTIES_COMPATIBILITY
)
_GET_OFFERED = (
    _SYNCPOINTS | _BROWSES | _ALL_MARKS | _COMPLETES | MQGMO.MSG_UNDER_CURSOR | MQGMO.LOCK | MQGMO.UNLOCK
    | MQGMO.LOGICAL_ORDER | MQGMO.WAIT | MQGMO.ACCEPT_TRUNCATED_MSG | MQGMO.FAIL_IF_QUIESCING | MQGMO.CONVERT
    | _PROPERTIES
)  # fmt: skip

_GET_CONFLICTS = (
    (MQGMO.SYNCPOINT, _BROWSES | MQGMO.LOCK | MQGMO.UNLOCK),
    (MQGMO.SYNCPOINT_IF_PERSISTENT, _BROWSES | MQGMO.COMPLETE_MSG | MQGMO.UNLOCK),
    (MQGMO.UNLOCK, ~(MQGMO.UNLOCK | MQGMO.NO_SYNCPOINT)),
    (_ALL_MARKS, _COMPLETES | MQGMO.LOCK | MQGMO.UNLOCK | MQGMO.LOGICAL_ORDER),
    (_MARKS, _UNMARKS),
)
"""Pairs of which only one may be given (semantics 5.2)."""

_GET_NEEDS = (
    (MQGMO.LOCK, _BROWSES),
    (_MARKS | MQGMO.UNMARKED_BROWSE_MSG, _BROWSES),
)
"""Options of a get that need one of the second."""

_CONTEXTS = (
    MQPMO.DEFAULT_CONTEXT | MQPMO.NO_CONTEXT | MQPMO.PASS_IDENTITY_CONTEXT | MQPMO.PASS_ALL_CONTEXT
    | MQPMO.SET_IDENTITY_CONTEXT | MQPMO.SET_ALL_CONTEXT
)  # fmt: skip
_RESPONSES = MQPMO.SYNC_RESPONSE | MQPMO.ASYNC_RESPONSE
_PUT_OFFERED = (
    _CONTEXTS | MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT | MQPMO.NEW_MSG_ID | MQPMO.NEW_CORREL_ID | MQPMO.LOGICAL_ORDER
    | MQPMO.FAIL_IF_QUIESCING | _RESPONSES | MQPMO.RESOLVE_LOCAL_Q
)  # fmt: skip


@lru_cache(maxsize=1024)
def check_open(options: int) -> None:
    """MQOPEN (semantics 9.1)."""
    given = MQOO(options)
    _check_offered("MQOO", given, _OPEN_OFFERED)
    if not given & _OPENS:
        raise MQError(MQRC.OPTIONS_ERROR, "an open needs at least one of INPUT_*, BROWSE, OUTPUT, INQUIRE, SET")
    for choices in (_INPUT, _BINDS, _READ_AHEADS):
        _check_one_of("MQOO", given, choices)
    _check_needs("MQOO", given, MQOO.SAVE_ALL_CONTEXT, _INPUT)
    _check_needs("MQOO", given, _OUTPUT_CONTEXTS | MQOO.NO_MULTICAST, MQOO.OUTPUT)
    _check_needs("MQOO", given, MQOO.CO_OP, MQOO.BROWSE)


@lru_cache(maxsize=1024)
def check_get(options: int) -> None:
    """MQGET (semantics 5.2)."""
    given = MQGMO(options)
    _check_offered("MQGMO", given, _GET_OFFERED)
    for choices in (_SYNCPOINTS, _BROWSES | MQGMO.MSG_UNDER_CURSOR, _PROPERTIES):
        _check_one_of("MQGMO", given, choices)
    for one, other in _GET_CONFLICTS:
        if given & one and given & other:
            both = MQGMO(given & (one | other))
            raise MQError(MQRC.OPTIONS_ERROR, f"{_names('MQGMO', both)}: these do not go together")
    for option, needed in _GET_NEEDS:
        _check_needs("MQGMO", given, option, needed)


@lru_cache(maxsize=1024)
def check_put(options: int, *, opens: bool = False) -> None:
    """MQPUT, or MQPUT1, which `opens` (semantics 1.4, 10)."""
    given = MQPMO(options)
    _check_offered("MQPMO", given, _PUT_OFFERED | (MQPMO.ALTERNATE_USER_AUTHORITY if opens else MQPMO.NONE))
    for choices in (MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT, _CONTEXTS, _RESPONSES):
        _check_one_of("MQPMO", given, choices)


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


def _check_needs(family: str, given: IntFlag, option: IntFlag, needed: IntFlag) -> None:
    if given & option and not given & needed:
        named = type(given)(given & option)
        raise MQError(MQRC.OPTIONS_ERROR, f"{_names(family, named)}: only together with {_names(family, needed)}")


def _names(family: str, options: IntFlag) -> str:
    known = [f"{family}_{flag.name}" for flag in options if flag.name and "|" not in flag.name]
    unknown = int(options) & ~sum(int(flag) for flag in type(options))
    return " | ".join([*known, *([f"{unknown:#x}"] if unknown else [])])
