"""The attributes of the queue manager, in the order in which DISPLAY prints them.

Those of functions that this queue manager does not have (clusters, accounting) are kept and shown only.
Secrets are not among them: a definition is shown to whoever may display it.
"""

from __future__ import annotations

from broker.commands.table.forms import Flag, Integer, Name, Text, WordChoice
from broker.commands.table.queues import CLUSTER_QUEUE_USE, COUNT, EVENT, YES_NO
from broker.commands.table.row import Acts, Attribute, Origin
from broker.mqi.constants.attribute_values import MQCLWL, MQEXPI, MQMMBI, MQMON, MQPROP, MQSP, MQSQQM
from broker.mqi.constants.attributes import MQCA, MQIA
from broker.mqi.constants.descriptor import UTF_8

SWITCH = WordChoice({"DISABLED": 0, "ENABLED": 1})
COLLECTION = WordChoice({"OFF": MQMON.OFF.value, "ON": MQMON.ON.value})
QUEUE_COLLECTION = WordChoice({"OFF": MQMON.OFF.value, "ON": MQMON.ON.value, "NONE": MQMON.NONE.value})
RECORDING = WordChoice({"DISABLED": 0, "QUEUE": 1, "MSG": 2})
CONTROL = WordChoice({"QMGR": 0, "MANUAL": 2})
UNDELIVERED = {"NORMAL": 0, "SAFE": 1, "DISCARD": 2, "KEEP": 3}
DETAIL = {
    "NONE": MQMON.NONE.value,
    "OFF": MQMON.OFF.value,
    "LOW": MQMON.LOW.value,
    "MEDIUM": MQMON.MEDIUM.value,
    "HIGH": MQMON.HIGH.value,
}
DETAIL_OF_AUTOMATIC_SENDERS = {"QMGR": MQMON.Q_MGR.value, **DETAIL}
IGQ_AUTHORITIES = {"DEF": 1, "CTX": 2, "ONLYIGQ": 3, "ALTIGQ": 4}  # MQIGQPA
CAPABILITY = WordChoice({"NO": 0, "YES": 1})
OFF = {"OFF": 0}
OWN_CLUSTER_QUEUE_USE = {word: CLUSTER_QUEUE_USE[word] for word in ("LOCAL", "ANY")}
_BY_TLS = "certificate and key are those of [tls] in broker.toml"

