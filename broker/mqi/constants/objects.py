"""Kinds of objects and of queues, and the values of handles."""

from enum import IntEnum


class MQOT(IntEnum):
    """The type of an object (ObjectType of MQOD)."""

    NONE = 0
    Q = 1
    NAMELIST = 2
    PROCESS = 3
    STORAGE_CLASS = 4
    Q_MGR = 5
    CHANNEL = 6
    AUTH_INFO = 7
    TOPIC = 8
    COMM_INFO = 9
    CF_STRUC = 10
    LISTENER = 11
    SERVICE = 12
    RESERVED_1 = 999
    ALL = 1001
    ALIAS_Q = 1002
    MODEL_Q = 1003
    LOCAL_Q = 1004
    REMOTE_Q = 1005
    SENDER_CHANNEL = 1007
    SERVER_CHANNEL = 1008
    REQUESTER_CHANNEL = 1009
    RECEIVER_CHANNEL = 1010
    CURRENT_CHANNEL = 1011
    SAVED_CHANNEL = 1012
    SVRCONN_CHANNEL = 1013
    CLNTCONN_CHANNEL = 1014
    SHORT_CHANNEL = 1015
    CHLAUTH = 1016
    REMOTE_Q_MGR_NAME = 1017
    PROT_POLICY = 1019
    TT_CHANNEL = 1020
    AMQP_CHANNEL = 1021
    AUTH_REC = 1022


class MQQT(IntEnum):
    """The type of a queue (MQIA_Q_TYPE)."""

    LOCAL = 1
    MODEL = 2
    ALIAS = 3
    REMOTE = 6
    CLUSTER = 7
    ALL = 1001


class MQCQT(IntEnum):
    """The type of a cluster queue on the queue manager that owns it (MQIA_CLUSTER_Q_TYPE)."""

    LOCAL_Q = 1
    ALIAS_Q = 2
    REMOTE_Q = 3
    Q_MGR_ALIAS = 4


class MQQDT(IntEnum):
    """The way in which a queue was made (MQIA_DEFINITION_TYPE)."""

    PREDEFINED = 1
    PERMANENT_DYNAMIC = 2
    TEMPORARY_DYNAMIC = 3
    SHARED_DYNAMIC = 4


class MQHC(IntEnum):
    """The special values of a connection handle."""

    UNASSOCIATED_HCONN = -3
    UNUSABLE_HCONN = -1
    DEF_HCONN = 0


class MQHO(IntEnum):
    """The special values of an object handle."""

    UNUSABLE_HOBJ = -1
    NONE = 0


class MQHM(IntEnum):
    """The special values of a message handle."""

    UNUSABLE_HMSG = -1
    NONE = 0
