"""The objects that a queue manager creates when it is new (semantics 9.6): the default objects, from which DEFINE takes
what it is not given, and the system queues that programs and tools expect.

Names, kinds and attributes are those of a new queue manager of IBM MQ, with two exceptions under the durable defaults:
a queue keeps its messages over a restart unless it is told not to (DEFPSIST(YES)), and clients prove who they are. The
queues of functions that this queue manager does not have (clusters, publish/subscribe, channels between queue managers)
are there for the programs that open them; nothing of its own reads or writes them, but for the two that event messages
go to. One is not IBM's, the queue of the audit messages with which tools record what administrators have done to
messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from broker.commands.table.attributes import create
from broker.commands.table.channel_rules import ORDER
from broker.commands.table.kinds import KINDS
from broker.core.security.facts import Check, Rule, RuleType, UserSource, rule_key
from broker.core.security.partner import DEFAULT_CHANNEL
from broker.mqi.constants.attribute_values import MQMDS, MQMON, MQREADA, MQTT, MQUS
from broker.mqi.constants.objects import MQQDT
from broker.mqi.constants.options import MQOO

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from broker.core.names.definitions import Definition

Given: TypeAlias = "Mapping[str, int | str]"

DURABLE_KINDS: Final = ("QLOCAL", "QALIAS", "QREMOTE")
"""The kinds whose default object has DEFPSIST(YES). A model queue makes temporary queues, which take no persistent
messages.
"""

_UNLIMITED = {"MAXDEPTH": 999999999}
_LONGEST = {"MAXMSGL": 104857600}
_PERSISTENT = {"DEFPSIST": 1}
_FIFO = {"MSGDLVSQ": MQMDS.FIFO.value}
_UNTRIGGERED = {"TRIGTYPE": MQTT.NONE.value}
_EXCLUSIVE = {"DEFSOPT": MQOO.INPUT_EXCLUSIVE.value, "SHARE": 0}
_SHARED = {"DEFSOPT": MQOO.INPUT_SHARED.value, "SHARE": 1, "HARDENBO": 1}  # of a model queue
_UNCOUNTED = {"ACCTQ": MQMON.OFF.value, "STATQ": MQMON.OFF.value}
_TRANSMISSION = {"USAGE": MQUS.TRANSMISSION.value}
_PERMANENT = {"DEFTYPE": MQQDT.PERMANENT_DYNAMIC.value}
_READ_AHEAD = {"DEFREADA": MQREADA.YES.value}

_RECORDS = {**_UNCOUNTED, **_UNTRIGGERED, "MAXDEPTH": 3000}
_EVENTS = {**_EXCLUSIVE, **_UNTRIGGERED}
_SHORT_EVENTS = {**_EVENTS, "MAXDEPTH": 3000, "MAXMSGL": 9000}
_COMMANDS = {**_EVENTS, "MAXDEPTH": 3000, "MAXMSGL": 32762}
_INITIATION = {**_UNTRIGGERED, "MAXDEPTH": 1000, "MAXMSGL": 1000}
_STREAM = {**_PERSISTENT, **_FIFO}
_KEPT = {**_PERSISTENT, **_UNLIMITED}
_DEFERRED = {**_EXCLUSIVE, **_FIFO, **_UNLIMITED, "QDPMAXEV": 0}
_NOTHING: Given = {}

SYSTEM_QUEUES: Final[tuple[tuple[str, str, str, Given], ...]] = (
    ("QLOCAL", "SYSTEM.ADMIN.ACCOUNTING.QUEUE", "accounting messages", _RECORDS),
    ("QLOCAL", "SYSTEM.ADMIN.ACTIVITY.QUEUE", "activity reports", _NOTHING),
    ("QLOCAL", "SYSTEM.ADMIN.AUDIT.QUEUE", "audit messages", {**_KEPT, **_UNTRIGGERED}),
    ("QLOCAL", "SYSTEM.ADMIN.CHANNEL.EVENT", "channel events", _SHORT_EVENTS),
    ("QLOCAL", "SYSTEM.ADMIN.COMMAND.EVENT", "command events", _EVENTS),
    ("QLOCAL", "SYSTEM.ADMIN.COMMAND.QUEUE", "commands in PCF", _COMMANDS),
    ("QLOCAL", "SYSTEM.ADMIN.CONFIG.EVENT", "configuration events", _EVENTS),
    ("QLOCAL", "SYSTEM.ADMIN.LOGGER.EVENT", "logger events", _SHORT_EVENTS),
    ("QLOCAL", "SYSTEM.ADMIN.PERFM.EVENT", "performance events", _SHORT_EVENTS),
    ("QLOCAL", "SYSTEM.ADMIN.PUBSUB.EVENT", "publish/subscribe events", _NOTHING),
    ("QLOCAL", "SYSTEM.ADMIN.QMGR.EVENT", "queue manager events", _COMMANDS),
    ("QLOCAL", "SYSTEM.ADMIN.STATISTICS.QUEUE", "statistics messages", _RECORDS),
    ("QLOCAL", "SYSTEM.ADMIN.TRACE.ACTIVITY.QUEUE", "activity trace messages", _RECORDS),
    ("QLOCAL", "SYSTEM.ADMIN.TRACE.ROUTE.QUEUE", "trace-route replies", _NOTHING),
    ("QLOCAL", "SYSTEM.AMQP.COMMAND.QUEUE", "commands in PCF of the AMQP service", _COMMANDS),
    ("QLOCAL", "SYSTEM.AUTH.DATA.QUEUE", "authority records", _UNLIMITED),
    ("QLOCAL", "SYSTEM.BROKER.ADMIN.STREAM", "publish/subscribe: administration stream", _STREAM),
    ("QLOCAL", "SYSTEM.BROKER.CONTROL.QUEUE", "publish/subscribe: control queue", _STREAM),
    ("QLOCAL", "SYSTEM.BROKER.DEFAULT.STREAM", "publish/subscribe: default stream", _STREAM),
    (
        "QLOCAL",
        "SYSTEM.BROKER.INTER.BROKER.COMMUNICATIONS",
        "publish/subscribe: from broker to broker",
        {**_STREAM, **_UNLIMITED, **_LONGEST, "SHARE": 0},
    ),
    ("QLOCAL", "SYSTEM.CHANNEL.INITQ", "channel initiation", {**_EVENTS, "MAXDEPTH": 1000, "MAXMSGL": 2000}),
    (
        "QLOCAL",
        "SYSTEM.CHANNEL.SYNCQ",
        "what channels have sent and received",
        {**_PERSISTENT, **_UNTRIGGERED, "MAXDEPTH": 20000, "MAXMSGL": 20000, "QDEPTHLO": 40},
    ),
    ("QLOCAL", "SYSTEM.CHLAUTH.DATA.QUEUE", "channel authentication records", {**_UNLIMITED, **_LONGEST}),
    ("QLOCAL", "SYSTEM.CICS.INITIATION.QUEUE", "default initiation queue of CICS", _INITIATION),
    ("QLOCAL", "SYSTEM.CLUSTER.COMMAND.QUEUE", "cluster commands", _UNLIMITED),
    ("QLOCAL", "SYSTEM.CLUSTER.HISTORY.QUEUE", "cluster history", _UNLIMITED),
    ("QLOCAL", "SYSTEM.CLUSTER.REPOSITORY.QUEUE", "cluster repository", _UNLIMITED),
    (
        "QMODEL",
        "SYSTEM.CLUSTER.TRANSMIT.MODEL.QUEUE",
        "model of cluster transmission queues",
        {**_SHARED, **_PERMANENT, **_UNLIMITED, **_TRANSMISSION},
    ),
    ("QLOCAL", "SYSTEM.CLUSTER.TRANSMIT.QUEUE", "cluster transmission queue", {**_UNLIMITED, **_TRANSMISSION}),
    ("QLOCAL", "SYSTEM.DDELAY.LOCAL.QUEUE", "messages with a delivery delay", _DEFERRED),
    ("QLOCAL", "SYSTEM.DEAD.LETTER.QUEUE", "undelivered messages", {**_UNTRIGGERED, **_UNLIMITED}),
    ("QLOCAL", "SYSTEM.DEFAULT.INITIATION.QUEUE", "default initiation queue", _INITIATION),
    ("QLOCAL", "SYSTEM.DOTNET.XARECOVERY.QUEUE", "transactions of .NET programs", _KEPT),
    (
        "QMODEL",
        "SYSTEM.DURABLE.MODEL.QUEUE",
        "model of managed queues of durable subscriptions",
        {**_SHARED, **_PERMANENT, **_UNLIMITED},
    ),
    ("QLOCAL", "SYSTEM.DURABLE.SUBSCRIBER.QUEUE", "durable subscriptions", {**_UNLIMITED, **_LONGEST}),
    ("QLOCAL", "SYSTEM.HIERARCHY.STATE", "publish/subscribe: state of the hierarchy", _KEPT),
    ("QLOCAL", "SYSTEM.INTER.QMGR.CONTROL", "publish/subscribe: control between queue managers", _KEPT),
    ("QLOCAL", "SYSTEM.INTER.QMGR.FANREQ", "publish/subscribe: requests for proxy subscriptions", _KEPT),
    ("QLOCAL", "SYSTEM.INTER.QMGR.PUBS", "publish/subscribe: publications between queue managers", _KEPT),
    ("QLOCAL", "SYSTEM.INTERNAL.REPLY.QUEUE", "internal replies", {**_UNLIMITED, "MAXMSGL": 32762}),
    ("QLOCAL", "SYSTEM.INTERNAL.REQUEST.QUEUE", "internal requests", {**_UNLIMITED, "MAXMSGL": 32762}),
    ("QMODEL", "SYSTEM.JMS.TEMPQ.MODEL", "model of temporary queues of JMS programs", {**_SHARED, **_LONGEST}),
    ("QMODEL", "SYSTEM.MQEXPLORER.REPLY.MODEL", "model of reply queues of MQ Explorer", {"HARDENBO": 1, **_READ_AHEAD}),
    (
        "QMODEL",
        "SYSTEM.MQSC.REPLY.QUEUE",
        "model of reply queues of MQSC",
        {"HARDENBO": 1, **_UNTRIGGERED, **_UNLIMITED, "MAXMSGL": 32762},
    ),
    (
        "QMODEL",
        "SYSTEM.NDURABLE.MODEL.QUEUE",
        "model of managed queues of other subscriptions",
        {**_SHARED, **_UNLIMITED, **_READ_AHEAD},
    ),
    ("QLOCAL", "SYSTEM.PENDING.DATA.QUEUE", "messages deferred by JMS programs", _DEFERRED),
    ("QLOCAL", "SYSTEM.PROTECTION.ERROR.QUEUE", "messages that failed their protection", _KEPT),
    ("QLOCAL", "SYSTEM.PROTECTION.POLICY.QUEUE", "policies of message protection", _KEPT),
    ("QLOCAL", "SYSTEM.REST.REPLY.QUEUE", "replies to REST requests", {**_UNLIMITED, "QDPMAXEV": 0}),
    ("QLOCAL", "SYSTEM.RETAINED.PUB.QUEUE", "retained publications", {**_FIFO, **_UNLIMITED, **_LONGEST}),
    ("QLOCAL", "SYSTEM.SELECTION.EVALUATION.QUEUE", "selectors: evaluation", {**_UNLIMITED, **_LONGEST}),
    ("QLOCAL", "SYSTEM.SELECTION.VALIDATION.QUEUE", "selectors: validation", _UNLIMITED),
)
"""Kind, name, description, and the attributes that are not the kind's factory settings."""


