"""The attributes of channels, in the order in which DISPLAY prints them (security 2).

Channels to which clients connect (SVRCONN) act; those of other types are kept and shown.
"""

from __future__ import annotations

from dataclasses import replace

from broker.commands.table.forms import Integer, ListOf, Name, Pattern, Text, WordChoice
from broker.commands.table.queues import COUNT, QSGDISP_OF_SECURITY, YES_NO
from broker.commands.table.row import Acts, Attribute, Origin
from broker.commands.table.users import EntityName, Secret
from broker.core.security import distinguished_names
from broker.core.security.facts import SERVER_CONNECTION as SVRCONN
from broker.mqi.constants.attribute_values import MQMON

SDR, SVR, RCVR, RQSTR, CLIENT, CLUSRCVR, CLUSSDR, AMQP = 1, 2, 3, 4, 6, 8, 9, 11  # MQCHT
CHANNEL_TYPES = {
    "SDR": SDR, "SVR": SVR, "RCVR": RCVR, "RQSTR": RQSTR, "SVRCONN": SVRCONN, "CLUSRCVR": CLUSRCVR, "CLUSSDR": CLUSSDR,
    "AMQP": AMQP,
}  # fmt: skip

_CLUSTER = (CLUSSDR, CLUSRCVR)
_SENDERS = (SDR, SVR, *_CLUSTER)
_RECEIVERS = (RCVR, RQSTR, CLUSRCVR)
_CALLERS = (SDR, SVR, RQSTR, *_CLUSTER)
_MESSAGES = (SDR, SVR, RCVR, RQSTR, *_CLUSTER)
_LINES = (*_MESSAGES, SVRCONN)
_CLIENTS = (SVRCONN, AMQP)

CHANNEL_NAME = Name(20)
_DETAIL = WordChoice(
    {
        "QMGR": MQMON.Q_MGR.value,
        "OFF": MQMON.OFF.value,
        "LOW": MQMON.LOW.value,
        "MEDIUM": MQMON.MEDIUM.value,
        "HIGH": MQMON.HIGH.value,
    }
)
_TRANSPORTS = WordChoice({"LU62": 1, "TCP": 2, "NETBIOS": 3, "SPX": 4})
_INSTANCES = 999999999
DISTINGUISHED_NAME = Pattern(1024, distinguished_names.check, "distinguished names, as CN='shop*',OU='sales'")
_NO_CERTIFICATE = "the certificate of [tls] is used"

