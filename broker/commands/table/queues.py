"""The attributes of queues, in the order in which DISPLAY prints them.

Many are kept and shown without effect, so that a definition moved between queue managers keeps them: `acts` tells
which, and a command that sets one of them is told so.
"""

from __future__ import annotations

from dataclasses import replace

from broker.commands.table.dispositions import OF_OBJECT, OF_SECURITY
from broker.commands.table.forms import Flag, Integer, Name, Text, WordChoice
from broker.commands.table.row import Acts, Attribute, Origin
from broker.commands.table.structures import STRUCTURE_NAME
from broker.core.names.definitions import OWN
from broker.mqi.constants.attribute_values import (
    MQBND,
    MQCLWL,
    MQIT,
    MQMDS,
    MQMON,
    MQNPM,
    MQPROP,
    MQPRT,
    MQREADA,
    MQTT,
    MQUS,
)
from broker.mqi.constants.attributes import MQCA, MQIA
from broker.mqi.constants.objects import MQOT, MQQDT, MQQT
from broker.mqi.constants.options import MQOO

COUNT = Integer(0, 999999999)
DIGIT = Integer(0, 9)
PERCENT = Integer(0, 100)
ENABLED_WHEN_0 = WordChoice({"ENABLED": 0, "DISABLED": 1})  # GET and PUT: MQQA counts inhibition
EVENT = WordChoice({"ENABLED": 1, "DISABLED": 0})
YES_NO = WordChoice({"NO": 0, "YES": 1})
AS_QUEUE_MANAGER = MQMON.Q_MGR.value
NOLIMIT = {"NOLIMIT": -1}

QUEUE_TYPES = {
    "QLOCAL": MQQT.LOCAL.value,
    "QMODEL": MQQT.MODEL.value,
    "QALIAS": MQQT.ALIAS.value,
    "QREMOTE": MQQT.REMOTE.value,
}
DEFINITION_TYPES = {
    "PREDEFINED": MQQDT.PREDEFINED.value,
    "PERMDYN": MQQDT.PERMANENT_DYNAMIC.value,
    "TEMPDYN": MQQDT.TEMPORARY_DYNAMIC.value,
    "SHAREDYN": MQQDT.SHARED_DYNAMIC.value,
}
COLLECTION = {"QMGR": AS_QUEUE_MANAGER, "ON": MQMON.ON.value, "OFF": MQMON.OFF.value}
MONITORING = {
    "QMGR": AS_QUEUE_MANAGER,
    "OFF": MQMON.OFF.value,
    "NONE": MQMON.NONE.value,
    "LOW": MQMON.LOW.value,
    "MEDIUM": MQMON.MEDIUM.value,
    "HIGH": MQMON.HIGH.value,
}
CLUSTER_QUEUE_USE = {
    "QMGR": MQCLWL.USEQ_AS_Q_MGR.value,
    "ANY": MQCLWL.USEQ_ANY.value,
    "LOCAL": MQCLWL.USEQ_LOCAL.value,
}
BINDINGS = {
    "OPEN": MQBND.BIND_ON_OPEN.value,
    "NOTFIXED": MQBND.BIND_NOT_FIXED.value,
    "GROUP": MQBND.BIND_ON_GROUP.value,
}
INDEX_TYPES = {
    "NONE": MQIT.NONE.value,
    "MSGID": MQIT.MSG_ID.value,
    "CORRELID": MQIT.CORREL_ID.value,
    "GROUPID": MQIT.GROUP_ID.value,
    "MSGTOKEN": MQIT.MSG_TOKEN.value,
}
READ_AHEAD = {"NO": MQREADA.NO.value, "YES": MQREADA.YES.value, "DISABLED": MQREADA.DISABLED.value}
PROPERTIES = {
    "COMPAT": MQPROP.COMPATIBILITY.value,
    "NONE": MQPROP.NONE.value,
    "ALL": MQPROP.ALL.value,
    "FORCE": MQPROP.FORCE_MQRFH2.value,
}
TRIGGER_TYPES = {
    "FIRST": MQTT.FIRST.value,
    "EVERY": MQTT.EVERY.value,
    "DEPTH": MQTT.DEPTH.value,
    "NONE": MQTT.NONE.value,
}

QSGDISP = Attribute("QSGDISP", MQIA.QSG_DISP, OF_OBJECT, OWN, Origin.KEPT, quiet=True)
QSGDISP_OF_SECURITY = Attribute("QSGDISP", None, OF_SECURITY, OWN, Origin.KEPT, quiet=True)
"""A command says by an option which object it is about; the definition then keeps that."""

