"""Asynchronous consumption: the values of MQCB and MQCTL, and of the callbacks they drive."""

from enum import IntEnum, IntFlag


class MQOP(IntFlag):
    """Operations of MQCB and MQCTL."""

    START = 0x1
    START_WAIT = 0x2
    STOP = 0x4
    REGISTER = 0x100
    DEREGISTER = 0x200
    SUSPEND = 0x1_0000
    RESUME = 0x2_0000


class MQCBT(IntEnum):
    """The type of a callback."""

    MESSAGE_CONSUMER = 1
    EVENT_HANDLER = 2


class MQCBDO(IntFlag):
    """On which occasions, besides messages, a callback is called."""

    NONE = 0
    START_CALL = 0x1
    STOP_CALL = 0x4
    REGISTER_CALL = 0x100
    DEREGISTER_CALL = 0x200
    FAIL_IF_QUIESCING = 0x2000
    EVENT_CALL = 0x4000
    MC_EVENT_CALL = 0x8000


class MQCBCT(IntEnum):
    """The reason for calling a callback."""

    START_CALL = 1
    STOP_CALL = 2
    REGISTER_CALL = 3
    DEREGISTER_CALL = 4
    EVENT_CALL = 5
    MSG_REMOVED = 6
    MSG_NOT_REMOVED = 7
    MC_EVENT_CALL = 8


class MQCBCF(IntFlag):
    """Flags that tell a callback about its consumer."""

    NONE = 0
    READA_BUFFER_EMPTY = 0x1


class MQCBD(IntEnum):
    """The special value of MaxMsgLength: a callback takes messages whole."""

    FULL_MSG_LENGTH = -1


class MQCS(IntEnum):
    """The state of a consumer."""

    NONE = 0
    SUSPENDED_TEMPORARY = 1
    SUSPENDED_USER_ACTION = 2
    SUSPENDED = 3
    STOPPED = 4


class MQCTLO(IntFlag):
    """The options of MQCTL."""

    NONE = 0
    THREAD_AFFINITY = 0x1
    FAIL_IF_QUIESCING = 0x2000


class MQEC(IntEnum):
    """The event that ended a wait which was set by signal (SET_SIGNAL)."""

    MSG_ARRIVED = 2
    WAIT_INTERVAL_EXPIRED = 3
    WAIT_CANCELED = 4
    Q_MGR_QUIESCING = 5
    CONNECTION_QUIESCING = 6