CHANNEL = (
    Attribute("CHANNEL", None, CHANNEL_NAME, origin=Origin.NAME),
    Attribute(
        "CHLTYPE",
        None,
        WordChoice(CHANNEL_TYPES),
        SVRCONN,
        ignored=tuple(each for each in CHANNEL_TYPES.values() if each != SVRCONN),
    ),
    Attribute("ALTDATE", None, Text(12), origin=Origin.KEPT),
    Attribute("ALTTIME", None, Text(8), origin=Origin.KEPT),
    Attribute("AMQPKA", None, Integer(0, 99999, {"AUTO": -1}), -1, acts=Acts.NO, types=(AMQP,)),
    Attribute("BATCHHB", None, COUNT, 0, acts=Acts.NO, types=_SENDERS),
    Attribute("BATCHINT", None, COUNT, 0, acts=Acts.NO, types=_SENDERS),
    Attribute("BATCHLIM", None, COUNT, 5000, acts=Acts.NO, types=_SENDERS),
    Attribute("BATCHSZ", None, Integer(1, 9999), 50, acts=Acts.NO, types=_MESSAGES),
    Attribute("CERTLABL", None, Text(64), acts=Acts.NO, instead=_NO_CERTIFICATE),
    Attribute("CLUSNL", None, Name(), acts=Acts.NO, types=_CLUSTER),
    Attribute("CLUSTER", None, Name(), acts=Acts.NO, types=_CLUSTER),
    Attribute("CLWLPRTY", None, Integer(0, 9), 0, acts=Acts.NO, types=_CLUSTER),
    Attribute("CLWLRANK", None, Integer(0, 9), 0, acts=Acts.NO, types=_CLUSTER),
    Attribute("CLWLWGHT", None, Integer(1, 99), 50, acts=Acts.NO, types=_CLUSTER),
    Attribute("COMPHDR", None, ListOf(Text(12), 2), "NONE", acts=Acts.NO, types=_LINES),
    Attribute("COMPMSG", None, ListOf(Text(12), 16), "NONE", acts=Acts.NO, types=_LINES),
    Attribute("CONNAME", None, ListOf(Text(264), 32), acts=Acts.NO, types=_CALLERS),
    Attribute("CONVERT", None, YES_NO, 0, acts=Acts.NO, types=_SENDERS),
    Attribute("DESCR", None, Text(64), acts=Acts.PROGRAMS),
    Attribute("DISCINT", None, COUNT, 6000, acts=Acts.NO, types=(*_SENDERS, SVRCONN), defaults={SVRCONN: 0}),
    Attribute("HBINT", None, Integer(0, 999999), 300, types=_LINES),
    Attribute("KAINT", None, Integer(0, 99999, {"AUTO": -1}), -1, acts=Acts.NO, types=_LINES),
    Attribute("LOCLADDR", None, Text(48), acts=Acts.NO, types=(*_CALLERS, AMQP)),
    Attribute("LONGRTY", None, COUNT, 999999999, acts=Acts.NO, types=_SENDERS),
    Attribute("LONGTMR", None, COUNT, 1200, acts=Acts.NO, types=_SENDERS),
    Attribute("MAXINST", None, COUNT, _INSTANCES, types=_CLIENTS),
    Attribute("MAXINSTC", None, COUNT, _INSTANCES, types=(SVRCONN,)),
    Attribute("MAXMSGL", None, Integer(0, 104857600), 4194304, types=(*_LINES, AMQP)),
    Attribute("MCANAME", None, Text(20), acts=Acts.NO, types=_CALLERS),
    Attribute("MCATYPE", None, WordChoice({"PROCESS": 1, "THREAD": 2}), 1, acts=Acts.NO, types=_CALLERS),
    Attribute("MCAUSER", None, EntityName(words=True)),
    Attribute("MODENAME", None, Text(8), acts=Acts.NO, types=_CALLERS),
    Attribute("MONCHL", None, _DETAIL, MQMON.Q_MGR.value, acts=Acts.NO, types=_LINES),
    Attribute("MRDATA", None, Text(32), acts=Acts.NO, types=_RECEIVERS),
    Attribute("MREXIT", None, Text(128), acts=Acts.NO, types=_RECEIVERS),
    Attribute("MRRTY", None, COUNT, 10, acts=Acts.NO, types=_RECEIVERS),
    Attribute("MRTMR", None, COUNT, 1000, acts=Acts.NO, types=_RECEIVERS),
    Attribute("MSGDATA", None, ListOf(Text(32), 32), acts=Acts.NO, types=_MESSAGES),
    Attribute("MSGEXIT", None, ListOf(Text(128), 32), acts=Acts.NO, types=_MESSAGES),
    Attribute("NETPRTY", None, Integer(0, 9), 0, acts=Acts.NO, types=(CLUSRCVR,)),
    Attribute("NPMSPEED", None, WordChoice({"NORMAL": 1, "FAST": 2}), 2, acts=Acts.NO, types=_MESSAGES),
    Attribute("PASSWORD", None, Secret(12), acts=Acts.NO, types=_CALLERS, instead="not the password, but SET"),
    Attribute("PORT", None, Integer(0, 65535), 0, acts=Acts.NO, types=(AMQP,)),
    Attribute(
        "PROPCTL",
        None,
        WordChoice({"COMPAT": 0, "NONE": 1, "ALL": 2, "FORCE": 3, "V6COMPAT": 4}),
        0,
        acts=Acts.NO,
        types=_SENDERS,
    ),
    Attribute(
        "PUTAUT",
        None,
        WordChoice({"DEF": 1, "CTX": 2, "ONLYMCA": 3, "ALTMCA": 4}),
        1,
        acts=Acts.NO,
        types=(*_RECEIVERS, SVRCONN),
        quiet=True,
    ),
    QSGDISP_OF_SECURITY,
    Attribute("RCVDATA", None, ListOf(Text(32), 32), acts=Acts.NO, types=_LINES),
    Attribute("RCVEXIT", None, ListOf(Text(128), 32), acts=Acts.NO, types=_LINES),
    Attribute("SCYDATA", None, Text(32), acts=Acts.NO, types=_LINES),
    Attribute("SCYEXIT", None, Text(128), acts=Acts.NO, types=_LINES),
    Attribute("SENDDATA", None, ListOf(Text(32), 32), acts=Acts.NO, types=_LINES),
    Attribute("SENDEXIT", None, ListOf(Text(128), 32), acts=Acts.NO, types=_LINES),
    Attribute("SEQWRAP", None, Integer(100, 999999999), 999999999, acts=Acts.NO, types=_MESSAGES),
    Attribute("SHARECNV", None, COUNT, 10, types=(SVRCONN,)),
    Attribute("SHORTRTY", None, COUNT, 10, acts=Acts.NO, types=_SENDERS),
    Attribute("SHORTTMR", None, COUNT, 60, acts=Acts.NO, types=_SENDERS),
    Attribute(
        "SPLPROT",
        None,
        WordChoice({"PASSTHRU": 0, "REMOVE": 1, "ASPOLICY": 2}),
        0,
        acts=Acts.NO,
        types=(SDR, SVR, RCVR, RQSTR),
        quiet=True,
    ),
    Attribute(
        "SSLCAUTH",
        None,
        WordChoice({"REQUIRED": 0, "OPTIONAL": 1}),
        0,
        types=(SVR, RCVR, RQSTR, CLUSRCVR, *_CLIENTS),
    ),
    Attribute("SSLCIPH", None, Text(40), types=(*_LINES, AMQP)),
    Attribute("SSLPEER", None, DISTINGUISHED_NAME, types=(*_LINES, AMQP)),
    Attribute("STATCHL", None, _DETAIL, MQMON.Q_MGR.value, acts=Acts.NO, types=_MESSAGES),
    Attribute("TPNAME", None, Text(64), acts=Acts.NO, types=_CALLERS),
    Attribute("TPROOT", None, Text(128), acts=Acts.NO, types=(AMQP,)),
    Attribute("TRPTYPE", None, _TRANSPORTS, 2, acts=Acts.NO, types=_LINES),
    Attribute("USECLTID", None, YES_NO, 0, acts=Acts.NO, types=(AMQP,)),
    Attribute("USEDLQ", None, YES_NO, 1, acts=Acts.NO, types=_MESSAGES),
    Attribute("USERID", None, Text(12), acts=Acts.NO, types=_CALLERS),
    Attribute("XMITQ", None, Name(), acts=Acts.NO, types=(SDR, SVR)),
)