ASSERTED: Final = {"CHCKCLNT": Check.REQUIRED_ADMIN.value}
"""IBM MQ's way to check clients, which believes those that say that they are no administrators."""

SYSTEM_CHANNELS: Final[tuple[tuple[str, str, Given], ...]] = (
    ("SYSTEM.AUTO.SVRCONN", "channels that are made when clients ask for them", _NOTHING),
    (DEFAULT_CHANNEL, "clients that name no channel", {"SHARECNV": 999999999, **_LONGEST}),
)

_ANYBODY: Given = {"TYPE": RuleType.ADDRESSMAP.value, "ADDRESS": "*"}
_AS_CHANNEL: Given = {**_ANYBODY, "USERSRC": UserSource.CHANNEL.value}
_BLOCKED: Given = {"TYPE": RuleType.BLOCKUSER.value}

SYSTEM_RULES: Final[tuple[tuple[str, str, Given], ...]] = (
    ("*", "no administrators", {**_BLOCKED, "USERLIST": "*MQADMIN"}),
    ("SYSTEM.*", "nobody by channels of the system", {**_ANYBODY, "USERSRC": UserSource.NOACCESS.value}),
    ("SYSTEM.ADMIN.SVRCONN", "tools of administrators", _AS_CHANNEL),
    (DEFAULT_CHANNEL, "administrators too", {**_BLOCKED, "USERLIST": "nobody"}),
    (DEFAULT_CHANNEL, "whoever proves who they are", {**_AS_CHANNEL, "CHCKCLNT": Check.REQUIRED.value}),
)
"""The channels, the description and the attributes of channel authentication records, the oldest first. The first three
are IBM MQ's.
"""


