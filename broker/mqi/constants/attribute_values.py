"""The values that attributes of queues and queue managers take, as MQINQ tells them and MQSET accepts them."""

from enum import IntEnum


class MQIAV(IntEnum):
    """Answers of MQINQ for an integer attribute that has no value."""

    UNDEFINED = -2
    NOT_APPLICABLE = -1


class MQQA(IntEnum):
    """The switches of a queue: GET, PUT, SHARE and HARDENBO.

    Each pair is 0 and 1, so a member prints with the name that its number has in the GET pair.
    """

    GET_ALLOWED = 0
    PUT_ALLOWED = GET_ALLOWED
    NOT_SHAREABLE = GET_ALLOWED
    BACKOUT_NOT_HARDENED = GET_ALLOWED
    GET_INHIBITED = 1
    PUT_INHIBITED = GET_INHIBITED
    SHAREABLE = GET_INHIBITED
    BACKOUT_HARDENED = GET_INHIBITED


class MQTC(IntEnum):
    """Triggering of a queue: on or off (MQIA_TRIGGER_CONTROL)."""

    OFF = 0
    ON = 1


class MQTT(IntEnum):
    """The condition on which a queue triggers (MQIA_TRIGGER_TYPE)."""

    NONE = 0
    FIRST = 1
    EVERY = 2
    DEPTH = 3


class MQUS(IntEnum):
    """The usage of a local queue (MQIA_USAGE)."""

    NORMAL = 0
    TRANSMISSION = 1


class MQMDS(IntEnum):
    """In which order a queue delivers (MQIA_MSG_DELIVERY_SEQUENCE)."""

    PRIORITY = 0
    FIFO = 1


class MQNPM(IntEnum):
    """The class of nonpersistent messages: may they outlive a restart that is not a failure (MQIA_NPM_CLASS)?"""

    CLASS_NORMAL = 0
    CLASS_HIGH = 10


class MQIT(IntEnum):
    """The field by which a queue is indexed (MQIA_INDEX_TYPE)."""

    NONE = 0
    MSG_ID = 1
    CORREL_ID = 2
    MSG_TOKEN = 4
    GROUP_ID = 5


class MQBND(IntEnum):
    """The default binding of handles to one of several cluster queues (MQIA_DEF_BIND)."""

    BIND_ON_OPEN = 0
    BIND_NOT_FIXED = 1
    BIND_ON_GROUP = 2


class MQPRT(IntEnum):
    """The default response of a put (MQIA_DEF_PUT_RESPONSE_TYPE)."""

    RESPONSE_AS_PARENT = 0
    SYNC_RESPONSE = 1
    ASYNC_RESPONSE = 2


class MQREADA(IntEnum):
    """The reading ahead of messages for a handle (MQIA_DEF_READ_AHEAD)."""

    NO = 0
    YES = 1
    DISABLED = 2
    INHIBITED = 3
    BACKLOG = 4


class MQPROP(IntEnum):
    """The form of message properties for a program that uses no message handle (MQIA_PROPERTY_CONTROL)."""

    UNRESTRICTED_LENGTH = -1
    COMPATIBILITY = 0
    NONE = 1
    ALL = 2
    FORCE_MQRFH2 = 3
    V6COMPAT = 4


class MQDL(IntEnum):
    """Support of distribution lists (MQIA_DIST_LISTS)."""

    NOT_SUPPORTED = 0
    SUPPORTED = 1


class MQSP(IntEnum):
    """Availability of units of work (MQIA_SYNCPOINT)."""

    NOT_AVAILABLE = 0
    AVAILABLE = 1


class MQSQQM(IntEnum):
    """The queue manager name of an open of a shared queue: honoured or not (MQIA_SHARED_Q_Q_MGR_NAME)."""

    USE = 0
    IGNORE = 1


class MQCLWL(IntEnum):
    """The preference of a put for the local instance of a cluster queue (MQIA_CLWL_USEQ)."""

    USEQ_AS_Q_MGR = -3
    USEQ_LOCAL = 0
    USEQ_ANY = 1


class MQUSEDLQ(IntEnum):
    """The use of the dead-letter queue for undeliverable publications (MQIA_USE_DEAD_LETTER_Q)."""

    AS_PARENT = 0
    NO = 1
    YES = 2


class MQMON(IntEnum):
    """The level at which monitoring data and statistics are collected."""

    Q_MGR = -3
    NOT_AVAILABLE = -1
    NONE = NOT_AVAILABLE
    OFF = 0
    DISABLED = OFF
    ON = 1
    ENABLED = ON
    LOW = 17
    MEDIUM = 33
    HIGH = 65


class MQEXPI(IntEnum):
    """The special value of MQIA_EXPIRY_INTERVAL, which otherwise is a number of seconds."""

    OFF = 0


class MQMMBI(IntEnum):
    """The special value of MQIA_MSG_MARK_BROWSE_INTERVAL, which otherwise is a number of milliseconds."""

    UNLIMITED = -1


class MQNC(IntEnum):
    """The limit of MQIA_NAME_COUNT."""

    MAX_NAMELIST_NAME_COUNT = 256


class MQRL(IntEnum):
    """The special value of a returned length."""

    UNDEFINED = -1


class MQDSB(IntEnum):
    """The size of the buffers of a shared message data set (MQIA_CF_SMDS_BUFFERS)."""

    DEFAULT = 0
    _8K = 1
    _16K = 2
    _32K = 3
    _64K = 4
    _128K = 5
    _256K = 6
    _512K = 7
    _1024K = 8
    _1M = _1024K


class MQDSE(IntEnum):
    """The expansion of a shared message data set: allowed or not."""

    DEFAULT = 0
    YES = 1
    NO = 2