QLOCAL = (
    Attribute("QUEUE", MQCA.Q_NAME, Name(), origin=Origin.NAME),
    Attribute("TYPE", MQIA.Q_TYPE, WordChoice(QUEUE_TYPES), origin=Origin.KIND),
    Attribute("ACCTQ", MQIA.ACCOUNTING_Q, WordChoice(COLLECTION), AS_QUEUE_MANAGER, acts=Acts.NO),
    Attribute("ALTDATE", MQCA.ALTERATION_DATE, Text(12), origin=Origin.KEPT),
    Attribute("ALTTIME", MQCA.ALTERATION_TIME, Text(8), origin=Origin.KEPT),
    Attribute("BOQNAME", MQCA.BACKOUT_REQ_Q_NAME, Name(), acts=Acts.PROGRAMS),
    Attribute("BOTHRESH", MQIA.BACKOUT_THRESHOLD, COUNT, 0, acts=Acts.PROGRAMS),
    Attribute("CAPEXPRY", MQIA.CAP_EXPIRY, Integer(1, 999999999, NOLIMIT), -1, quiet=True, acts=Acts.NO),
    Attribute("CFSTRUCT", MQCA.CF_STRUC_NAME, STRUCTURE_NAME, quiet=True),
    Attribute("CLUSNL", MQCA.CLUSTER_NAMELIST, Name(), acts=Acts.NO),
    Attribute("CLUSTER", MQCA.CLUSTER_NAME, Name(), acts=Acts.NO),
    Attribute("CLCHNAME", MQCA.CLUS_CHL_NAME, Name(20, generic=True), acts=Acts.NO),
    Attribute("CLWLPRTY", MQIA.CLWL_Q_PRIORITY, DIGIT, 0, acts=Acts.NO),
    Attribute("CLWLRANK", MQIA.CLWL_Q_RANK, DIGIT, 0, acts=Acts.NO),
    Attribute("CLWLUSEQ", MQIA.CLWL_USEQ, WordChoice(CLUSTER_QUEUE_USE), MQCLWL.USEQ_AS_Q_MGR.value, acts=Acts.NO),
    Attribute("CRDATE", MQCA.CREATION_DATE, Text(12), origin=Origin.KEPT),
    Attribute("CRTIME", MQCA.CREATION_TIME, Text(8), origin=Origin.KEPT),
    Attribute("CURDEPTH", MQIA.CURRENT_Q_DEPTH, COUNT, 0, Origin.LIVE),
    Attribute("CUSTOM", MQCA.CUSTOM, Text(128), acts=Acts.NO),
    Attribute("DEFBIND", MQIA.DEF_BIND, WordChoice(BINDINGS), MQBND.BIND_ON_OPEN.value, acts=Acts.NO),
    Attribute("DEFPRTY", MQIA.DEF_PRIORITY, DIGIT, 0),
    Attribute("DEFPSIST", MQIA.DEF_PERSISTENCE, YES_NO, 0),
    Attribute(
        "DEFPRESP",
        MQIA.DEF_PUT_RESPONSE_TYPE,
        WordChoice({"SYNC": MQPRT.SYNC_RESPONSE.value, "ASYNC": MQPRT.ASYNC_RESPONSE.value}),
        MQPRT.SYNC_RESPONSE.value,
    ),
    Attribute("DEFREADA", MQIA.DEF_READ_AHEAD, WordChoice(READ_AHEAD), MQREADA.NO.value),
    Attribute(
        "DEFSOPT",
        MQIA.DEF_INPUT_OPEN_OPTION,
        WordChoice({"EXCL": MQOO.INPUT_EXCLUSIVE.value, "SHARED": MQOO.INPUT_SHARED.value}),
        MQOO.INPUT_SHARED.value,
    ),
    Attribute("DEFTYPE", MQIA.DEFINITION_TYPE, WordChoice(DEFINITION_TYPES), MQQDT.PREDEFINED.value, Origin.KEPT),
    Attribute("DESCR", MQCA.Q_DESC, Text(64), acts=Acts.PROGRAMS),
    Attribute("DISTL", MQIA.DIST_LISTS, YES_NO, 0, settable=True, acts=Acts.NO),
    Attribute("GET", MQIA.INHIBIT_GET, ENABLED_WHEN_0, 0, settable=True),
    Attribute("HARDENBO", MQIA.HARDEN_GET_BACKOUT, Flag(), 1),
    Attribute("IMGRCOVQ", MQIA.MEDIA_IMAGE_RECOVER_Q, WordChoice({"NO": 0, "YES": 1, "QMGR": 2}), 2, acts=Acts.NO),
    Attribute("INDXTYPE", MQIA.INDEX_TYPE, WordChoice(INDEX_TYPES), MQIT.NONE.value, quiet=True, acts=Acts.NO),
    Attribute("INITQ", MQCA.INITIATION_Q_NAME, Name()),
    Attribute("IPPROCS", MQIA.OPEN_INPUT_COUNT, COUNT, 0, Origin.LIVE),
    Attribute("MAXDEPTH", MQIA.MAX_Q_DEPTH, COUNT, 5000),
    Attribute("MAXMSGL", MQIA.MAX_MSG_LENGTH, Integer(0, 104857600), 4194304),
    Attribute("MAXFSIZE", MQIA.MAX_Q_FILE_SIZE, Integer(20, 267386880, {"DEFAULT": -1}), -1, acts=Acts.NO),
    Attribute("MONQ", MQIA.MONITORING_Q, WordChoice(MONITORING), AS_QUEUE_MANAGER, acts=Acts.NO),
    Attribute(
        "MSGDLVSQ",
        MQIA.MSG_DELIVERY_SEQUENCE,
        WordChoice({"PRIORITY": MQMDS.PRIORITY.value, "FIFO": MQMDS.FIFO.value}),
        MQMDS.PRIORITY.value,
    ),
    Attribute("TRIGGER", MQIA.TRIGGER_CONTROL, Flag(), 0, settable=True),  # printed as NOTRIGGER by default: hence here
    Attribute(
        "NPMCLASS",
        MQIA.NPM_CLASS,
        WordChoice({"NORMAL": MQNPM.CLASS_NORMAL.value, "HIGH": MQNPM.CLASS_HIGH.value}),
        MQNPM.CLASS_NORMAL.value,
    ),
    Attribute("OPPROCS", MQIA.OPEN_OUTPUT_COUNT, COUNT, 0, Origin.LIVE),
    # The numbers of these two words are not published; they follow the other attributes of their manner.
    Attribute(
        "OTELPCTL",
        MQIA.OTEL_PROPAGATION_CONTROL,
        WordChoice({"QMGR": -3, "MANUAL": 0, "AUTO": 1}),
        -3,
        quiet=True,
        acts=Acts.NO,
    ),
    Attribute("OTELTRAC", MQIA.OTEL_TRACE, WordChoice(COLLECTION), AS_QUEUE_MANAGER, quiet=True, acts=Acts.NO),
    Attribute("PROCESS", MQCA.PROCESS_NAME, Name()),
    Attribute("PUT", MQIA.INHIBIT_PUT, ENABLED_WHEN_0, 0, settable=True),
    Attribute("PROPCTL", MQIA.PROPERTY_CONTROL, WordChoice(PROPERTIES), MQPROP.COMPATIBILITY.value),
    Attribute("QDEPTHHI", MQIA.Q_DEPTH_HIGH_LIMIT, PERCENT, 80),
    Attribute("QDEPTHLO", MQIA.Q_DEPTH_LOW_LIMIT, PERCENT, 20),
    Attribute("QDPHIEV", MQIA.Q_DEPTH_HIGH_EVENT, EVENT, 0),
    Attribute("QDPLOEV", MQIA.Q_DEPTH_LOW_EVENT, EVENT, 0),
    Attribute("QDPMAXEV", MQIA.Q_DEPTH_MAX_EVENT, EVENT, 1),
    QSGDISP,
    Attribute("QSVCIEV", MQIA.Q_SERVICE_INTERVAL_EVENT, WordChoice({"NONE": 0, "HIGH": 1, "OK": 2}), 0),
    Attribute("QSVCINT", MQIA.Q_SERVICE_INTERVAL, COUNT, 999999999),
    Attribute("RETINTVL", MQIA.RETENTION_INTERVAL, COUNT, 999999999, acts=Acts.PROGRAMS),
    Attribute("SCOPE", MQIA.SCOPE, WordChoice({"QMGR": 1, "CELL": 2}), 1, acts=Acts.NO),
    Attribute("SHARE", MQIA.SHAREABILITY, Flag(), 1),
    Attribute("STATQ", MQIA.STATISTICS_Q, WordChoice(COLLECTION), AS_QUEUE_MANAGER, acts=Acts.NO),
    Attribute("STREAMQ", MQCA.STREAM_QUEUE_NAME, Name(), acts=Acts.NO, instead="no message is copied"),
    Attribute("STRMQOS", MQIA.STREAM_QUEUE_QOS, WordChoice({"BESTEF": 0, "MUSTDUP": 1}), 0, acts=Acts.NO),
    Attribute("TRIGDATA", MQCA.TRIGGER_DATA, Text(64), settable=True),
    Attribute("TRIGDPTH", MQIA.TRIGGER_DEPTH, Integer(1, 999999999), 1, settable=True),
    Attribute("TRIGMPRI", MQIA.TRIGGER_MSG_PRIORITY, DIGIT, 0, settable=True),
    Attribute("TRIGTYPE", MQIA.TRIGGER_TYPE, WordChoice(TRIGGER_TYPES), MQTT.FIRST.value, settable=True),
    Attribute(
        "USAGE",
        MQIA.USAGE,
        WordChoice({"NORMAL": MQUS.NORMAL.value, "XMITQ": MQUS.TRANSMISSION.value}),
        MQUS.NORMAL.value,
    ),
)