_NO_TABLE = "no client channel table is written"


def _as_kept(*keywords: str) -> list[Attribute]:
    """Attributes of other channels, which here are kept only."""
    return [replace(row, acts=Acts.NO, types=()) for row in CHANNEL if row.keyword in keywords]


CLNTCONN = (
    Attribute("CHANNEL", None, CHANNEL_NAME, origin=Origin.NAME),
    Attribute("CHLTYPE", None, WordChoice({"CLNTCONN": CLIENT}), CLIENT, ignored=(CLIENT,), instead=_NO_TABLE),
    Attribute("AFFINITY", None, WordChoice({"NONE": 0, "PREFERRED": 1}), 1, acts=Acts.NO),
    Attribute("ALTDATE", None, Text(12), origin=Origin.KEPT),
    Attribute("ALTTIME", None, Text(8), origin=Origin.KEPT),
    Attribute("CERTLABL", None, Text(64), acts=Acts.NO),
    Attribute("CLNTWGHT", None, Integer(0, 99), 0, acts=Acts.NO),
    *_as_kept("COMPHDR", "COMPMSG", "CONNAME"),
    Attribute("DEFRECON", None, WordChoice({"NO": 0, "YES": 1, "QMGR": 2, "DISABLED": 3}), 0, acts=Acts.NO),
    Attribute("DESCR", None, Text(64), acts=Acts.PROGRAMS),
    *_as_kept("HBINT", "KAINT", "LOCLADDR", "MAXMSGL", "MODENAME", "PASSWORD"),
    Attribute("QMNAME", None, Text(48), acts=Acts.NO),
    *_as_kept("RCVDATA", "RCVEXIT", "SCYDATA", "SCYEXIT", "SENDDATA", "SENDEXIT", "SHARECNV", "SSLCIPH", "SSLPEER"),
    *_as_kept("TPNAME", "TRPTYPE", "USERID"),
)
"""Channels by which clients connect: a name space of their own."""