QMGR = (
    Attribute("QMNAME", MQCA.Q_MGR_NAME, Name(), origin=Origin.NAME),
    Attribute("ACCTCONO", MQIA.ACCOUNTING_CONN_OVERRIDE, SWITCH, 0, acts=Acts.NO),
    Attribute("ACCTINT", MQIA.ACCOUNTING_INTERVAL, Integer(0, 604800), 1800, acts=Acts.NO),
    Attribute("ACCTMQI", MQIA.ACCOUNTING_MQI, COLLECTION, 0, acts=Acts.NO),
    Attribute("ACCTQ", MQIA.ACCOUNTING_Q, QUEUE_COLLECTION, 0, acts=Acts.NO),
    Attribute("ACTIVREC", MQIA.ACTIVITY_RECORDING, RECORDING, 2, acts=Acts.NO),
    Attribute("ACTVCONO", MQIA.ACTIVITY_CONN_OVERRIDE, SWITCH, 0, acts=Acts.NO),
    Attribute("ACTVTRC", MQIA.ACTIVITY_TRACE, COLLECTION, 0, acts=Acts.NO),
    Attribute("ADVCAP", MQIA.ADVANCED_CAPABILITY, CAPABILITY, 0, Origin.KEPT),
    Attribute("ALTDATE", MQCA.ALTERATION_DATE, Text(12), origin=Origin.KEPT),
    Attribute("ALTTIME", MQCA.ALTERATION_TIME, Text(8), origin=Origin.KEPT),
    Attribute("AMQPCAP", MQIA.AMQP_CAPABILITY, CAPABILITY, 0, Origin.KEPT),
    Attribute("AUTHOREV", MQIA.AUTHORITY_EVENT, EVENT, 0),
    Attribute("BRIDGEEV", MQIA.BRIDGE_EVENT, EVENT, 0, quiet=True, acts=Acts.NO),
    Attribute("CCSID", MQIA.CODED_CHAR_SET_ID, Integer(1, 65535), UTF_8),
    Attribute("CERTLABL", MQCA.CERT_LABEL, Text(64), acts=Acts.NO, instead=_BY_TLS),
    Attribute("CERTVPOL", MQIA.CERT_VAL_POLICY, WordChoice({"ANY": 0, "RFC5280": 1}), 0, acts=Acts.NO),
    Attribute("CFCONLOS", MQIA.QMGR_CFCONLOS, WordChoice({"TERMINATE": 0, "TOLERATE": 1}), 0, quiet=True),
    Attribute("CHAD", MQIA.CHANNEL_AUTO_DEF, SWITCH, 0, acts=Acts.NO),
    Attribute("CHADEV", MQIA.CHANNEL_AUTO_DEF_EVENT, EVENT, 0, acts=Acts.NO),
    Attribute("CHADEXIT", MQCA.CHANNEL_AUTO_DEF_EXIT, Text(128), acts=Acts.NO),
    Attribute("CHLEV", MQIA.CHANNEL_EVENT, WordChoice({"DISABLED": 0, "ENABLED": 1, "EXCEPTION": 2}), 0),
    Attribute("CHLAUTH", MQIA.CHLAUTH_RECORDS, SWITCH, 1),
    Attribute("CLWLDATA", MQCA.CLUSTER_WORKLOAD_DATA, Text(32), acts=Acts.NO),
    Attribute("CLWLEXIT", MQCA.CLUSTER_WORKLOAD_EXIT, Text(128), acts=Acts.NO),
    Attribute("CLWLLEN", MQIA.CLUSTER_WORKLOAD_LENGTH, COUNT, 100, acts=Acts.NO),
    Attribute("CLWLMRUC", MQIA.CLWL_MRU_CHANNELS, Integer(1, 999999999), 999999999, acts=Acts.NO),
    Attribute("CLWLUSEQ", MQIA.CLWL_USEQ, WordChoice(OWN_CLUSTER_QUEUE_USE), MQCLWL.USEQ_LOCAL.value, acts=Acts.NO),
    Attribute("CMDEV", MQIA.COMMAND_EVENT, WordChoice({"DISABLED": 0, "ENABLED": 1, "NODISPLAY": 3}), 0, acts=Acts.NO),
    Attribute("CMDLEVEL", MQIA.COMMAND_LEVEL, COUNT, 940, Origin.KEPT),
    Attribute("COMMANDQ", MQCA.COMMAND_INPUT_Q_NAME, Name(), "SYSTEM.ADMIN.COMMAND.QUEUE", Origin.KEPT),
    Attribute("CONFIGEV", MQIA.CONFIGURATION_EVENT, EVENT, 0, acts=Acts.NO),
    Attribute("CONNAUTH", MQCA.CONN_AUTH, Name(), "SYSTEM.DEFAULT.AUTHINFO.IDPWOS"),
    Attribute("CPILEVEL", MQIA.CPI_LEVEL, COUNT, 100, Origin.KEPT, quiet=True),
    Attribute("CRDATE", MQCA.CREATION_DATE, Text(12), origin=Origin.KEPT),
    Attribute("CRTIME", MQCA.CREATION_TIME, Text(8), origin=Origin.KEPT),
    Attribute("CUSTOM", MQCA.CUSTOM, Text(128), acts=Acts.NO),
    Attribute("DEADQ", MQCA.DEAD_LETTER_Q_NAME, Name()),
    Attribute("DEFCLXQ", MQIA.DEF_CLUSTER_XMIT_Q_TYPE, WordChoice({"SCTQ": 0, "CHANNEL": 1}), 0, acts=Acts.NO),
    Attribute("DEFXMITQ", MQCA.DEF_XMIT_Q_NAME, Name()),
    Attribute("DESCR", MQCA.Q_MGR_DESC, Text(64), acts=Acts.PROGRAMS),
    Attribute("DISTL", MQIA.DIST_LISTS, YES_NO, 1, Origin.KEPT),
    Attribute(
        "EXPRYINT",
        MQIA.EXPIRY_INTERVAL,
        Integer(1, 99999999, {"OFF": MQEXPI.OFF.value}),
        MQEXPI.OFF.value,
        quiet=True,
        acts=Acts.NO,
    ),
    Attribute("GROUPUR", MQIA.GROUP_UR, SWITCH, 0, quiet=True, acts=Acts.NO),
    Attribute("IGQ", MQIA.INTRA_GROUP_QUEUING, SWITCH, 0, quiet=True),
    Attribute("IGQAUT", MQIA.IGQ_PUT_AUTHORITY, WordChoice(IGQ_AUTHORITIES), 1, quiet=True),
    Attribute("IGQUSER", MQCA.IGQ_USER_ID, Text(12), quiet=True),
    Attribute("IMGINTVL", MQIA.MEDIA_IMAGE_INTERVAL, Integer(1, 999999999, OFF), 60, acts=Acts.NO),
    Attribute("IMGLOGLN", MQIA.MEDIA_IMAGE_LOG_LENGTH, Integer(1, 999999999, OFF), 0, acts=Acts.NO),
    Attribute("IMGRCOVO", MQIA.MEDIA_IMAGE_RECOVER_OBJ, YES_NO, 1, acts=Acts.NO),
    Attribute("IMGRCOVQ", MQIA.MEDIA_IMAGE_RECOVER_Q, YES_NO, 1, acts=Acts.NO),
    Attribute("IMGSCHED", MQIA.MEDIA_IMAGE_SCHEDULING, WordChoice({"MANUAL": 0, "AUTO": 1}), 0, acts=Acts.NO),
    Attribute("INHIBTEV", MQIA.INHIBIT_EVENT, EVENT, 0),
    Attribute("IPADDRV", MQIA.IP_ADDRESS_VERSION, WordChoice({"IPV4": 0, "IPV6": 1}), 0, acts=Acts.NO),
    Attribute("LOCALEV", MQIA.LOCAL_EVENT, EVENT, 0, acts=Acts.NO),
    Attribute("LOGGEREV", MQIA.LOGGER_EVENT, EVENT, 0, acts=Acts.NO),
    Attribute(
        "MARKINT", MQIA.MSG_MARK_BROWSE_INTERVAL, Integer(0, 999999999, {"NOLIMIT": MQMMBI.UNLIMITED.value}), 5000
    ),
    Attribute("MAXHANDS", MQIA.MAX_HANDLES, COUNT, 256),
    Attribute("MAXMSGL", MQIA.MAX_MSG_LENGTH, Integer(32768, 104857600), 4194304),
    Attribute(
        "MAXPROPL",
        MQIA.MAX_PROPERTIES_LENGTH,
        Integer(0, 104857600, {"NOLIMIT": MQPROP.UNRESTRICTED_LENGTH.value}),
        MQPROP.UNRESTRICTED_LENGTH.value,
    ),
    Attribute("MAXPRTY", MQIA.MAX_PRIORITY, COUNT, 9, Origin.KEPT),
    Attribute("MAXUMSGS", MQIA.MAX_UNCOMMITTED_MSGS, Integer(1, 999999999), 10000),
    Attribute(
        "MONACLS",
        MQIA.MONITORING_AUTO_CLUSSDR,
        WordChoice(DETAIL_OF_AUTOMATIC_SENDERS),
        MQMON.Q_MGR.value,
        acts=Acts.NO,
    ),
    Attribute("MONCHL", MQIA.MONITORING_CHANNEL, WordChoice(DETAIL), MQMON.OFF.value, acts=Acts.NO),
    Attribute("MONQ", MQIA.MONITORING_Q, WordChoice(DETAIL), MQMON.OFF.value, acts=Acts.NO),
    Attribute("PARENT", MQCA.PARENT, Name(), acts=Acts.NO),
    Attribute("PERFMEV", MQIA.PERFORMANCE_EVENT, EVENT, 0),
    Attribute("PLATFORM", MQIA.PLATFORM, WordChoice({"UNIX": 3, "WINDOWS": 5}), 3, Origin.KEPT),
    Attribute("PSMODE", MQIA.PUBSUB_MODE, WordChoice({"DISABLED": 0, "COMPAT": 1, "ENABLED": 2}), 2, acts=Acts.NO),
    Attribute("PSCLUS", MQIA.PUBSUB_CLUSTER, SWITCH, 1, acts=Acts.NO),
    Attribute(
        "PSNPMSG",
        MQIA.PUBSUB_NP_MSG,
        WordChoice({word: UNDELIVERED[word] for word in ("DISCARD", "KEEP")}),
        2,
        acts=Acts.NO,
    ),
    Attribute("PSNPRES", MQIA.PUBSUB_NP_RESP, WordChoice(UNDELIVERED), 0, acts=Acts.NO),
    Attribute("PSRTYCNT", MQIA.PUBSUB_MAXMSG_RETRY_COUNT, COUNT, 5, acts=Acts.NO),
    Attribute("PSSYNCPT", MQIA.PUBSUB_SYNC_PT, WordChoice({"YES": 0, "IFPER": 1}), 1, acts=Acts.NO),
    Attribute("QMID", MQCA.Q_MGR_IDENTIFIER, Text(48), origin=Origin.KEPT),
    Attribute("QSGNAME", MQCA.QSG_NAME, Text(4), origin=Origin.LIVE, quiet=True),
    Attribute("REMOTEEV", MQIA.REMOTE_EVENT, EVENT, 0, acts=Acts.NO),
    Attribute("REPOS", MQCA.REPOSITORY_NAME, Name(), acts=Acts.NO),
    Attribute("REPOSNL", MQCA.REPOSITORY_NAMELIST, Name(), acts=Acts.NO),
    Attribute("REVDNS", MQIA.REVERSE_DNS_LOOKUP, WordChoice({"ENABLED": 0, "DISABLED": 1}), 0, acts=Acts.NO),
    Attribute("ROUTEREC", MQIA.TRACE_ROUTE_RECORDING, RECORDING, 2, acts=Acts.NO),
    Attribute("SCHINIT", MQIA.CHINIT_CONTROL, CONTROL, 0, acts=Acts.NO),
    Attribute("SCMDSERV", MQIA.CMD_SERVER_CONTROL, CONTROL, 0, acts=Acts.NO),
    Attribute("SPLCAP", MQIA.PROT_POLICY_CAPABILITY, SWITCH, 0, Origin.KEPT),
    Attribute(
        "SQQMNAME",
        MQIA.SHARED_Q_Q_MGR_NAME,
        WordChoice({"USE": MQSQQM.USE.value, "IGNORE": MQSQQM.IGNORE.value}),
        MQSQQM.USE.value,
        quiet=True,
    ),
    Attribute("SSLCRLNL", MQCA.SSL_CRL_NAMELIST, Name(), acts=Acts.NO),
    Attribute("SSLEV", MQIA.SSL_EVENT, EVENT, 0),
    Attribute("SSLFIPS", MQIA.SSL_FIPS_REQUIRED, YES_NO, 0, acts=Acts.NO),
    Attribute("SSLKEYR", MQCA.SSL_KEY_REPOSITORY, Text(256), acts=Acts.NO, instead=_BY_TLS),
    Attribute("SSLRKEYC", MQIA.SSL_RESET_COUNT, COUNT, 0, acts=Acts.NO),
    Attribute(
        "STATACLS",
        MQIA.STATISTICS_AUTO_CLUSSDR,
        WordChoice(DETAIL_OF_AUTOMATIC_SENDERS),
        MQMON.Q_MGR.value,
        acts=Acts.NO,
    ),
    Attribute("STATCHL", MQIA.STATISTICS_CHANNEL, WordChoice(DETAIL), MQMON.OFF.value, acts=Acts.NO),
    Attribute("STATINT", MQIA.STATISTICS_INTERVAL, Integer(0, 604800), 1800, acts=Acts.NO),
    Attribute("STATMQI", MQIA.STATISTICS_MQI, COLLECTION, 0, acts=Acts.NO),
    Attribute("STATQ", MQIA.STATISTICS_Q, QUEUE_COLLECTION, 0, acts=Acts.NO),
    Attribute("STRSTPEV", MQIA.START_STOP_EVENT, EVENT, 1, acts=Acts.NO),
    Attribute("SUITEB", MQIA.SUITE_B_STRENGTH, WordChoice({"NONE": 1, "128_BIT": 2, "192_BIT": 4}), 1, acts=Acts.NO),
    Attribute("SYNCPT", MQIA.SYNCPOINT, Flag(), MQSP.AVAILABLE.value, Origin.KEPT),
    Attribute("TREELIFE", MQIA.TREE_LIFE_TIME, Integer(0, 604000), 1800, acts=Acts.NO),
    Attribute("TRIGINT", MQIA.TRIGGER_INTERVAL, COUNT, 999999999),
    Attribute("VERSION", MQCA.VERSION, Text(8), "09040000", Origin.KEPT),
    Attribute("XRCAP", MQIA.XR_CAPABILITY, CAPABILITY, 0, Origin.KEPT),
)