LOCAL: dict[str, Attribute] = {row.keyword: row for row in QLOCAL}

_NOT_OF_A_MODEL = (
    "CLUSNL", "CLUSTER", "CLCHNAME", "CLWLPRTY", "CLWLRANK", "CLWLUSEQ", "CURDEPTH", "DEFBIND", "IPPROCS", "OPPROCS",
    "SCOPE",
)  # fmt: skip
_OF_A_MODEL = {
    "DEFSOPT": MQOO.INPUT_EXCLUSIVE.value,
    "HARDENBO": 0,
    "SHARE": 0,
}
"""The defaults of a model queue that differ from those of a local one."""


def _of_a_model(row: Attribute) -> Attribute:
    """The row of QMODEL for one of QLOCAL. MQSET cannot come to a model queue: opening it makes another one."""
    if row.keyword == "DEFTYPE":
        kinds = {word: DEFINITION_TYPES[word] for word in ("TEMPDYN", "PERMDYN", "SHAREDYN")}
        return replace(row, form=WordChoice(kinds), default=MQQDT.TEMPORARY_DYNAMIC.value, origin=Origin.GIVEN)
    return replace(row, default=_OF_A_MODEL.get(row.keyword, row.default), settable=False)


QMODEL = tuple(_of_a_model(row) for row in QLOCAL if row.keyword not in _NOT_OF_A_MODEL)

