"""Publish and subscribe: options of subscriptions and values of the attributes of topics."""

from enum import IntEnum, IntFlag


class MQSO(IntFlag):
    """Options for making, altering or resuming a subscription (MQSUB)."""

    NONE = 0
    NON_DURABLE = NONE
    READ_AHEAD_AS_Q_DEF = NONE
    ALTER = 0x1
    CREATE = 0x2
    RESUME = 0x4
    DURABLE = 0x8
    GROUP_SUB = 0x10
    MANAGED = 0x20
    SET_IDENTITY_CONTEXT = 0x40
    NO_MULTICAST = 0x80
    FIXED_USERID = 0x100
    ANY_USERID = 0x200
    PUBLICATIONS_ON_REQUEST = 0x800
    NEW_PUBLICATIONS_ONLY = 0x1000
    FAIL_IF_QUIESCING = 0x2000
    ALTERNATE_USER_AUTHORITY = 0x4_0000
    WILDCARD_CHAR = 0x10_0000
    WILDCARD_TOPIC = 0x20_0000
    SET_CORREL_ID = 0x40_0000
    SCOPE_QMGR = 0x400_0000
    NO_READ_AHEAD = 0x800_0000
    READ_AHEAD = 0x1000_0000


class MQSR(IntEnum):
    """The action that is asked of a subscription (MQSUBRQ)."""

    ACTION_PUBLICATION = 1


class MQSRO(IntFlag):
    """The options of MQSUBRQ."""

    NONE = 0
    FAIL_IF_QUIESCING = 0x2000


class MQSUB(IntEnum):
    """The subscriptions that a topic allows, or that are asked about, by durability (MQIA_DURABLE_SUB)."""

    DURABLE_ALL = -1
    DURABLE_AS_PARENT = 0
    DURABLE_ALLOWED = 1
    DURABLE_YES = DURABLE_ALLOWED
    DURABLE_INHIBITED = 2
    DURABLE_NO = DURABLE_INHIBITED


class MQSCOPE(IntEnum):
    """The scope of publications and subscriptions (MQIA_PUB_SCOPE, MQIA_SUB_SCOPE)."""

    ALL = 0
    AS_PARENT = 1
    QMGR = 4


class MQMC(IntEnum):
    """The use of multicast by a topic (MQIA_MULTICAST)."""

    AS_PARENT = 0
    ENABLED = 1
    DISABLED = 2
    ONLY = 3