def default_objects(now: datetime, *, durable: bool) -> list[Definition]:
    """Their definitions, created `now`. `durable`: local, alias and remote queues are DEFPSIST(YES) by default, and no
    client is believed who has not proved who it is.
    """
    templates = [
        create(kind.noun, kind.template, now, **_of_template(kind.noun, durable=durable))
        for kind in KINDS.values()
        if kind.template
    ]
    queues = [create(kind, name, now, DESCR=text, **given) for kind, name, text, given in SYSTEM_QUEUES]
    channels = [create("CHANNEL", name, now, DESCR=text, **given) for name, text, given in SYSTEM_CHANNELS]
    rules = [_rule(now, order, *each) for order, each in enumerate(SYSTEM_RULES, 1)]
    return [*templates, *queues, *channels, *rules]


def _of_template(kind: str, *, durable: bool) -> Given:
    """Return the attributes of a default object that are not the kind's factory settings."""
    if kind == "AUTHINFO":
        return _NOTHING if durable else ASSERTED
    return _PERSISTENT if durable and kind in DURABLE_KINDS else _NOTHING


def _rule(now: datetime, order: int, channels: str, text: str, given: Given) -> Definition:
    attributes: dict[str, int | str] = {"CHLAUTH": channels, "DESCR": text, **given, ORDER: order}
    return create("CHLAUTH", rule_key(Rule.of(attributes)), now, **attributes)