QALIAS = (
    *(
        LOCAL[keyword]
        for keyword in (
            "QUEUE", "TYPE", "ALTDATE", "ALTTIME", "CAPEXPRY", "CLUSNL", "CLUSTER", "CLWLPRTY", "CLWLRANK", "CUSTOM",
            "DEFBIND", "DEFPRTY", "DEFPSIST", "DEFPRESP", "DEFREADA", "DESCR", "GET", "PUT", "PROPCTL", "QSGDISP",
            "SCOPE",
        )
    ),
    Attribute("TARGET", MQCA.BASE_OBJECT_NAME, Name()),
    Attribute(
        "TARGTYPE", MQIA.BASE_TYPE, WordChoice({"QUEUE": MQOT.Q.value, "TOPIC": MQOT.TOPIC.value}), MQOT.Q.value,
        acts=Acts.NO, instead="there are no topics, and no program can open the alias",
    ),
)  # fmt: skip

QREMOTE = (
    *(
        LOCAL[keyword]
        for keyword in (
            "QUEUE", "TYPE", "ALTDATE", "ALTTIME", "CAPEXPRY", "CLUSNL", "CLUSTER", "CLWLPRTY", "CLWLRANK", "CUSTOM",
            "DEFBIND", "DEFPRTY", "DEFPSIST", "DEFPRESP", "DESCR", "PUT", "QSGDISP",
        )
    ),
    Attribute("RQMNAME", MQCA.REMOTE_Q_MGR_NAME, Name()),
    Attribute("RNAME", MQCA.REMOTE_Q_NAME, Name()),
    LOCAL["SCOPE"],
    Attribute("XMITQ", MQCA.XMIT_Q_NAME, Name()),
)  # fmt: skip
