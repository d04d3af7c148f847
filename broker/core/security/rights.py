"""The rights that authority records give, by IBM MQ's words for them (security 5 to 7)."""

from __future__ import annotations

from enum import IntFlag
from typing import Final

from broker.mqi.constants.objects import MQOT


class Right(IntFlag):
    """A set of rights. A bit that was once given is never used for another: definitions keep them."""

    NONE = 0
    CONNECT = 1 << 0
    ALTUSR = 1 << 1
    BROWSE = 1 << 2
    GET = 1 << 3
    INQ = 1 << 4
    PASSALL = 1 << 5
    PASSID = 1 << 6
    PUT = 1 << 7
    SET = 1 << 8
    SETALL = 1 << 9
    SETID = 1 << 10
    CHG = 1 << 11
    CLR = 1 << 12
    CRT = 1 << 13
    CTRL = 1 << 14
    CTRLX = 1 << 15
    DLT = 1 << 16
    DSP = 1 << 17
    PUB = 1 << 18
    SUB = 1 << 19
    RESUME = 1 << 20
    SYSTEM = 1 << 21


Q: Final = MQOT.Q.value
Q_MGR: Final = MQOT.Q_MGR.value

_CONTEXT: Final = Right.PASSALL | Right.PASSID | Right.SETALL | Right.SETID
_ADMINISTERED: Final = Right.CHG | Right.DLT | Right.DSP
_CONTROLLED: Final = _ADMINISTERED | Right.CTRL

ALL_MQI: Final[dict[int, Right]] = {
    Q: _CONTEXT | Right.BROWSE | Right.GET | Right.INQ | Right.PUT | Right.SET,
    Q_MGR: Right.ALTUSR | Right.CONNECT | Right.INQ | Right.SET | Right.SETALL | Right.SETID,
    MQOT.PROCESS.value: Right.INQ | Right.SET,
    MQOT.NAMELIST.value: Right.INQ,
    MQOT.AUTH_INFO.value: Right.INQ,
    MQOT.TOPIC.value: _CONTEXT | Right.PUB | Right.RESUME | Right.SUB,
    MQOT.REMOTE_Q_MGR_NAME.value: Right.PUT,
}
"""ALLMQI, by the type of the object (MQOT); none of other types."""

ALL_ADMINISTRATION: Final[dict[int, Right]] = {
    Q: _ADMINISTERED | Right.CLR,
    Q_MGR: Right.CHG | Right.DSP | Right.CTRL,
    MQOT.PROCESS.value: _ADMINISTERED,
    MQOT.NAMELIST.value: _ADMINISTERED,
    MQOT.AUTH_INFO.value: _ADMINISTERED,
    MQOT.TOPIC.value: _CONTROLLED,
    MQOT.CHANNEL.value: _CONTROLLED | Right.CTRLX,
    MQOT.CLNTCONN_CHANNEL.value: _ADMINISTERED,
    MQOT.LISTENER.value: _CONTROLLED,
    MQOT.SERVICE.value: _CONTROLLED,
    MQOT.COMM_INFO.value: _ADMINISTERED,
}
"""ALLADM, by the type of the object; none of other types."""

TYPE_WORDS: Final = {
    MQOT.AUTH_INFO.value: "AUTHINFO",
    MQOT.CHANNEL.value: "CHANNEL",
    MQOT.CLNTCONN_CHANNEL.value: "CLNTCONN",
    MQOT.COMM_INFO.value: "COMMINFO",
    MQOT.LISTENER.value: "LISTENER",
    MQOT.NAMELIST.value: "NAMELIST",
    MQOT.PROCESS.value: "PROCESS",
    Q: "QUEUE",
    Q_MGR: "QMGR",
    MQOT.REMOTE_Q_MGR_NAME.value: "RQMNAME",
    MQOT.SERVICE.value: "SERVICE",
    MQOT.TOPIC.value: "TOPIC",
}
"""The words of OBJTYPE, by the type of the object."""


def all_of(object_type: int) -> Right:
    """ALL of a type of object: ALLMQI and ALLADM, without CRT (security 6.4)."""
    nothing = Right.NONE
    return ALL_MQI.get(object_type, nothing) | ALL_ADMINISTRATION.get(object_type, nothing)


def words_of(rights: Right) -> str:
    """Return the words of a set of rights, with commas, as SET AUTHREC takes them."""
    return ",".join(str(each.name) for each in rights) or "NONE"


def rights_of(text: str) -> Right:
    """Return the set of rights of these words, with commas, in any letter case. Raises ValueError for others."""
    rights = Right.NONE
    for word in text.split(","):
        named = Right.__members__.get(word.strip().upper())
        if not named:
            known = ", ".join(str(each.name).lower() for each in Right)
            raise ValueError(f"{word.strip()!r} is no right: give some of {known}")
        rights |= named
    return rights
